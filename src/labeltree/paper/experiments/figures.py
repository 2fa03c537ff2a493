"""How figures look, and how they are written: one style, colours that all can tell apart, the same bytes."""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's colours, which the colour-blind can tell apart, those first that show best on white; lines
# and points take their marker, too.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
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


@contextmanager
def style() -> Iterator[None]:
    """Have this style within, and matplotlib's own again after."""
    import matplotlib

    with matplotlib.rc_context(_STYLE):  # type: ignore[arg-type, unused-ignore]
        yield


def new_figure(
    rows: int, columns: int, *, panel: tuple[float, float] = (3.5, 2.7), **options: Any
) -> tuple[Figure, list[Axes]]:
    """Make a figure of so many panels.

    Parameters
    ----------
    rows, columns : int
    panel : tuple of float
        Width and height of a panel, in inches.
    **options
        For ``Figure.subplots``, such as ``sharey=True``.

    Returns
    -------
    figure : Figure
        It lays out itself, also a legend at ``loc="outside lower center"``. It has no window and no state.
    axes : list of Axes
        Row by row.
    """
    from matplotlib.figure import Figure

    with style():
        figure = Figure(figsize=(panel[0] * columns, panel[1] * rows), layout="constrained")
        axes = figure.subplots(rows, columns, squeeze=False, **options)
    return figure, list(axes.flat)


def small_multiples(
    count: int, *, panel: tuple[float, float] = (3.5, 2.7), **options: Any
) -> tuple[Figure, list[Axes]]:
    """Make a figure of so many panels, at most three beside each other; as ``new_figure``."""
    columns = 2 if count == 4 else min(count, MOST_COLUMNS)
    if count == 1:  # alone, it has the room
        panel = (1.4 * panel[0], 1.15 * panel[1])
    figure, axes = new_figure(math.ceil(count / columns), columns, panel=panel, **options)
    for empty in axes[count:]:
        empty.remove()
    return figure, axes[:count]


def box(axes: Axes, text: str, *, place: str = "upper right", size: float = 8.5) -> None:
    """Write a few lines in a frame in a corner; leave room there, for example with ``headroom``."""
    up, side = place.split()
    x, y = (0.975 if side == "right" else 0.025), (0.97 if up == "upper" else 0.03)
    axes.text(
        x,
        y,
        text,
        transform=axes.transAxes,
        ha=side,
        va="top" if up == "upper" else "bottom",
        fontsize=size,
        linespacing=1.35,
        color=INK,
        bbox={"boxstyle": "round,pad=0.35", "facecolor": "white", "edgecolor": MUTED, "linewidth": 0.7},
        zorder=5,
    )


def title(axes: Axes, name: str, **options: Any) -> None:
    """Write the name of a data set above: as it is, for a dollar sign in it begins no formula."""
    axes.set_title(name, parse_math=False, **options)


def headroom(axes: Axes, highest: float, share: float) -> None:
    """Let a linear axis begin at 0, and keep the upper ``share`` of it free of data."""
    axes.set_ylim(0, max(highest, 1e-9) / (1 - share))


def svg(figure: Figure) -> bytes:
    """Write a figure as SVG: letters as outlines, no date, the same bytes for the same figure."""
    return _bytes(figure, "svg", metadata={"Date": None, "Creator": "labeltree"})


def png(figure: Figure) -> bytes:
    """Write a figure as PNG, fit for print."""
    return _bytes(figure, "png", dpi=200, metadata={"Software": "labeltree"})


def _bytes(figure: Figure, kind: str, **options: Any) -> bytes:
    target = io.BytesIO()
    with style(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # of a name; the text beside has it right
        figure.savefig(target, format=kind, **options)
    return target.getvalue()
