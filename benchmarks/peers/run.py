"""Run labeltree and its peers on the same data, interleaved, and write a report.

usage: python benchmarks/peers/run.py DATA [--out build/bench] [--peers ...] [--datasets ...] [--variants ...]

Every finished row is appended to OUT/rows.jsonl immediately. This process does not import NumPy, because its
own resident memory counts towards the peak memory of the processes it starts.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from environments import NoEnvironment, python_of
from registry import PEERS, VARIANTS, choose
from sources import find_datasets
from summary import not_measured, read_rows

from labeltree.base.system import available_memory, human_bytes

HERE = Path(__file__).resolve().parent
# For libraries that have no option for the number of threads.
THREAD_VARIABLES = ("OMP", "OPENBLAS", "MKL", "NUMBA", "RAYON")


def words(text):
    return text.replace(",", " ").split()


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "data", help="directory with one subdirectory per dataset, with train.svm and test.svm"
    )
    parser.add_argument("--out", type=Path, default=Path("build/bench"))
    parser.add_argument("--envs", type=Path, help="directory of the peers' environments (default: OUT/envs)")
    parser.add_argument("--peers", type=words, default=list(PEERS), help=f"some of: {' '.join(PEERS)}")
    parser.add_argument("--variants", type=words, default=[], help=f"some of: {' '.join(VARIANTS)}")
    parser.add_argument("--datasets", type=words, default=[], help="default: all of DATA")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument(
        "--patience", type=float, default=240, help="do not repeat a run that took longer, in seconds"
    )
    parser.add_argument("--timeout", type=float, default=3600, help="stop a run after this time, in seconds")
    parser.add_argument(
        "--continue", dest="resume", action="store_true", help="keep the existing rows and run the rest"
    )
    parser.add_argument("--no-plots", action="store_true", help="write only the tables")
    options = parser.parse_args()
    found = find_datasets(options.data)
    if not found:
        parser.error(f"{options.data} has no subdirectory with train.svm and test.svm")
    options.datasets = options.datasets or list(found)
    for kind, names, known in (
        ("peer", options.peers, PEERS),
        ("variant", options.variants, VARIANTS),
        ("dataset", options.datasets, found),
    ):
        for name in names:
            if name not in known:
                parser.error(f"unknown {kind} {name!r}, expected one of: {' '.join(known)}")
    if min(options.rounds, options.threads) < 1:
        parser.error("rounds and threads must be at least 1")
    rows = read_rows(options.out / "rows.jsonl")
    if rows and not options.resume:
        parser.error(f"{options.out} already has rows; add --continue (CONTINUE=1), or choose another OUT")
    if any(row["threads"] != options.threads for row in rows):
        parser.error(f"{options.out} has rows with {rows[0]['threads']} threads; choose another OUT")
    options.sources = {name: found[name] for name in options.datasets}
    options.envs = options.envs or options.out / "envs"
    return options


class Bench:
    """A run of the benchmark: its rows so far, and how to measure the next one."""

    def __init__(self, options):
        self.options = options
        self.rows_path = options.out / "rows.jsonl"
        self.logs = options.out / "logs"
        self.logs.mkdir(parents=True, exist_ok=True)
        self.rows = read_rows(self.rows_path)
        self.resumed = bool(self.rows)
        self.pythons = {}

    def prepare(self, dataset):
        """Write the matrices and return their description; on failure, print the reason and return None."""
        folder = self.options.out / "data" / dataset
        command = [sys.executable, HERE / "prepare.py", self.options.sources[dataset], folder]
        result = subprocess.run(
            [*command, f"--threads={self.options.threads}"], capture_output=True, text=True
        )
        if result.returncode:
            print(f"{dataset}: skipped, {last_line(result.stderr)}", flush=True)
            return None
        return json.loads(result.stdout)

    def find_python(self, peer):
        """Return the Python of a peer, creating its environment if missing; on failure, return the error."""
        try:
            return python_of(peer, self.options.envs, self.logs / "environments.log")
        except NoEnvironment as error:
            return error

    def find_row(self, dataset, name, number):
        key = (dataset, name, number)
        return next((r for r in self.rows if (r["dataset"], r["competitor"], r["round"]) == key), None)

    def turn(self, about, competitor, number):
        """Run one competitor once, unless the row exists or must not be repeated."""
        dataset = about["name"]
        first = self.find_row(dataset, competitor.name, 1)
        if self.find_row(dataset, competitor.name, number):
            return
        if number > 1 and first and (not_measured(first) or first["wall_s"] > self.options.patience):
            return
        row = {
            "dataset": dataset,
            "competitor": competitor.name,
            "round": number,
            "threads": self.options.threads,
            "settings": competitor.settings,
            "load": os.getloadavg()[0],
        }
        start = time.monotonic()
        row |= self.measure(about, competitor)
        row["wall_s"] = time.monotonic() - start
        self.rows.append(row)
        with open(self.rows_path, "a") as file:
            # Start a new line: the last one may be incomplete.
            file.write("\n" * self.resumed + json.dumps(row) + "\n")
        self.resumed = False
        outcome = not_measured(row) or f"trained in {row['train_s']:.2f} s, P@1 {row['P@1']:.2f}"
        print(f"{dataset}, round {number}, {competitor.name}: {outcome}", flush=True)

    def measure(self, about, competitor):
        needed = competitor.cell_bytes * about["features"] * about["labels"]
        if needed > available_memory():
            return {
                "skipped": f"not enough memory: about {human_bytes(needed)} needed, "
                f"{human_bytes(available_memory())} available"
            }
        python = self.pythons[competitor.peer]
        if isinstance(python, NoEnvironment):
            return {"error": str(python)}
        row = self.start(python, "run", about["name"], competitor)
        if competitor.reads and "error" not in row:
            reading = self.start(python, "read", about["name"], competitor)
            if "error" in reading:
                row["read_error"] = reading["error"]
            else:
                row["read_s"] = reading["read_s"]
        return row

    def start(self, python, step, dataset, competitor):
        """Run measure.py in a separate process and return its row, or its error."""
        log = self.logs / f"{dataset}-{competitor.name}.log"
        work = self.options.out / "work"
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir()
        data = self.options.out / "data" / dataset
        command = [python, HERE / "measure.py", step, competitor.peer, data, work]
        command += [f"--threads={self.options.threads}", f"--options={json.dumps(competitor.options)}"]
        threads = {f"{name}_NUM_THREADS": str(self.options.threads) for name in THREAD_VARIABLES}
        with open(log, "a") as stream:
            process = subprocess.Popen(
                list(map(str, command)),
                stdout=subprocess.PIPE,
                stderr=stream,
                text=True,
                env=os.environ | threads,
                start_new_session=True,
            )
            try:
                output, _ = process.communicate(timeout=self.options.timeout)
            except subprocess.TimeoutExpired:
                return {"error": f"stopped after {self.options.timeout:.0f} s"}
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
                shutil.rmtree(work, ignore_errors=True)
        if output:  # written last, so it is complete even if a library crashes at exit
            return json.loads(output)
        return {"error": describe_failure(process.returncode, log)}


def describe_failure(code, log):
    if code == -signal.SIGKILL:
        return "killed, probably out of memory"
    if code < 0:
        return f"killed by signal {signal.Signals(-code).name}"
    return last_line(log.read_text(errors="replace"))


def last_line(text):
    lines = [line.strip() for line in text.replace("\r", "\n").splitlines() if line.strip()]
    return lines[-1][:300] if lines else "failed without a message"


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped; use --continue to resume"))
    options = parse_arguments()
    bench = Bench(options)
    competitors = choose(options.peers, options.variants)
    bench.pythons = {peer: bench.find_python(peer) for peer in dict.fromkeys(c.peer for c in competitors)}
    for dataset in options.datasets:
        about = bench.prepare(dataset)
        for number in range(1, options.rounds + 1) if about else ():
            for competitor in competitors:
                bench.turn(about, competitor, number)
    plots = ["--no-plots"] if options.no_plots else []
    sys.exit(subprocess.run([sys.executable, HERE / "report.py", options.out, *plots]).returncode)


if __name__ == "__main__":
    main()
