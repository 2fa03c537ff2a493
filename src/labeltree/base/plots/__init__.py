"""Draw figures in one style, as SVG and PNG, with their data as CSV; the same numbers give the same bytes."""

from __future__ import annotations

import csv
import io
import math
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from labeltree.base.extras import optional

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's colors, which color-blind readers can tell apart, ordered by contrast with white. Lines
# also differ in their markers.
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
MARKERS = ("o", "s", "^", "D", "v", "P")
INK, MUTED, GRID = "#22272e", "#6b7480", "#e4e8ec"
MOST_COLUMNS = 3

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


def require() -> None:
    """Raise an error if matplotlib is not installed."""
    optional("matplotlib.figure")


@contextmanager
def style() -> Iterator[None]:
    """Use this style inside the context."""
    with optional("matplotlib").rc_context(_STYLE):
        yield


def new_figure(
    rows: int, columns: int, *, panel: tuple[float, float] = (3.5, 2.7), **options: Any
) -> tuple[Figure, list[Axes]]:
    """Return a new figure and its panels.

    Parameters
    ----------
    rows, columns : int
    panel : tuple of float
        Width and height of a panel, in inches.
    **options
        Passed to ``Figure.subplots``, such as ``sharey=True``.

    Returns
    -------
    figure : Figure
        It lays itself out, including a legend at ``loc="outside lower center"``, and opens no window.
    axes : list of Axes
        Row by row.
    """
    with style():
        figure = optional("matplotlib.figure").Figure(
            figsize=(panel[0] * columns, panel[1] * rows), layout="constrained"
        )
        axes = figure.subplots(rows, columns, squeeze=False, **options)
    return figure, list(axes.flat)


def small_multiples(
    count: int, *, panel: tuple[float, float] = (3.5, 2.7), **options: Any
) -> tuple[Figure, list[Axes]]:
    """Return a new figure and its panels, at most three per row; see ``new_figure``."""
    columns = 2 if count == 4 else min(count, MOST_COLUMNS)
    if count == 1:  # a single panel can be larger
        panel = (1.4 * panel[0], 1.15 * panel[1])
    figure, axes = new_figure(math.ceil(count / columns), columns, panel=panel, **options)
    for empty in axes[count:]:
        empty.remove()
    return figure, axes[:count]


def box(axes: Axes, text: str) -> None:
    """Write a few lines in a frame in the upper right corner; ``headroom`` keeps it free of data."""
    axes.text(
        0.975,
        0.97,
        text,
        transform=axes.transAxes,
        ha="right",
        va="top",
        fontsize=8.5,
        linespacing=1.35,
        color=INK,
        bbox={"boxstyle": "round,pad=0.35", "facecolor": "white", "edgecolor": MUTED, "linewidth": 0.7},
        zorder=5,
    )


def label_ends(axes: Axes, ends: Sequence[tuple[float, float, str, str]], gap: float = 0.1) -> None:
    """Write the name of each line to the right of its end, far enough apart to be read.

    Parameters
    ----------
    axes : Axes
        With its final limits.
    ends : sequence of tuple
        Last x and y of a line, its name and its color.
    gap : float
        Smallest distance of two names, as a fraction of the height of the axes.
    """
    from sklearn.isotonic import isotonic_regression

    place = axes.transData + axes.transAxes.inverted()
    heights = sorted((float(place.transform((x, y))[1]), name, color) for x, y, name, color in ends)
    # The nearest heights that are at least a gap apart: without the gaps, the nearest that do not fall.
    steps = [gap * number for number in range(len(heights))]
    spread = isotonic_regression([height - step for (height, *_), step in zip(heights, steps, strict=True)])
    for (_, name, color), height, step in zip(heights, spread, steps, strict=True):
        axes.text(
            1.02, float(height) + step, name, transform=axes.transAxes, color=color, va="center", fontsize=9
        )


def title(axes: Axes, name: str, **options: Any) -> None:
    """Write the name of a dataset above a panel, with any dollar sign as it is."""
    axes.set_title(name, parse_math=False, **options)


def headroom(axes: Axes, highest: float, share: float) -> None:
    """Start a linear axis at 0 and keep its upper ``share`` free of data."""
    axes.set_ylim(0, max(highest, 1e-9) / (1 - share))


def log_axes(axes: Axes, unit: str = "") -> None:
    """Make both axes logarithmic, with ticks such as 10 k or 20 ms.

    The default ticks are formulas such as 10^4. They are harder to read, and the cache of matplotlib's
    formula parser would keep this program's data alive.
    """
    ticker = optional("matplotlib.ticker")
    axes.set(xscale="log", yscale="log")
    for axis in (axes.xaxis, axes.yaxis):
        low, high = axis.get_view_interval()
        axis.set_major_locator(ticker.LogLocator(subs=(1,) if high > 100 * low else (1, 2, 5)))
        axis.set_major_formatter(ticker.EngFormatter(unit))
        axis.set_minor_locator(ticker.NullLocator())


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


def _bytes(figure: Figure, kind: str, **options: Any) -> bytes:
    target = io.BytesIO()
    with style(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # in the name of a dataset
        figure.savefig(target, format=kind, **options)
    return target.getvalue()
