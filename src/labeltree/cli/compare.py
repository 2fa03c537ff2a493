"""`labeltree compare`: models side by side on the same rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from labeltree.cli import options, printing, text_options
from labeltree.cli.prediction import open_model
from labeltree.cli.progress import Stages
from labeltree.cli.reading import Source
from labeltree.errors import InputError
from labeltree.settings import DEFAULT_BEAM
from labeltree.system import human_bytes

if TYPE_CHECKING:
    from pathlib import Path

    from labeltree.tuning.comparison import Compared


@options.takes(text=text_options.Reading)
def compare(
    paths: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL MODEL... DATA", help="Two or more model directories, then labeled data."
        ),
    ],
    text: text_options.Reading,
    beam: options.Beam = DEFAULT_BEAM,
    seed: options.Seed = 0,
    threads: options.Threads = None,
    one_based: options.OneBasedLikeModel = None,
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> None:
    """Compare models on labeled data that none of them was trained on.

    Prints metrics, size and prediction time side by side. Differences from the first model have a 95%
    interval and a p-value of a paired bootstrap over the rows; an asterisk marks those with p < 0.05.
    """
    from labeltree.tuning.comparison import compare_models

    *names, data = paths
    if len(names) < 2:
        hint = "pass two or more models, then the data: `labeltree compare MODEL MODEL DATA`"
        raise InputError("there is nothing to compare", hint=hint)
    if data == "-":
        raise InputError("standard input can be read only once", hint="pass a file")
    stages = Stages(quiet or json)
    models = [open_model(stages, _path(name)) for name in names]
    sources = [Source(data, text, one_based, model) for model in models]
    first = sources[0].read(stages, threads)
    datasets = [first]
    for source, model in zip(sources[1:], models[1:], strict=True):
        same = model.text is None or (
            models[0].text is not None and model.text.contents == models[0].text.contents
        )
        datasets.append(first if same else source.read(stages, threads))
    with printing.warnings_as_notes(), stages.stage("compare", "comparing") as progress:
        found = compare_models(models, datasets, beam=beam, seed=seed, threads=threads, progress=progress)
    if json:
        rows = [_report(name, item) for name, item in zip(names, found, strict=True)]
        printing.print_json({"rows": first.n_instances, "test": "paired bootstrap", "models": rows})
        return
    print(*_table(names, found), sep="\n")
    if not quiet:
        rows_read = printing.plural(first.n_instances, "row")
        print(
            "", f"{rows_read}; differences from the first model, by a paired bootstrap over rows:", sep="\n"
        )
        print(*_differences(names, found), sep="\n")


def _path(name: str) -> Path:
    from pathlib import Path

    return Path(name)


def _report(name: str, item: Compared) -> dict[str, Any]:
    return {
        "model": name,
        "model_bytes": item.model.bytes,
        "milliseconds_per_row": item.milliseconds_per_row,
        **{metric: round(value.value, 4) for metric, value in item.metrics.items()},
        "differences": {
            metric: {
                "points": round(found.points, 4),
                "low": round(found.low, 4),
                "high": round(found.high, 4),
                "p_value": found.p_value,
            }
            for metric, found in item.differences.items()
        },
    }


def _table(names: list[str], found: list[Compared]) -> list[str]:
    metrics = list(found[0].metrics)
    rows = []
    for name, item in zip(names, found, strict=True):
        marks = {metric: "*" if gap.significant else " " for metric, gap in item.differences.items()}
        cells = [f"{item.metrics[metric].value:.2f}{marks.get(metric, ' ')}" for metric in metrics]
        rows.append([name, human_bytes(item.model.bytes), f"{item.milliseconds_per_row:.3f}", *cells])
    return printing.table(["model", "size", "ms/row", *(f"{metric} " for metric in metrics)], rows, left=1)


def _differences(names: list[str], found: list[Compared]) -> list[str]:
    rows = [
        [name, metric, f"{gap.points:+.2f}", f"{gap.low:+.2f}", f"{gap.high:+.2f}", f"{gap.p_value:.3f}"]
        for name, item in zip(names[1:], found[1:], strict=True)
        for metric, gap in item.differences.items()
    ]
    return printing.table(["model", "metric", "points", "95% from", "to", "p"], rows, left=2)
