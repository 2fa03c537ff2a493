"""Summarize the rows of a benchmark: medians with their spread, and comparisons."""

import json
import statistics

from registry import COMPETITORS, OURS, is_ours

METRICS = (
    "read_s",
    "tree_s",
    "train_s",
    "save_s",
    "peak_bytes",
    "above_bytes",
    "model_bytes",
    "batch_ms",
    "single_p50_ms",
    "single_p99_ms",
    "P@1",
    "P@3",
    "P@5",
)
FASTER = ("train_s", "batch_ms", "single_p50_ms")
DIFFERENCES = ("P@1", "P@3", "P@5", "peak_bytes")


def read_rows(path):
    """Read the rows of a JSON Lines file; skip blank and incomplete lines."""
    lines = path.read_text().splitlines() if path.exists() else []
    return [row for line in lines if (row := _parse(line))]


def _parse(line):
    try:
        return json.loads(line)
    except ValueError:
        return None


def not_measured(row):
    """Return why a row has no figures, or None."""
    return row.get("error") or row.get("skipped")


def spread(values):
    """Return median, minimum and maximum of the runs, or None if there are none."""
    if not values:
        return None
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def summarize(rows):
    """Return {dataset: {competitor: figures}}, with competitors in the order of the registry.

    The figures are those of `METRICS`, each a `spread` or None, and: ``runs``, the number of measured runs;
    ``single_rows``; ``version``; ``settings``; ``remarks``, such as the reasons for missing figures.
    """
    order = {name: i for i, name in enumerate(COMPETITORS)}
    groups = {}
    for row in sorted(rows, key=lambda row: order.get(row["competitor"], len(order))):
        groups.setdefault(row["dataset"], {}).setdefault(row["competitor"], []).append(row)
    return {
        dataset: {name: _figures(runs) for name, runs in groups[dataset].items()}
        for dataset in dict.fromkeys(row["dataset"] for row in rows)
    }


def _figures(rows):
    measured = [row for row in rows if not not_measured(row)]
    remarks = dict.fromkeys(reason for row in rows if (reason := not_measured(row) or row.get("remark")))
    unread = (row["read_error"] for row in measured if "read_error" in row)
    remarks |= dict.fromkeys(f"reading failed: {reason}" for reason in unread)
    figures = {
        metric: spread([row[metric] for row in measured if row.get(metric) is not None]) for metric in METRICS
    }
    last = measured[-1] if measured else {}
    return figures | {
        "runs": len(measured),
        "single_rows": last.get("single_rows"),
        "version": last.get("version"),
        "settings": rows[-1].get("settings", ""),
        "remarks": list(remarks),
    }


def compare(figures):
    """Compare labeltree with every peer on one dataset, by medians.

    ``faster`` is the peer's time divided by labeltree's; ``difference`` is labeltree's figure minus the
    peer's. A figure that either side lacks is None.
    """
    ours = figures.get(OURS)
    if ours is None or not ours["runs"]:
        return {}
    return {
        name: {
            "faster": {m: _both(ours[m], other[m], lambda a, b: b / a) for m in FASTER},
            "difference": {m: _both(ours[m], other[m], lambda a, b: a - b) for m in DIFFERENCES},
        }
        for name, other in figures.items()
        if not is_ours(name) and other["runs"]
    }


def _both(ours, other, combine):
    return None if ours is None or other is None else combine(ours["median"], other["median"])
