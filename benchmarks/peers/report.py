"""Write results.json, table.md and the plots from the rows measured so far.

usage: python benchmarks/peers/report.py OUT [--no-plots]
"""

import argparse
import json
import os
import platform
from pathlib import Path

from registry import title_of
from summary import compare, read_rows, summarize

MEGA = 1e-6
# Heading, figure, factor.
COLUMNS = (
    ("Read s", "read_s", 1),
    ("Tree s", "tree_s", 1),
    ("Tree + train s", "train_s", 1),
    ("Peak MB", "peak_bytes", MEGA),
    ("Training MB", "above_bytes", MEGA),
    ("Model MB", "model_bytes", MEGA),
    ("Batch ms per row", "batch_ms", 1),
    ("Single p50 ms", "single_p50_ms", 1),
    ("Single p99 ms", "single_p99_ms", 1),
)
PRECISIONS = ("P@1", "P@3", "P@5")
USUAL_SINGLE_ROWS = 1000


def number(value):
    """Format three significant digits, without exponents."""
    if value == 0:
        return "0"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    digits = max(0, 2 - _magnitude(value))
    return f"{value:.{digits}f}"


def _magnitude(value):
    return int(f"{abs(value):.2e}".split("e")[1])


def percentage(value):
    """Format P@k."""
    return f"{value:.2f}"


def cell(figure, factor=1, write=number):
    """Format a median, with minimum and maximum if they differ from it."""
    if figure is None:
        return "-"
    median, least, most = (write(factor * figure[key]) for key in ("median", "min", "max"))
    return median if least == most else f"{median} ({least}..{most})"


def markdown(heads, lines):
    """Format a table, with columns padded to be readable as text."""
    widths = [max(len(line[i]) for line in [heads, *lines]) for i in range(len(heads))]

    def row(cells):
        padded = [cells[0].ljust(widths[0])]
        padded += [c.rjust(width) for c, width in zip(cells[1:], widths[1:], strict=True)]
        return f"| {' | '.join(padded)} |"

    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    return "\n".join([row(heads), row(rule), *map(row, lines)])


def measured_table(figures):
    heads = ["", "Runs", *(head for head, _, _ in COLUMNS), *PRECISIONS]
    lines = []
    for name, of in figures.items():
        values = [cell(of[key], factor) for _, key, factor in COLUMNS]
        values += [cell(of[key], write=percentage) for key in PRECISIONS]
        lines.append([title_of(name), str(of["runs"]), *values])
    return markdown(heads, lines)


def comparison_table(comparison):
    heads = ["labeltree vs.", "Tree + train", "Batch", "Single p50", *PRECISIONS, "Peak memory"]
    lines = []
    for name, of in comparison.items():
        faster = ["-" if ratio is None else f"{number(ratio)} x" for ratio in of["faster"].values()]
        points = [_signed(of["difference"][key], "{:+.2f}") for key in PRECISIONS]
        memory = of["difference"]["peak_bytes"]
        lines.append([title_of(name), *faster, *points, _signed(memory and MEGA * memory, "{:+,.0f} MB")])
    return markdown(heads, lines)


def _signed(value, form):
    return "-" if value is None else form.format(value)


def remarks(figures):
    """List settings, versions, failures, and unusual numbers of queries."""
    lines = []
    for name, of in figures.items():
        version = f" {of['version']}" if of["version"] else ""
        parts = [f"{title_of(name)}{version}: {of['settings']}", *of["remarks"]]
        if of["single_rows"] not in (None, USUAL_SINGLE_ROWS):
            parts.append(f"single queries over {of['single_rows']} rows")
        lines.append("- " + "; ".join(parts))
    return "\n".join(lines)


def describe(about):
    if not about:
        return ""
    return (
        f"{about['train_rows']:,} training and {about['test_rows']:,} test rows, "
        f"{about['features']:,} features ({about['features_per_row']:.1f} per row), "
        f"{about['labels']:,} labels ({about['labels_per_row']:.1f} per row).\n\n"
    )


def measured_sections(datasets, level=2, notes=True):
    """Return the measurements of each dataset; headings start at ``level``."""
    return "\n".join(
        f"{'#' * level} {dataset}\n\n{describe(of['about'])}{measured_table(of['figures'])}\n"
        + (f"\n{remarks(of['figures'])}\n" if notes else "")
        for dataset, of in datasets.items()
    )


def comparison_sections(datasets, level=2):
    """Return the ratios and differences between labeltree and its peers; headings start at ``level``."""
    parts = [
        f"{'#' * level} Ratios\n\nTimes are the peer's median divided by labeltree's, so labeltree is faster "
        "where the ratio is above 1. P@k and peak memory are differences, labeltree minus the peer.\n"
    ]
    parts += [
        f"{'#' * (level + 1)} {dataset}\n\n{comparison_table(of['comparison'])}\n"
        for dataset, of in datasets.items()
        if of["comparison"]
    ]
    return "\n".join(parts)


def tables(results):
    """Return the text of table.md."""
    machine = results["machine"]
    return (
        "# labeltree and its peers\n\n"
        f"{machine['cpu']}, {' or '.join(map(str, machine['threads']))} threads. Medians, with "
        "minimum..maximum where they differ. benchmarks/README.md explains how each column is measured.\n\n"
        f"{measured_sections(results['datasets'])}\n{comparison_sections(results['datasets'])}"
    )


def cpu_name():
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    named = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor() or platform.machine())


def collect_datasets(rows, about):
    """Return figures and comparisons of each dataset; ``about`` maps names to the shapes of prepare.py."""
    return {
        dataset: {"about": about.get(dataset), "figures": figures, "comparison": compare(figures)}
        for dataset, figures in summarize(rows).items()
    }


def collect(out):
    """Return the contents of results.json."""
    rows = read_rows(out / "rows.jsonl")
    about = {path.parent.name: json.loads(path.read_text()) for path in out.glob("data/*/about.json")}
    machine = {
        "cpu": cpu_name(),
        "cpus": os.cpu_count(),
        "system": platform.platform(),
        "threads": sorted({row["threads"] for row in rows}),
    }
    return {"machine": machine, "datasets": collect_datasets(rows, about)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--no-plots", action="store_true")
    options = parser.parse_args()
    out = options.out
    if not (out / "rows.jsonl").exists():
        parser.error(f"{out} has no rows.jsonl; run the benchmark first")
    results = collect(out)
    (out / "results.json").write_text(json.dumps(results, indent=1) + "\n")
    (out / "table.md").write_text(tables(results))
    if not options.no_plots:
        from plots import draw  # matplotlib is not needed for the tables

        for dataset, of in results["datasets"].items():
            draw(dataset, of["figures"], out / "plots")
    print(f"Wrote the report to {out}.")


if __name__ == "__main__":
    main()
