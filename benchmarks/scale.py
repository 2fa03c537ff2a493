"""Measure how cost grows with the number of labels, by running labeltree on synthetic data of several sizes.

usage: python benchmarks/scale.py DIR [--like amazon-670k] [--scales 1/27 1/9 1/3 1]

A finished size is a line of DIR/scale.jsonl and is not run again. The reports next to it (scale.json, .csv,
.md, .png, .svg) cover all lines. Data and model of a size are deleted as soon as it is measured.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from fractions import Fraction
from pathlib import Path

import program
import scale_report

from labeltree import InputError, __version__
from labeltree.base.system import free_disk, human_bytes, threads_to_use
from labeltree.data.published import SOURCES

SVM_BYTES = 20  # upper bound per feature or label in a file
SPARE = 1 << 30  # disk space to leave free


class Skipped(Exception):
    """A size that cannot be run on this machine; the message is the reason."""


def call(*command):
    """Run a Python program that prints JSON; return the parsed JSON, seconds and peak memory."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        start = time.perf_counter()
        process = subprocess.Popen([sys.executable, *map(str, command)], stdout=out, stderr=err)
        try:
            _, status, usage = os.wait4(process.pid, 0)
        except BaseException:
            process.terminate()
            process.wait()
            raise
        seconds = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0), err.seek(0)
        messages = err.read().decode().strip().splitlines()
        if process.returncode == 2:
            raise Skipped(messages[-1].removeprefix("error: ") if messages else f"{command} failed")
        if process.returncode < 0:  # usually the out-of-memory killer
            raise Skipped(f"killed by signal {-process.returncode}, possibly out of memory")
        if process.returncode:
            last = f": {messages[-1]}" if messages else ""
            raise InputError(f"`{' '.join(map(str, command))}` exited with code {process.returncode}{last}")
        peak = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
        return json.loads(out.read()), seconds, peak


def check_disk(folder, needed, what):
    free = free_disk(folder)
    if needed + SPARE > free:
        raise Skipped(
            f"not enough disk space: {what} and {human_bytes(SPARE)} to spare need "
            f"{human_bytes(needed + SPARE)}, {human_bytes(free)} are free"
        )


def data_bytes(like, scale):
    """Estimate the size of the two data files."""
    shape = SOURCES[like].scaled(scale)
    n_nonzeros = shape.n_instances * (shape.features_per_instance + shape.labels_per_instance)
    return round(1.2 * n_nonzeros * SVM_BYTES)


def run_size(folder, like, scale, seed, threads):
    """Run synth, estimate, train and evaluate at one size; return its record."""
    here, seconds, memory = Path(__file__).parent, {}, {}

    def step(name, *command):
        print(f"{like} x {scale:.4g}: {name} ...", file=sys.stderr, flush=True)
        found, seconds[f"{name}_process"], memory[name] = call(*command)
        return found

    check_disk(folder, data_bytes(like, scale), "the data")
    train, test, model = folder / "train.svm", folder / "test.svm", folder / "model"
    cli = ("-m", "labeltree")
    given = ("--threads", threads, "--json")
    step("synth", *cli, "synth", folder, "--like", like, "--scale", scale, "--seed", seed, "--json")
    estimate = step("estimate", *cli, "estimate", train, "--seed", seed, *given)
    check_disk(folder, estimate["model_bytes"], "the model")
    trained = step("train", *cli, "train", train, model, "--seed", seed, *given)
    evaluated = step("evaluate", *cli, "evaluate", model, test, *given)
    work = step("count", here / "training_work.py", train, model)
    on_disk = sum(f.stat().st_size for f in model.rglob("*") if f.is_file() and f.name != "manifest.json")
    if not estimate["model_bytes"] == trained["planned_bytes"] == on_disk:
        raise InputError(
            f"{like} x {scale:.4g}: {estimate['model_bytes']:,} bytes were estimated, "
            f"{trained['planned_bytes']:,} planned, and {on_disk:,} are on disk"
        )
    return {
        "like": like,
        "scale": scale,
        "seed": seed,
        "threads": threads,
        "version": __version__,
        **{name: trained[name] for name in ("labels", "instances", "features", "nodes", "depth", "weights")},
        **work,
        "alpha": estimate["alpha"],
        "estimated_bytes": estimate["model_bytes"],
        "disk_bytes": on_disk,
        "estimated_memory": estimate["training_memory_bytes"],
        "seconds": {**trained["seconds"], "predict": evaluated["seconds"], **seconds},
        "memory": memory,
        **{f"P@{k}": 100 * evaluated[f"P@{k}"] for k in (1, 3, 5)},
        "milliseconds_per_row": evaluated["milliseconds_per_row"],
    }


def read_records(path):
    """Return the finished sizes. An incomplete last line is dropped, also from the file."""
    if not path.exists():
        return []
    *whole, rest = path.read_text().split("\n")
    if rest:
        print(f"{path}: dropped an incomplete last line", file=sys.stderr)
        path.write_text("".join(f"{line}\n" for line in whole))
    try:
        return [json.loads(line) for line in whole]
    except ValueError as error:
        raise InputError(
            f"damaged line ({error})", file=path, hint="fix the file, or move it away to measure again"
        ) from None


def run_all(folder, like, scales, seed, threads, keep):
    """Run the sizes that are missing and append each to the log; return all records and the skipped sizes."""
    log = folder / "scale.jsonl"
    records, skipped = read_records(log), []
    settings = {"like": like, "seed": seed, "threads": threads, "version": __version__}
    for scale in sorted(scales):
        wanted = {**settings, "scale": scale}
        if any(all(record[key] == value for key, value in wanted.items()) for record in records):
            continue
        place = folder / f"size-{like}-{scale:.6g}"
        shutil.rmtree(place, ignore_errors=True)  # left by an interrupted run
        place.mkdir()
        try:
            records.append(run_size(place, like, scale, seed, threads))
        except Skipped as reason:
            skipped.append(f"{like} x {scale:.4g} was skipped: {reason}")
            print(skipped[-1], file=sys.stderr)
            continue
        finally:
            if not keep:
                shutil.rmtree(place, ignore_errors=True)
        with log.open("a") as file:
            file.write(json.dumps(records[-1]) + "\n")
    return records, skipped


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="DIR")
    parser.add_argument(
        "--like", default="amazon-670k", choices=SOURCES, metavar="NAME", help="a preset of synth"
    )
    parser.add_argument(
        "--scales", nargs="+", default=["1/27", "1/9", "1/3", "1"], metavar="S", help="0.1 or 1/9"
    )
    parser.add_argument("--threads", type=int, help="default: all CPUs")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", action="store_true", help="keep data and models")
    options = parser.parse_args()
    try:
        options.scales = [float(Fraction(scale)) for scale in options.scales]
    except (ValueError, ZeroDivisionError):
        raise InputError(
            f"scales are {' '.join(options.scales)}, expected numbers such as 0.1 or 1/9"
        ) from None
    if min(options.scales) <= 0:
        raise InputError(f"scale is {min(options.scales):g}, expected a number above 0")
    if options.folder.exists() and not options.folder.is_dir():
        raise InputError("not a directory", file=options.folder, hint="choose another name")
    return options


def main():
    options = parse()
    threads = threads_to_use(options.threads)
    options.folder.mkdir(parents=True, exist_ok=True)
    records, skipped = run_all(
        options.folder, options.like, options.scales, options.seed, threads, options.keep
    )
    if not records:
        raise InputError("all sizes were skipped", hint="choose smaller --scales")
    scale_report.write(options.folder, records, skipped)
    print((options.folder / "scale.md").read_text())


if __name__ == "__main__":
    program.run(main, "stopped; finished sizes are kept")
