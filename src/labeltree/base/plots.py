"""Draw figures in one style, as SVG and PNG, with their data as CSV; the same numbers give the same bytes.

The data needs no matplotlib.
"""

from __future__ import annotations

import csv
import io
import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, ParamSpec

from labeltree.base.extras import optional
from labeltree.base.files import write_whole
from labeltree.errors import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Arguments = ParamSpec("Arguments")

# Okabe and Ito's colors, which color-blind readers can tell apart, ordered by contrast with white. Lines
# also differ in their markers.
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
MARKERS = ("o", "s", "^", "D", "v", "P")
INK, MUTED, GRID = "#22272e", "#6b7480", "#e4e8ec"
LEGEND: Final = "outside lower center"

_STYLE: dict[str, Any] = {
    "font.family": "DejaVu Sans",  # comes with matplotlib
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "lines.linewidth": 1.8,
    "lines.markersize": 5,
    "legend.frameon": False,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "svg.fonttype": "path",
    "svg.hashsalt": "labeltree",  # the same numbers give the same file
}


def missing() -> str:
    """Return why there will be no figures, and what to do about it; nothing if there will be."""
    try:
        optional("matplotlib.figure")
    except InputError as error:
        return f"Tables are written without figures: {error}."
    return ""


@contextmanager
def style() -> Iterator[None]:
    """Use this style inside the context, or inside a function that is decorated with ``@style()``."""
    with optional("matplotlib").rc_context(_STYLE):
        yield


def drawing(draw: Callable[Arguments, Figure]) -> Callable[Arguments, Figure | None]:
    """Let a function draw in this style; without matplotlib, it returns None."""

    @wraps(draw)
    def drawn(*arguments: Arguments.args, **options: Arguments.kwargs) -> Figure | None:
        if missing():
            return None
        with style():
            return draw(*arguments, **options)

    return drawn


@style()
def new_figure(
    rows: int, columns: int, *, panel: tuple[float, float] = (3.5, 2.7)
) -> tuple[Figure, list[Axes]]:
    """Return a new figure and its panels, row by row; ``panel`` is the size of one in inches.

    The figure lays itself out, including a legend at ``LEGEND``, and opens no window.
    """
    size = panel[0] * columns, panel[1] * rows
    figure: Figure = optional("matplotlib.figure").Figure(figsize=size, layout="constrained")
    return figure, list(figure.subplots(rows, columns, squeeze=False).flat)


def small_multiples(
    titles: Sequence[str], *, panel: tuple[float, float] = (3.5, 2.7)
) -> tuple[Figure, list[Axes]]:
    """Return a new figure with a panel for each title, at most three per row; see ``new_figure``."""
    count = len(titles)
    columns = 2 if count == 4 else min(count, 3)
    if count == 1:  # a single panel can be larger
        panel = (1.4 * panel[0], 1.15 * panel[1])
    figure, axes = new_figure(math.ceil(count / columns), columns, panel=panel)
    for empty in axes[count:]:
        empty.remove()
    for part, name in zip(axes, titles, strict=False):
        title(part, name)
    return figure, axes[:count]


@style()
def title(axes: Axes, name: str, **options: Any) -> None:
    """Write a title above a panel, with any dollar sign as it is."""
    axes.set_title(name, parse_math=False, **options)


def box(axes: Axes, text: str, highest: float, share: float) -> None:
    """Write text in a frame in the upper right corner, and keep this share of the axis free of data."""
    frame = {"boxstyle": "round,pad=0.35", "facecolor": "white", "edgecolor": MUTED, "linewidth": 0.7}
    look: dict[str, Any] = {"fontsize": 8.5, "linespacing": 1.35, "bbox": frame, "zorder": 5}
    axes.text(0.975, 0.97, text, transform=axes.transAxes, ha="right", va="top", **look)
    axes.set_ylim(0, max(highest, 1e-9) / (1 - share))


def log_axes(axes: Axes, x_unit: str | None = "", y_unit: str | None = "") -> None:
    """Make axes logarithmic, with ticks such as 10 k or 20 ms; an axis with the unit None stays as it is.

    The default ticks are formulas such as 10^4. They are harder to read, and the cache of matplotlib's
    formula parser would keep this program's data alive.
    """
    ticker = optional("matplotlib.ticker")
    for axis, scale, unit in ((axes.xaxis, axes.set_xscale, x_unit), (axes.yaxis, axes.set_yscale, y_unit)):
        if unit is None:
            continue
        scale("log")
        low, high = axis.get_view_interval()
        steps = (1,) if high > 100 * low else (1, 3) if high > 10 * low else (1, 2, 5)
        axis.set_major_locator(ticker.LogLocator(subs=steps))
        axis.set_major_formatter(ticker.EngFormatter(unit))
        axis.set_minor_locator(ticker.NullLocator())


@drawing
def frontier_figure(points: Sequence[Mapping[str, Any]]) -> Figure:
    """Draw the precision of the forms of a model over their size: a panel for each of P@1, P@3 and P@5.

    The points have the keys of `Trial.report`, and whether each is ``chosen``.
    """
    dense = {"float32": "s", "float16": "D", "int8": "^"}
    metrics = ("P@1", "P@3", "P@5")
    pruned = [point for point in points if point["threshold"] is not None]
    figure, panels = small_multiples(metrics, panel=(3.9, 3.1))
    for axes, metric in zip(panels, metrics, strict=True):
        line = sorted((point["threshold"], point["model_bytes"], 100 * point[metric]) for point in pruned)
        look: dict[str, Any] = {"color": COLORS[0], "marker": "o", "markersize": 3.5, "linewidth": 1.4}
        axes.plot([size for _, size, _ in line], [value for *_, value in line], **look)
        for point in points:
            place = point["model_bytes"], 100 * point[metric]
            if point["threshold"] is None:
                axes.plot(*place, color=COLORS[0], marker=dense[point["weights"]], linestyle="none")
            if point["chosen"]:
                axes.plot(*place, color=INK, marker="*", markersize=13, linestyle="none", zorder=4)
        axes.set_xlabel("size of the model")
        log_axes(axes, "B", None)
    panels[0].set_ylabel("precision (%)")
    line_of = optional("matplotlib.lines").Line2D
    plain = {"linestyle": "none", "color": MUTED}
    handles = [
        line_of([], [], color=COLORS[0], marker="o", label="pruned"),
        *(line_of([], [], marker=marker, label=codec, **plain) for codec, marker in dense.items()),
        line_of([], [], color=INK, marker="*", markersize=11, linestyle="none", label="chosen"),
    ]
    figure.legend(handles=handles, loc=LEGEND, ncols=len(handles), fontsize=8.5)
    return figure


def save(
    stem: Path, rows: Sequence[Mapping[str, Any]], figure: Figure | None, columns: Iterable[str] = ()
) -> None:
    """Write rows as a table, ``stem`` with .csv, and a figure of them, if there is one, as .png and .svg."""
    contents = {".csv": table(rows, columns)}
    if figure is not None:
        contents |= {".png": png(figure), ".svg": svg(figure)}
    for ending, content in contents.items():
        with write_whole(stem.with_name(stem.name + ending)) as file:
            file.write(content)


def svg(figure: Figure) -> bytes:
    """Return a figure as SVG, with letters as outlines and without a date."""
    return _bytes(figure, "svg", metadata={"Date": None, "Creator": "labeltree"})


def png(figure: Figure) -> bytes:
    """Return a figure as PNG in print resolution."""
    return _bytes(figure, "png", dpi=200, metadata={"Software": "labeltree"})


def table(rows: Sequence[Mapping[str, Any]], columns: Iterable[str] = ()) -> bytes:
    """Return rows as CSV, with the keys of all rows as its header, or these columns if there are no rows."""
    text = io.StringIO(newline="")
    keys = list(dict.fromkeys(key for row in rows for key in row)) or list(columns)
    writer = csv.DictWriter(text, keys, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


@style()
def _bytes(figure: Figure, kind: str, **options: Any) -> bytes:
    target = io.BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # in the name of a dataset
        figure.savefig(target, format=kind, **options)
    return target.getvalue()
