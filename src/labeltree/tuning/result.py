"""The result of a search: the frontier, the chosen settings, and the files that show them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labeltree.base import plots as figures
from labeltree.base.extras import optional
from labeltree.base.files import write_whole
from labeltree.base.system import human_bytes
from labeltree.settings import ScoreSettings, StorageSettings, TextSettings, TreeSettings
from labeltree.tuning.candidate import Candidate
from labeltree.tuning.settings_file import settings_bytes
from labeltree.tuning.trial import Point, Trial

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CSV, PNG, SVG, SETTINGS = "trials.csv", "tuning.png", "tuning.svg", "settings.json"
# Settings whose metric is less than this share of a standard error below the best are as good.
AS_GOOD = 0.25
# Room for the difference between the expected size of the final model and its size.
_ROOM = 1.05


@dataclass(frozen=True, eq=False, repr=False)
class TuningResult:
    """What `labeltree.tune` found.

    Attributes
    ----------
    trials : list of Trial
        In the order in which they were run.
    chosen : Trial
        The trial with the chosen settings.
    point : Point
        Number of trees, threshold, score and metrics of the chosen settings.
    settings : dict of str to object
        What ``labeltree train --settings`` takes.
    metric : str
    max_size : int or None
    seconds : float
        How long the search took, with all its interruptions left out.
    out_of_time : bool
        Whether the search ended because of its time, with candidates left.
    directory : Path
        Where the settings, the table of trials and the figure are.
    """

    trials: list[Trial]
    chosen: Trial
    point: Point
    settings: dict[str, Any]
    metric: str
    max_size: int | None
    seconds: float
    out_of_time: bool
    directory: Path

    def __repr__(self) -> str:
        value, size = self.point.metrics[self.metric], human_bytes(self.point.final_bytes)
        shown = f"{self.metric}={value:.2f}, size={size!r}, trials={len(self.trials)}"
        return f"TuningResult({shown}, settings={self.settings})"

    @property
    def settings_path(self) -> Path:
        """The settings file."""
        return self.directory / SETTINGS

    @property
    def files(self) -> list[str]:
        """The names of the files that were written for the user; figures need matplotlib."""
        return [name for name in (SETTINGS, CSV, PNG, SVG) if (self.directory / name).exists()]

    @property
    def frontier(self) -> list[tuple[Trial, Point]]:
        """The points on all rows that no smaller one equals or exceeds, from the smallest to the largest."""
        return frontier(self.trials, self.metric)

    def report(self) -> dict[str, Any]:
        """Return every figure, as ``labeltree tune --json`` prints it."""
        return {
            "metric": self.metric,
            "max_size": self.max_size,
            "seconds": round(self.seconds, 2),
            "out_of_time": self.out_of_time,
            "chosen": _row(self.chosen, self.point),
            "settings": self.settings,
            "settings_file": str(self.settings_path),
            "frontier": [_row(trial, point) for trial, point in self.frontier],
            "trials": [trial.to_dict() for trial in self.trials],
        }

    def write(self) -> None:
        """Write the settings file, the table of trials, and the figure if matplotlib is installed."""
        contents = {SETTINGS: settings_bytes(self.settings), CSV: _csv(self.trials)}
        if _has_matplotlib():
            figure = _figure(self)
            contents |= {PNG: figures.png(figure), SVG: figures.svg(figure)}
        for name, content in contents.items():
            with write_whole(self.directory / name) as file:
                file.write(content)


def frontier(trials: Sequence[Trial], metric: str) -> list[tuple[Trial, Point]]:
    """Return the points on all rows that no smaller one equals or exceeds, by increasing size."""
    every = [(trial, point) for trial in trials if trial.share >= 1 for point in trial.points]
    every.sort(key=lambda pair: (pair[1].final_bytes, -pair[1].metrics[metric]))
    best: list[tuple[Trial, Point]] = []
    for trial, point in every:
        if not best or point.metrics[metric] > best[-1][1].metrics[metric]:
            best.append((trial, point))
    return best


def choose(trials: Sequence[Trial], metric: str, max_size: int | None) -> tuple[Trial, Point]:
    """Return the best point for a given size; without one, the smallest that is as good, up to the noise."""
    edge = frontier(trials, metric)
    if max_size is not None:
        return edge[-1]
    best = edge[-1][1]
    enough = best.metrics[metric] - AS_GOOD * best.error
    return next(pair for pair in edge if pair[1].metrics[metric] >= enough)


def final_settings(
    candidate: Candidate, point: Point, seed: int, max_size: int | None, text: TextSettings | None
) -> dict[str, Any]:
    """Return the settings of the final model.

    With a maximum size, it is pruned as little as the expected size of the chosen point requires, and never
    beyond the maximum; otherwise it is stored like the point.
    """
    settings: dict[str, Any] = {
        "clusters": candidate.clusters,
        "max_depth": candidate.max_depth,
        "trees": point.trees,
        "seed": seed,
        "cost": candidate.cost,
        "max_cost": candidate.max_cost,
        "positive_cost": candidate.positive_cost,
        "score": point.score,
        "score_scale": point.score_scale if point.score == ScoreSettings.function else None,
    }
    if max_size is not None:
        settings["max_size"] = min(max_size, round(_ROOM * point.final_bytes))
    else:
        settings |= {"weights": point.weights if point.threshold is None else None, "prune": point.threshold}
        StorageSettings(settings["weights"], settings["prune"])
    if text is not None:
        default = TextSettings()
        found = {name: getattr(text, name) for name in vars(default)}
        settings |= {"ngrams": list(text.ngrams), "min_df": text.min_df}
        settings |= {
            name: value
            for name, value in found.items()
            if name not in settings and value != getattr(default, name)
        }
    TreeSettings(candidate.clusters, candidate.max_depth, point.trees, seed)
    return {name: value for name, value in settings.items() if value is not None}


def _row(trial: Trial, point: Point) -> dict[str, Any]:
    """Return a point as one row of the table."""
    return {
        **{name: _cell(value) for name, value in trial.candidate.to_dict().items()},
        "share": trial.share,
        "trees": point.trees,
        "weights": point.weights,
        "threshold": point.threshold,
        "score": point.score,
        "score_scale": point.score_scale,
        "model_bytes": point.model_bytes,
        "final_bytes": point.final_bytes,
        **point.metrics,
        "error": point.error,
    }


def _cell(value: Any) -> Any:
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else value


def _csv(trials: Sequence[Trial]) -> bytes:
    rows: list[dict[str, Any]] = []
    for number, trial in enumerate(trials):
        shared = {"trial": number, "seconds": round(trial.seconds, 2), "skipped": trial.skipped}
        if trial.points:
            rows += [{**shared, **_row(trial, point)} for point in trial.points]
        else:
            rows.append({**shared, **trial.candidate.to_dict(), "share": trial.share, "trees": trial.trees})
    return figures.table(rows)


def _has_matplotlib() -> bool:
    from importlib.util import find_spec

    return find_spec("matplotlib") is not None


def _figure(result: TuningResult) -> Figure:
    figure, (axes,) = figures.new_figure(1, 1, panel=(6.4, 4.0))
    ticker = optional("matplotlib.ticker")
    with figures.style():
        done = [trial for trial in result.trials if trial.share >= 1]
        counts = sorted({point.trees for trial in done for point in trial.points})
        for number, trees in enumerate(counts):
            points = [point for trial in done for point in trial.points if point.trees == trees]
            axes.plot(
                [point.final_bytes for point in points],
                [point.metrics[result.metric] for point in points],
                linestyle="none",
                marker=figures.MARKERS[number % len(figures.MARKERS)],
                color=figures.COLORS[number % len(figures.COLORS)],
                label=f"{trees} tree{'s' * (trees > 1)}",
            )
        edge = [point for _, point in result.frontier]
        axes.plot(
            [point.final_bytes for point in edge],
            [point.metrics[result.metric] for point in edge],
            color=figures.INK,
            linewidth=1.0,
            label="frontier",
        )
        axes.plot(
            [result.point.final_bytes],
            [result.point.metrics[result.metric]],
            color=figures.INK,
            marker="*",
            markersize=13,
            linestyle="none",
            zorder=4,
            label="chosen",
        )
        if result.max_size is not None:
            axes.axvline(result.max_size, color=figures.MUTED, linestyle="--", linewidth=1.0)
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_major_formatter(ticker.EngFormatter("B"))
        axes.xaxis.set_minor_locator(ticker.NullLocator())
        axes.set_xlabel("expected size of the model")
        axes.set_ylabel(f"{result.metric} on the validation rows (%)")
        axes.legend(fontsize=8.5)
    return figure
