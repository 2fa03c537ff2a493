"""`labeltree compare`: models side by side on the same rows."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

from labeltree.base import limits
from labeltree.base.display import Stages
from labeltree.base.system import human_bytes
from labeltree.cli import options, printing
from labeltree.cli.places import local, model_place
from labeltree.cli.reading import DataFile, Reading, note_missed, open_model
from labeltree.errors import InputError
from labeltree.settings import DEFAULT_BEAM

if TYPE_CHECKING:
    from labeltree.data.dataset import Dataset
    from labeltree.model.model import Model
    from labeltree.tuning.compare import Compared

_F1_NOTE = (
    "F1 counts the labels whose score reaches a threshold. stored: that of the model; best: the model has\n"
    "none, so the one with the largest F1 on these rows is used, which is optimistic."
)


def compare(
    paths: list[str],
    *,
    reading: Reading,
    beam: Annotated[int, limits.BEAM] = DEFAULT_BEAM,
    seed: options.Seed = 0,
    threads: options.Threads = None,
    quiet: bool = False,
    json: bool = False,
) -> None:
    """Compare models on labeled data that none of them was trained on.

    Prints metrics, size and prediction time side by side. Differences from the first model have a 95%
    interval and a p-value of a paired bootstrap over the rows; an asterisk marks those with p < 0.05.

    Parameters
    ----------
    paths : MODEL MODEL... DATA
        Two or more model directories, or addresses such as hf://user/name, then labeled data.
    """
    from labeltree.model.labeled import Labeled
    from labeltree.tuning.compare import compare_models

    *names, data = paths
    if len(names) < 2:
        hint = "pass two or more models, then the data: `labeltree compare MODEL MODEL DATA`"
        raise InputError("there is nothing to compare", hint=hint)
    if data == "-":
        raise InputError("standard input can be read only once", hint="pass a file")
    stages = Stages(quiet or json)
    models = [open_model(stages, local(model_place(name), stages)) for name in names]
    sources = [DataFile(data, reading, model) for model in models]
    datasets: list[Dataset] = []
    for source, model in zip(sources, models, strict=True):
        read = (other for known, other in zip(models, datasets, strict=False) if _reads_alike(known, model))
        datasets.append(next(read, None) or source.read(stages, threads))
    n_rows = datasets[0].n_instances
    with printing.warnings_as_notes(), stages.stage("compare", "comparing") as progress:
        found = compare_models(models, datasets, beam=beam, seed=seed, threads=threads, progress=progress)
    missed = [
        note_missed(Labeled.of(dataset, model), name, rows=number == 0)
        for number, (name, model, dataset) in enumerate(zip(names, models, datasets, strict=True))
    ]
    rows = [
        {**_report(name, item), **counts} for name, item, counts in zip(names, found, missed, strict=True)
    ]
    lines = _table(names, found)
    if not quiet:
        title = "differences from the first model, by a paired bootstrap over rows:"
        lines += ["", f"{printing.plural(n_rows, 'row')}; {title}", *_differences(names, found), "", _F1_NOTE]
    printing.show({"rows": n_rows, "test": "paired bootstrap", "models": rows}, lines, json)


def _reads_alike(one: Model, other: Model) -> bool:
    """Return whether data is the same for two models: features, columns and first index."""
    if one.text is None or other.text is None:
        return (one.text, one.one_based, one.n_features) == (other.text, other.one_based, other.n_features)
    return one.text.contents == other.text.contents


def _report(name: str, item: Compared) -> dict[str, Any]:
    return {
        "model": name,
        "model_bytes": item.model.bytes,
        "milliseconds_per_row": item.milliseconds_per_row,
        **{metric: round(value.value, 4) for metric, value in item.metrics.items()},
        "F1_threshold": _threshold(item),
        "differences": {metric: asdict(found) for metric, found in item.differences.items()},
    }


def _threshold(item: Compared) -> str:
    return "best" if item.model.decision is None else "stored"


def _table(names: list[str], found: list[Compared]) -> list[str]:
    metrics = list(found[0].metrics)
    rows = []
    for name, item in zip(names, found, strict=True):
        marks = {metric: "*" if gap.significant else " " for metric, gap in item.differences.items()}
        cells = [f"{item.metrics[metric].value:.2f}{marks.get(metric, ' ')}" for metric in metrics]
        size, speed = human_bytes(item.model.bytes), f"{item.milliseconds_per_row:.3f}"
        rows.append([name, size, speed, *cells, _threshold(item)])
    head = ["model", "size", "ms/row", *(f"{metric} " for metric in metrics), "threshold"]
    return printing.table(head, rows, left=1)


def _differences(names: list[str], found: list[Compared]) -> list[str]:
    rows = [
        [name, metric, f"{gap.points:+.2f}", f"{gap.low:+.2f}", f"{gap.high:+.2f}", f"{gap.p_value:.3f}"]
        for name, item in zip(names[1:], found[1:], strict=True)
        for metric, gap in item.differences.items()
    ]
    return printing.table(["model", "metric", "points", "95% from", "to", "p"], rows, left=2)
