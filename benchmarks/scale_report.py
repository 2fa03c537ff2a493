"""Report on the sizes measured by scale.py: slopes, tables and a plot."""

import csv
import json
import math

import extrapolate
import numpy as np

from labeltree.base.system import human_bytes

# Quantities that grow with the labels, and how to read them from a record.
QUANTITIES = {
    "tree": lambda record: record["seconds"]["tree"],
    "train": lambda record: record["seconds"]["train"],
    "model bytes": lambda record: record["disk_bytes"],
    "training memory": lambda record: record["memory"]["train"],
}

EXPLANATION = """\
A slope is the exponent with which a quantity grows with the number of labels, fitted on logarithms; 1 means
in proportion. In this data, instances and non-zeros grow in proportion to the labels, and features with
their square root. The paper's growth is evaluated at the non-zeros of each size:

- Training: K nnz(X) log^2 L. In a tree of depth log_K L, each depth costs K nnz(X) times the number of labels
  per instance, which the paper assumes to be c log L. In this data it is constant, so the paper's formula
  has an extra factor log L.
- Tree: K nnz(V) log_K L (appendix A), where V are the label vectors, for a constant number of K-means
  iterations.
- Model: the number of weights of a balanced tree, with the alpha measured at each size.
"""


def paper_tree(record):
    """Return the cost of K-means by appendix A of the paper, nnz(V) K d, for constant iterations."""
    return record["vector_nonzeros"] * record["clusters"] * _depth(record)


def paper_train(record):
    """Return the cost of training by eq:lowest-time-complexity: K l n log^2 L, where l n is nnz(X)."""
    return record["clusters"] * record["x_nonzeros"] * math.log(record["labels"]) ** 2


def paper_weights(record):
    """Return the weights by eq:balanced-tree-nnz with the measured alpha, or None if there is none."""
    rates = extrapolate.Rates.of(record)
    return None if rates is None else record["weights"] / rates.weights_ratio


PAPER = {"tree": paper_tree, "train": paper_train, "model bytes": paper_weights}


def _depth(record):
    return math.log(record["labels"]) / math.log(record["clusters"])


def slope(labels, values):
    """Return the exponent of growth with the labels by least squares; None for fewer than two sizes."""
    if len(set(labels)) < 2 or any(value is None or value <= 0 for value in values):
        return None
    return float(np.polyfit(np.log(labels), np.log(values), 1)[0])


def slopes(records):
    """Return for each quantity the measured slope, and the slope of the paper's formula at the same sizes."""
    labels = [record["labels"] for record in records]
    return {
        name: {
            "measured": slope(labels, [take(record) for record in records]),
            "paper": slope(labels, [PAPER[name](record) for record in records]) if name in PAPER else None,
        }
        for name, take in QUANTITIES.items()
    }


def through_first(records, grows, measured):
    """Return the paper's growth, scaled to go through the first measured point."""
    values = np.array([grows(record) for record in records], float)
    return values * (measured(records[0]) / values[0])


def flat(record):
    """Return a record without nesting, for CSV."""
    row = {}
    for key, value in record.items():
        if isinstance(value, dict):
            row |= {f"{key}_{name}": inner for name, inner in value.items()}
        else:
            row[key] = " ".join(f"{item:.4f}" for item in value) if isinstance(value, list) else value
    return row


def markdown(groups, skipped=(), level=2, notes=True):
    """Return tables of the sizes, slopes and the extrapolation; headings start at ``level``."""
    heading = "#" * level
    lines = []
    for (like, threads), records in groups.items():
        lines += [
            f"{heading} Synthetic data like {like}, {threads} thread{'s' * (threads != 1)}",
            "",
            *_size_table(records),
            "",
            "| Growth with the number of labels | Slope | Slope of the paper's formula |",
            "|---|--:|--:|",
        ]
        for name, found in slopes(records).items():
            cells = ["" if value is None else f"{value:.2f}" for value in found.values()]
            lines.append(f"| {name} | {cells[0]} | {cells[1]} |")
        lines += [""]
    lines += [
        *([EXPLANATION] if notes else []),
        *[f"{sentence}.\n" for sentence in skipped],
        f"{heading} Extrapolation to larger data",
        "",
        extrapolate.markdown([record for records in groups.values() for record in records], notes),
    ]
    return "\n".join(lines)


def _size_table(records):
    heads = [
        *("Labels", "Instances", "Features", "nnz(X)", "Weights"),
        *("Synth", "Read", "Tree", "Plan", "Train", "Training memory", "Model bytes, as estimated"),
        *("P@1", "P@3", "P@5", "ms per row"),
    ]
    yield f"| {' | '.join(heads)} |"
    yield "|" + "--:|" * len(heads)
    for r in records:
        spent = {**r["seconds"], "synth": r["seconds"]["synth_process"]}
        stages = " | ".join(f"{spent[s]:.2f} s" for s in ("synth", "read", "tree", "plan", "train"))
        yield (
            f"| {r['labels']:,} | {r['instances']:,} | {r['features']:,} | {r['x_nonzeros']:,} | "
            f"{r['weights']:,} | {stages} | {human_bytes(r['memory']['train'])} | {r['disk_bytes']:,} | "
            f"{r['P@1']:.1f} | {r['P@3']:.1f} | {r['P@5']:.1f} | {r['milliseconds_per_row']:.3f} |"
        )


def readable(labels):
    """Return the label counts that fit side by side as ticks of a logarithmic axis."""
    step = (labels[-1] / labels[0]) ** 0.12
    shown = labels[:1]
    for count in labels[1:]:
        if count >= shown[-1] * step and count > shown[-1]:
            shown.append(count)
    return shown


def plot(groups, paths):
    """Plot seconds and bytes against labels on logarithmic axes, one row per kind of data."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    figure = Figure(figsize=(11.5, 4.9 * len(groups)), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(len(groups), 2, squeeze=False)
    for ((like, threads), records), (left, right) in zip(groups.items(), axes, strict=True):
        labels = [record["labels"] for record in records]
        for name, color, label, growth in (
            ("train", "#1f5fa8", "training", "paper: $K\\,\\mathrm{nnz}(X)\\log^2 L$"),
            ("tree", "#c2571a", "tree", "paper: $K\\,\\mathrm{nnz}(V)\\log_K L$"),
        ):
            take = QUANTITIES[name]
            left.plot(labels, [take(r) for r in records], "o-", color=color, lw=2, ms=6, label=label)
            curve = through_first(records, PAPER[name], take)
            left.plot(labels, curve, "--", color=color, lw=1.5, alpha=0.7, label=growth)
        left.set_ylabel("Seconds")
        for name, color, marker in (("model bytes", "#3a7d44", "s"), ("training memory", "#7a4fa3", "D")):
            values = [QUANTITIES[name](record) / 1e6 for record in records]
            label = {"model bytes": "model on disk", "training memory": "peak training memory"}[name]
            right.plot(labels, values, f"{marker}-", color=color, lw=2, ms=6, label=label)
        right.set_ylabel("Megabytes")
        for axis, title in ((left, "Time"), (right, "Space")):
            axis.set(xscale="log", yscale="log", xlabel="Labels")
            axis.set_title(f"{title}: synthetic {like}, {threads} thread{'s' * (threads != 1)}", fontsize=13)
            axis.grid(True, which="major", color="#dddddd", lw=0.8)
            axis.set_axisbelow(True)
            shown = readable(labels)
            axis.set_xticks(shown, [f"{n:,}" for n in shown])
            axis.set_xticks([], minor=True)
            axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))
            axis.yaxis.set_minor_locator(NullLocator())
            axis.tick_params(labelsize=10)
            axis.xaxis.label.set_size(11), axis.yaxis.label.set_size(11)
            axis.margins(x=0.08, y=0.12)
            axis.spines[["top", "right"]].set_visible(False)
            axis.legend(fontsize=10, frameon=False)
    for path in paths:
        figure.savefig(path, dpi=150)


def write(folder, records, skipped=()):
    """Write scale.json, .csv and .md, and the plot as .png and .svg."""
    groups = extrapolate.kinds(records)
    found = extrapolate.extrapolate(records)
    report = {
        "sizes": records,
        "slopes": [
            {"like": like, "threads": threads, **slopes(own)} for (like, threads), own in groups.items()
        ],
        "extrapolated": found and found["sets"],
        "skipped": list(skipped),
    }
    (folder / "scale.json").write_text(json.dumps(report, indent=1) + "\n")
    rows = [flat(record) for own in groups.values() for record in own]
    with (folder / "scale.csv").open("w", newline="") as file:
        table = csv.DictWriter(file, list(dict.fromkeys(key for row in rows for key in row)))
        table.writeheader()
        table.writerows(rows)
    (folder / "scale.md").write_text(
        f"# How cost grows with the number of labels\n\n{markdown(groups, skipped)}"
    )
    plot(groups, [folder / "scale.png", folder / "scale.svg"])
