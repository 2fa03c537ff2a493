"""The figure of a frontier: precision against the size of a model, with the chosen points marked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import TYPE_CHECKING, Any, TypeAlias

from labeltree.base import plots as figures
from labeltree.base.extras import optional
from labeltree.settings import DEFAULT_RANKS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Curves: TypeAlias = Mapping[str, Sequence[Mapping[str, Any]]]
_PRECISIONS = tuple(f"P@{k}" for k in DEFAULT_RANKS)
_DENSE = {"float32": "s", "float16": "D", "int8": "^"}


def frontier_figure(rows: Mapping[str, Curves], threshold: float | None = None) -> Figure:
    """Draw P@1, P@3 and P@5 over the size of a model.

    Parameters
    ----------
    rows : mapping of str to mapping
        Each row has three panels; its key is the name of the dataset, or empty. Its value are the curves by
        name, each a sequence of points with the keys of `labeltree.frontier.PointReport`.
    threshold : float, optional
        Mark the points with this threshold too, such as the paper's 0.1.

    Returns
    -------
    Figure
    """
    figure, panels = figures.new_figure(len(rows), len(_PRECISIONS), panel=(3.9, 3.1))
    with figures.style():
        for number, (data, curves) in enumerate(rows.items()):
            for k, name in enumerate(_PRECISIONS):
                axes = panels[len(_PRECISIONS) * number + k]
                for curve, color in zip(curves.values(), cycle(figures.COLORS), strict=False):
                    _draw_curve(axes, name, curve, color, threshold)
                figures.title(axes, f"{data}: {name}" if data else name)
                axes.set_xscale("log")
                _size_ticks(axes)
                if number == len(rows) - 1:
                    axes.set_xlabel("size of the model")
            panels[len(_PRECISIONS) * number].set_ylabel("precision (%)")
        _legend(figure, list(next(iter(rows.values()))), threshold)
    return figure


def _draw_curve(
    axes: Axes, name: str, points: Sequence[Mapping[str, Any]], color: str, threshold: float | None
) -> None:
    pruned = sorted(
        (point for point in points if point["threshold"] is not None), key=lambda point: point["threshold"]
    )
    axes.plot(
        [point["model_bytes"] for point in pruned],
        [point[name] for point in pruned],
        color=color,
        marker="o",
        markersize=3.5,
        linewidth=1.4,
    )
    for point in points:
        place = [point["model_bytes"]], [point[name]]
        if point["threshold"] is None:
            axes.plot(*place, color=color, marker=_DENSE[point["weights"]], linestyle="none")
        if point["chosen"]:
            axes.plot(*place, color=figures.INK, marker="*", markersize=13, linestyle="none", zorder=4)
        if threshold is not None and point["threshold"] == threshold:
            axes.plot(
                *place,
                color=figures.INK,
                marker="o",
                markersize=11,
                fillstyle="none",
                linestyle="none",
                zorder=3,
            )


def _size_ticks(axes: Axes) -> None:
    """Write sizes such as 20 MB, and few enough of them to be read."""
    ticker = optional("matplotlib.ticker")
    low, high = axes.get_xlim()
    steps = (1,) if high > 100 * low else (1, 3) if high > 10 * low else (1, 2, 5)
    axes.xaxis.set_major_locator(ticker.LogLocator(subs=steps))
    axes.xaxis.set_major_formatter(ticker.EngFormatter("B"))
    axes.xaxis.set_minor_locator(ticker.NullLocator())


def _legend(figure: Figure, names: Sequence[str], threshold: float | None) -> None:
    line = optional("matplotlib.lines").Line2D
    entries = [
        line(
            [],
            [],
            color=figures.COLORS[number % len(figures.COLORS)],
            marker="o",
            markersize=3.5,
            label=name,
        )
        for number, name in enumerate(names)
    ]
    plain = {"color": figures.MUTED, "linestyle": "none"}
    entries += [line([], [], marker=marker, label=codec, **plain) for codec, marker in _DENSE.items()]
    entries.append(
        line([], [], marker="*", markersize=11, color=figures.INK, linestyle="none", label="chosen")
    )
    if threshold is not None:
        ring = {"marker": "o", "markersize": 10, "fillstyle": "none", "linestyle": "none"}
        entries.append(line([], [], color=figures.INK, label=f"threshold {threshold:g}", **ring))
    figure.legend(handles=entries, loc="outside lower center", ncols=min(len(entries), 7), fontsize=8.5)
