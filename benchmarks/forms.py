"""Compare reading the same documents from a TSV file, lists, frames and Arrow: CPU seconds and peak memory.

usage: python benchmarks/forms.py [FILE]      FILE is TSV with an id, labels and text; default: synthetic

Each form is read in a process of its own, --repeats times in turn; memory is what reading adds to the texts.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import program
import text

import labeltree

FORMS = ("tsv", "lists", "polars", "pandas", "arrow")


def load(form, path, rows):
    """Return documents in some form; the lines of the file are repeated as often as necessary."""
    lines = path.read_text(encoding="utf-8").splitlines()
    lines = [lines[row % len(lines)].split("\t", 2) for row in range(rows)]
    texts, labels = [line[2] for line in lines], [line[1] for line in lines]
    if form == "lists":
        return texts, [cell.split() for cell in labels]
    columns = {"text": texts, "labels": labels}
    if form == "polars":
        import polars

        return polars.DataFrame(columns), None
    import pandas

    frame = pandas.DataFrame(columns)
    if form == "pandas":
        return frame, None
    import pyarrow

    return pyarrow.Table.from_pandas(frame), None


def measure(form, path, rows):
    """Read once, and print CPU seconds and the memory that reading needed beside the data."""
    data, labels = (path, None) if form == "tsv" else load(form, path, rows)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.process_time()
    options = {} if form in ("tsv", "lists") else {"separator": " "}
    dataset = labeltree.read_data(data, labels, threads=1, **options)
    seconds = time.process_time() - start
    used = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    print(json.dumps({"seconds": seconds, "bytes": used, "rows": dataset.n_instances}))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("file", nargs="?", type=Path)
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--form", choices=FORMS, help=argparse.SUPPRESS)  # of a process
    options = parser.parse_args()
    if options.form:
        measure(options.form, options.file, options.rows)
        return
    with tempfile.TemporaryDirectory(prefix="labeltree-data-") as place:
        source = options.file or Path(place, "synthetic.tsv")
        if not options.file:
            text.write_synthetic(source)
        lines = source.read_text(encoding="utf-8").splitlines(keepends=True)
        path = Path(place, "repeated.tsv")
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(lines[row % len(lines)] for row in range(options.rows))
        found = {form: [] for form in FORMS}
        for _ in range(options.repeats):
            for form in FORMS:
                command = [sys.executable, __file__, str(path), "--rows", str(options.rows), "--form", form]
                done = subprocess.run(command, capture_output=True, text=True, check=True)
                found[form].append(json.loads(done.stdout))
    least = {form: min(run["seconds"] for run in runs) for form, runs in found.items()}
    print(f"{found['tsv'][0]['rows']:,} documents, {sum(map(len, lines)) / len(lines):.0f} characters each")
    for form, runs in found.items():
        memory, share = min(run["bytes"] for run in runs) / 1e6, least[form] / least["tsv"]
        print(f"{form:7} {least[form]:6.2f} CPU s, {share:4.2f} of tsv, {memory:7.0f} MB more")


if __name__ == "__main__":
    program.run(main)
