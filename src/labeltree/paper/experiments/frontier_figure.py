"""The figure of a frontier: precision against the size of a model, with the chosen points marked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from labeltree.extras import optional
from labeltree.paper.experiments import figures
from labeltree.paper.experiments.paired import PRECISIONS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_DENSE = {"float32": "s", "float16": "D", "int8": "^"}


def frontier_figure(
    curves: Mapping[str, Sequence[Mapping[str, Any]]], threshold: float | None = None
) -> Figure:
    """Draw P@1, P@3 and P@5 over the size of a model, one panel each.

    Parameters
    ----------
    curves : mapping of str to sequence of mapping
        Points of each curve by its name, with the keys of `labeltree.frontier.PointReport`.
    threshold : float, optional
        Mark the points with this threshold too, such as the paper's 0.1.

    Returns
    -------
    Figure
    """
    figure, panels = figures.new_figure(1, len(PRECISIONS), panel=(3.9, 3.4))
    with figures.style():
        for axes, name in zip(panels, PRECISIONS, strict=True):
            for number, points in enumerate(curves.values()):
                _draw_curve(axes, name, points, figures.COLOURS[number % len(figures.COLOURS)], threshold)
            axes.set_title(name)
            axes.set(xlabel="size of the model", xscale="log")
            _size_ticks(axes)
        panels[0].set_ylabel("precision (%)")
        _legend(figure, list(curves), threshold)
    return figure


def _draw_curve(
    axes: Axes, name: str, points: Sequence[Mapping[str, Any]], colour: str, threshold: float | None
) -> None:
    pruned = sorted(
        (point for point in points if point["threshold"] is not None), key=lambda point: point["threshold"]
    )
    axes.plot(
        [point["model_bytes"] for point in pruned],
        [point[name] for point in pruned],
        color=colour,
        marker="o",
        markersize=3.5,
        linewidth=1.4,
    )
    for point in points:
        place = [point["model_bytes"]], [point[name]]
        if point["threshold"] is None:
            axes.plot(*place, color=colour, marker=_DENSE[point["weights"]], linestyle="none")
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
            color=figures.COLOURS[number % len(figures.COLOURS)],
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
