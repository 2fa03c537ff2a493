"""Write results.json, table.md and the plots from the rows measured so far.

usage: python benchmarks/peers/report.py OUT [--no-plots]
"""

import argparse
import json
import os
import platform
from pathlib import Path

from summary import compare, read_rows, summarize

MEGA = 1e-6
# Heading, figure, factor. Fewer is better but for P@k.
COLUMNS = (
    ("read s", "read_s", 1),
    ("tree s", "tree_s", 1),
    ("tree + train s", "train_s", 1),
    ("peak MB", "peak_bytes", MEGA),
    ("of it training MB", "above_bytes", MEGA),
    ("model MB", "model_bytes", MEGA),
    ("batch ms a row", "batch_ms", 1),
    ("single p50 ms", "single_p50_ms", 1),
    ("single p99 ms", "single_p99_ms", 1),
)
PRECISIONS = ("P@1", "P@3", "P@5")
USUAL_SINGLE_ROWS = 1000


def number(value):
    """Three significant digits, without exponents."""
    if value == 0:
        return "0"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    digits = max(0, 2 - _magnitude(value))
    return f"{value:.{digits}f}"


def _magnitude(value):
    return int(f"{abs(value):.2e}".split("e")[1])


def cell(figure, factor=1, write=number):
    """A median, with the least and the most where they differ from it."""
    if figure is None:
        return "-"
    median, least, most = (write(factor * figure[key]) for key in ("median", "min", "max"))
    return median if least == most else f"{median} ({least}..{most})"


def markdown(heads, lines):
    """A table whose columns are wide enough to be read as text."""
    widths = [max(len(line[i]) for line in [heads, *lines]) for i in range(len(heads))]

    def row(cells):
        padded = [cells[0].ljust(widths[0])]
        padded += [c.rjust(width) for c, width in zip(cells[1:], widths[1:], strict=True)]
        return f"| {' | '.join(padded)} |"

    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    return "\n".join([row(heads), row(rule), *map(row, lines)])


def measured_table(figures):
    heads = ["", "runs", *(head for head, _, _ in COLUMNS), *PRECISIONS]
    lines = []
    for name, of in figures.items():
        values = [cell(of[key], factor) for _, key, factor in COLUMNS]
        values += [cell(of[key], write=lambda v: f"{v:.2f}") for key in PRECISIONS]
        lines.append([name, str(of["runs"]), *values])
    return markdown(heads, lines)


def comparison_table(comparison):
    heads = ["labeltree against", "tree + train", "batch", "single p50", *PRECISIONS, "peak memory"]
    lines = []
    for name, of in comparison.items():
        faster = ["-" if ratio is None else f"{number(ratio)} x" for ratio in of["faster"].values()]
        points = [_signed(of["difference"][key], "{:+.2f}") for key in PRECISIONS]
        memory = of["difference"]["peak_bytes"]
        lines.append([name, *faster, *points, _signed(memory and MEGA * memory, "{:+,.0f} MB")])
    return markdown(heads, lines)


def _signed(value, form):
    return "-" if value is None else form.format(value)


def remarks(figures):
    """What the numbers do not say: settings, versions, failures, fewer queries than usual."""
    lines = []
    for name, of in figures.items():
        version = f" {of['version']}" if of["version"] else ""
        parts = [f"{name}{version}: {of['settings']}", *of["remarks"]]
        if of["single_rows"] not in (None, USUAL_SINGLE_ROWS):
            parts.append(f"single queries over {of['single_rows']} rows")
        lines.append("- " + "; ".join(parts))
    return "\n".join(lines)


def describe(about):
    if not about:
        return ""
    return (
        f"{about['train_rows']:,} rows to train on, {about['test_rows']:,} to test, "
        f"{about['features']:,} features ({about['features_a_row']:.1f} a row), "
        f"{about['labels']:,} labels ({about['labels_a_row']:.1f} a row).\n\n"
    )


def tables(results):
    """The text of table.md."""
    machine = results["machine"]
    text = "# labeltree and its peers\n\n"
    text += (
        f"{machine['processor']}, {' or '.join(map(str, machine['threads']))} threads. Medians, with "
        "least..most where they differ; how each column is measured stands in benchmarks/README.md.\n"
    )
    for dataset, of in results["datasets"].items():
        text += f"\n## {dataset}\n\n{describe(of['about'])}"
        text += f"{measured_table(of['figures'])}\n\n{remarks(of['figures'])}\n"
    text += (
        "\n## Times faster\n\nThe peer's median over labeltree's; below 1, labeltree is slower. "
        "P@k and peak memory are differences, labeltree minus the peer.\n"
    )
    for dataset, of in results["datasets"].items():
        if of["comparison"]:
            text += f"\n### {dataset}\n\n{comparison_table(of['comparison'])}\n"
    return text


def processor():
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    named = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor() or platform.machine())


def collect(out):
    """Everything that the report says, as one object."""
    rows = read_rows(out / "rows.jsonl")
    datasets = {}
    for dataset, figures in summarize(rows).items():
        path = out / "data" / dataset / "about.json"
        about = json.loads(path.read_text()) if path.exists() else None
        datasets[dataset] = {"about": about, "figures": figures, "comparison": compare(figures)}
    machine = {
        "processor": processor(),
        "processors": os.cpu_count(),
        "system": platform.platform(),
        "threads": sorted({row["threads"] for row in rows}),
    }
    return {"machine": machine, "datasets": datasets}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--no-plots", action="store_true")
    given = parser.parse_args()
    if not (given.out / "rows.jsonl").exists():
        parser.error(f"{given.out} has no rows.jsonl; run the benchmark first")
    results = collect(given.out)
    (given.out / "results.json").write_text(json.dumps(results, indent=1) + "\n")
    (given.out / "table.md").write_text(tables(results))
    if not given.no_plots:
        from plots import draw  # matplotlib is not needed for the tables

        for dataset, of in results["datasets"].items():
            draw(dataset, of["figures"], given.out / "plots")
    print(f"{given.out / 'table.md'}, {given.out / 'results.json'} and {given.out / 'plots'} are written.")


if __name__ == "__main__":
    main()
