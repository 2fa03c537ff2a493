"""What the sizes of scale.py say together: slopes, tables and a plot."""

import csv
import json
import math

import extrapolate
import numpy as np

from labeltree.system import human_bytes

# Quantities that grow, and how to take them from a record.
QUANTITIES = {
    "tree": lambda record: record["seconds"]["tree"],
    "train": lambda record: record["seconds"]["train"],
    "model bytes": lambda record: record["disk_bytes"],
    "training memory": lambda record: record["memory"]["train"],
}


EXPLAINED = """\
A slope is the power of the labels that a quantity grows with, fitted on logarithms; 1 is in proportion.
Instances and non-zeros of these data grow in proportion to the labels, features with their square root.
The paper's growth is taken at the non-zeros of each size. For training it is K nnz(X) log^2 L
(eq:lowest-time-complexity): in a tree of depth log_K L, a depth costs K nnz(X) times the labels of an
instance, which the paper takes for c log L. In these data they do not grow, so that the paper's count has a
factor log L more than is needed here. For the tree it is K nnz(V) log_K L (appendix A), with V the label
vectors and the iterations of K-means a constant. For the model it is eq:balanced-tree-nnz with the alpha
measured at each size.
"""


def paper_tree(record):
    """K-means as the paper's appendix A counts it: nnz(V) K d, with the iterations taken for constant."""
    return record["vector_nonzeros"] * record["clusters"] * _depth(record)


def paper_train(record):
    """Training by eq:lowest-time-complexity: K l n log^2 L, where l n is nnz(X)."""
    return record["clusters"] * record["x_nonzeros"] * math.log(record["labels"]) ** 2


def paper_weights(record):
    """eq:balanced-tree-nnz with the alpha that was measured at this size; None where there is none."""
    rates = extrapolate.Rates.of(record)
    return None if rates is None else record["weights"] / rates.weights_ratio


PAPER = {"tree": paper_tree, "train": paper_train, "model bytes": paper_weights}


def _depth(record):
    return math.log(record["labels"]) / math.log(record["clusters"])


def slope(labels, values):
    """The power of the labels that the values grow with, by least squares; None with fewer than two sizes."""
    if len(set(labels)) < 2 or any(value is None or value <= 0 for value in values):
        return None
    return float(np.polyfit(np.log(labels), np.log(values), 1)[0])


def slopes(records):
    """Of each quantity: the measured slope, and that of the paper's growth at the same sizes."""
    labels = [record["labels"] for record in records]
    return {
        name: {
            "measured": slope(labels, [take(record) for record in records]),
            "paper": slope(labels, [PAPER[name](record) for record in records]) if name in PAPER else None,
        }
        for name, take in QUANTITIES.items()
    }


def through_first(records, grows, measured):
    """The paper's growth, scaled to go through the first measured point."""
    values = np.array([grows(record) for record in records], float)
    return values * (measured(records[0]) / values[0])


def flat(record):
    """A record without nesting, for CSV."""
    row = {}
    for key, value in record.items():
        if isinstance(value, dict):
            row |= {f"{key}_{name}": inner for name, inner in value.items()}
        else:
            row[key] = " ".join(f"{item:.4f}" for item in value) if isinstance(value, list) else value
    return row


def markdown(groups, skipped):
    """Tables of the sizes and of the slopes, and the extrapolation."""
    lines = ["# How cost grows with the labels", ""]
    for (like, threads), records in groups.items():
        lines += [
            f"## Made-up data like {like}, {threads} thread{'s' * (threads != 1)}",
            "",
            "| labels | instances | features | nnz(X) | weights | synth | read | tree | plan | train | "
            "training memory | model, as estimated | P@1 | P@3 | P@5 | ms a row |",
            "|" + "--:|" * 16,
        ]
        for r in records:
            spent = {**r["seconds"], "synth": r["seconds"]["synth_process"]}
            stages = " | ".join(f"{spent[s]:.2f} s" for s in ("synth", "read", "tree", "plan", "train"))
            lines.append(
                f"| {r['labels']:,} | {r['instances']:,} | {r['features']:,} | {r['x_nonzeros']:,} | "
                f"{r['weights']:,} | {stages} | {human_bytes(r['memory']['train'])} | {r['disk_bytes']:,} | "
                f"{r['P@1']:.2f} | {r['P@3']:.2f} | {r['P@5']:.2f} | {r['milliseconds_per_row']:.3f} |"
            )
        lines += ["", "| against labels | slope | the paper's growth |", "|---|--:|--:|"]
        for name, found in slopes(records).items():
            cells = ["" if value is None else f"{value:.2f}" for value in found.values()]
            lines.append(f"| {name} | {cells[0]} | {cells[1]} |")
        lines += [""]
    lines += [
        EXPLAINED,
        *[f"{sentence}.\n" for sentence in skipped],
        "## Larger data",
        "",
        extrapolate.markdown([record for records in groups.values() for record in records]),
    ]
    return "\n".join(lines)


def readable(labels):
    """The label counts that can be written side by side on a logarithmic axis."""
    least = (labels[-1] / labels[0]) ** 0.12
    shown = labels[:1]
    for count in labels[1:]:
        if count >= shown[-1] * least and count > shown[-1]:
            shown.append(count)
    return shown


def plot(groups, paths):
    """Seconds and bytes against labels, a row for each kind of data, on logarithmic axes."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    figure = Figure(figsize=(11.5, 4.9 * len(groups)), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(len(groups), 2, squeeze=False)
    for ((like, threads), records), (left, right) in zip(groups.items(), axes, strict=True):
        labels = [record["labels"] for record in records]
        for name, colour, words, growth in (
            ("train", "#1f5fa8", "training", "paper: $K\\,\\mathrm{nnz}(X)\\log^2 L$"),
            ("tree", "#c2571a", "tree", "paper: $K\\,\\mathrm{nnz}(V)\\log_K L$"),
        ):
            take = QUANTITIES[name]
            left.plot(labels, [take(r) for r in records], "o-", color=colour, lw=2, ms=6, label=words)
            curve = through_first(records, PAPER[name], take)
            left.plot(labels, curve, "--", color=colour, lw=1.5, alpha=0.7, label=growth)
        left.set_ylabel("seconds")
        for name, colour, marker in (("model bytes", "#3a7d44", "s"), ("training memory", "#7a4fa3", "D")):
            values = [QUANTITIES[name](record) / 1e6 for record in records]
            words = {"model bytes": "model on disk", "training memory": "peak memory of training"}[name]
            right.plot(labels, values, f"{marker}-", color=colour, lw=2, ms=6, label=words)
        right.set_ylabel("megabytes")
        for axis, what in ((left, "time"), (right, "space")):
            axis.set(xscale="log", yscale="log", xlabel="labels")
            axis.set_title(
                f"{what.capitalize()}: made-up {like}, {threads} thread{'s' * (threads != 1)}", fontsize=13
            )
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
    """Write scale.json, .csv, .md, and the plot as .png and .svg."""
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
    (folder / "scale.md").write_text(markdown(groups, skipped))
    plot(groups, [folder / "scale.png", folder / "scale.svg"])
