"""Draw one figure per dataset: bars on a log scale with minimum and maximum, and the numbers as CSV."""

import csv
import math

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.ticker import LogLocator, NullFormatter
from registry import is_ours, title_of
from report import MEGA, number

PANELS = (
    ("Training, with tree", "seconds", "train_s", 1),
    ("Batch prediction", "ms per row", "batch_ms", 1),
    ("Single query", "ms, median", "single_p50_ms", 1),
    ("Peak memory of training", "MB", "peak_bytes", MEGA),
)
OUR_COLOR, PEER_COLOR, TEXT_COLOR = "#1f4e79", "#a9b4bf", "#333333"
STYLE = {
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.edgecolor": "#888888",
    "text.color": TEXT_COLOR,
    "axes.labelcolor": TEXT_COLOR,
    "xtick.color": TEXT_COLOR,
    "ytick.color": TEXT_COLOR,
    "svg.hashsalt": "labeltree",  # the same numbers give the same file
}


def limits(values):
    """Return the limits of a log axis that shows all bars, with space for the longest bar's number."""
    low = 10 ** math.floor(math.log10(min(values)) - 0.15)
    decades = math.log10(max(values) / low)
    return low, low * 10 ** (decades * 1.45)


def draw_panel(axes, names, figures, key, factor):
    shown = {name: figures[name][key] for name in names if figures[name][key]}
    positive = [factor * of[end] for of in shown.values() for end in ("min", "max") if of[end] > 0]
    low, high = limits(positive) if positive else (1, 10)
    for place, name in enumerate(names):
        if name not in shown:
            reason = "-" if figures[name]["runs"] else "no result"
            axes.text(low * (high / low) ** 0.02, place, reason, va="center", color="#888888")
            continue
        median, least, most = (factor * shown[name][end] for end in ("median", "min", "max"))
        color = OUR_COLOR if is_ours(name) else PEER_COLOR
        axes.barh(place, median - low, left=low, height=0.68, color=color)
        if least < most:
            axes.plot([least, most], [place, place], color=TEXT_COLOR, linewidth=1)
        axes.annotate(number(median), (most, place), xytext=(4, 0), textcoords="offset points", va="center")
    axes.set_xscale("log")
    axes.set_xlim(low, high)
    axes.xaxis.set_major_locator(LogLocator(numticks=5))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.10g}")


def draw(dataset, figures, folder, suffixes=(".png", ".svg", ".csv")):
    """Write DATASET.png, .svg and .csv, or only some of them."""
    folder.mkdir(parents=True, exist_ok=True)
    names = list(figures)
    with plt.rc_context(STYLE):
        size = (13, 1.5 + 0.36 * len(names))
        figure, panels = plt.subplots(1, len(PANELS), figsize=size, sharey=True, layout="constrained")
        figure.get_layout_engine().set(wspace=0.06)
        for axes, (title, unit, key, factor) in zip(panels, PANELS, strict=True):
            draw_panel(axes, names, figures, key, factor)
            axes.set_title(title, loc="left")
            axes.set_xlabel(unit)
            axes.tick_params(axis="y", length=0)
            axes.spines[["top", "right", "left"]].set_visible(False)
            axes.grid(axis="x", color="#e3e6e9", linewidth=0.8)
            axes.set_axisbelow(True)
        panels[0].set_yticks(range(len(names)), [title_of(name) for name in names])
        panels[0].invert_yaxis()
        for label, name in zip(panels[0].get_yticklabels(), names, strict=True):
            label.set_fontweight("bold" if is_ours(name) else "normal")
        figure.suptitle(f"{dataset}: shorter bars are better (log scales)", x=0.01, ha="left", fontsize=12)
        if ".png" in suffixes:
            figure.savefig(folder / f"{dataset}.png", dpi=150)
        if ".svg" in suffixes:
            figure.savefig(folder / f"{dataset}.svg", metadata={"Date": None})
        plt.close(figure)
    if ".csv" in suffixes:
        write_csv(names, figures, folder / f"{dataset}.csv")


def write_csv(names, figures, path):
    ends = ("median", "min", "max")
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["competitor", "runs", *(f"{key}_{end}" for _, _, key, _ in PANELS for end in ends)])
        for name in names:
            values = [(figures[name][key] or {}).get(end, "") for _, _, key, _ in PANELS for end in ends]
            writer.writerow([name, figures[name]["runs"], *values])
