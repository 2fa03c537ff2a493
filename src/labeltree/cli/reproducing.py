"""`labeltree reproduce`: the paper's tables and figures on data at hand, and a report about them."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from labeltree.cli import options, printing
from labeltree.cli.progress import Stages
from labeltree.errors import InputError, ResourceError

if TYPE_CHECKING:
    from labeltree.paper.experiments import Result

Number = TypeVar("Number", int, float)
# Which experiments an option is for.
TAKEN_BY = {
    "clusters": ("fixed-k", "alpha", "pruning", "theory"),
    "labels": ("theory",),
    "features": ("theory",),
    "alphas": ("theory",),
    "quick": ("time",),
}
MOST = 2**53  # whole numbers that the formulas take exactly
_theory: Any = partial(typer.Option, rich_help_panel="Balanced trees (theory)", show_default=False)


def reproduce(
    what: Annotated[
        str,
        typer.Argument(
            metavar="WHAT",
            help="statistics, fixed-k, varied-k, alpha, pruning, theory, time, several with commas, or all.",
            show_default=False,
        ),
    ],
    out: Annotated[
        Path,
        typer.Option("--out", "-o", metavar="OUT", help="Folder for the results.", show_default=False),
    ],
    data: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="DATA",
            help="Folders with train.svm and test.svm (plain or compressed), training files, or names of "
            "sets that `labeltree download` fetched. theory and time need none.",
            show_default=False,
        ),
    ] = None,
    seeds: Annotated[
        str, typer.Option(metavar="N,N,...", help="Seeds: one tree is built for each.")
    ] = "0,1,2,3,4",
    clusters: Annotated[
        int | None,
        typer.Option(
            metavar="K",
            callback=options.whole_number(2),
            help="Clusters that a node is split into; the paper's 100 unless given.",
            show_default=False,
        ),
    ] = None,
    labels: Annotated[
        int | None, _theory(metavar="L", callback=options.whole_number(2, MOST), help="Labels.")
    ] = None,
    features: Annotated[
        int | None, _theory(metavar="N", callback=options.whole_number(1, MOST), help="Features that occur.")
    ] = None,
    alphas: Annotated[
        str | None, _theory(metavar="X,X,...", help="Shares of its parent's features that a node uses.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="time: small sizes only, for a look.")] = False,
    threads: options.Threads = None,
    overwrite: options.Overwrite = False,
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> None:
    """Reproduce the paper's tables and figures, as CSV, PNG and SVG, with a report.html about them."""
    from labeltree.paper import experiments
    from labeltree.paper.experiments import output
    from labeltree.paper.experiments.session import check_seeds

    names = _asked(what)
    given: dict[str, Any] = {
        "clusters": clusters,
        "labels": labels,
        "features": features,
        "alphas": None if alphas is None else _numbers(alphas, float, "alphas"),
        "quick": quick or None,
    }
    chosen = _options(names, {key: value for key, value in given.items() if value is not None})
    if "theory" in names:  # runs late
        from labeltree.paper.experiments import formulas

        formulas.check(**{key: value for key, value in chosen["theory"].items() if key != "features"})
    output.check_out(out, names, overwrite)
    seed_list = _numbers(seeds, int, "seeds")
    check_seeds(seed_list)
    if not data:
        for name in names:
            experiments.check_data(name, ())
    stages = Stages(quiet or json)
    splits = experiments.load_splits(data or (), threads=threads, stage=stages.stage)
    session = experiments.Session(splits, seed_list, threads)
    if what == "all" and not any(split.test for split in splits):
        names = [name for name in names if name not in experiments.WITH_TEST]
        printing.note(f"{', '.join(experiments.WITH_TEST)} is left out: no data set has test data")
    for name in names:
        experiments.check_data(name, splits)
    results: list[Result] = []
    no_room: list[str] = []
    try:
        for name in names:
            own = chosen[name]
            try:
                with printing.warnings_as_notes(), stages.stage(name, name) as progress:
                    result = experiments.run(name, session, progress=progress, **own)
                    output.save_parts(result, out)
            except ResourceError as error:  # the others may have it
                if len(names) == 1:
                    raise
                no_room.append(f"{name} is left out: {error}")
            else:
                results.append(result)
        if not results:
            raise ResourceError(" ".join(no_room))
        with stages.stage("report", "writing the report"):
            report = output.save_report(results, out)
    except KeyboardInterrupt:
        done = ", ".join(result.name for result in results)
        raise KeyboardInterrupt(f"stopped; in {out}: {done or 'nothing'}") from None
    if json:
        printing.print_json(_figures(results, report, stages))
    elif not quiet:
        print(*_told(results, report), sep="\n")
    if no_room:
        raise ResourceError(" ".join(no_room))


def _asked(what: str) -> list[str]:
    from labeltree.paper.experiments import EXPERIMENTS

    given = list(EXPERIMENTS) if what == "all" else what.split(",")
    unknown = [name for name in given if name not in EXPERIMENTS]
    if unknown:
        raise InputError(
            f"got the unknown experiment {unknown[0]!r}, expected {', '.join(EXPERIMENTS)} or all"
        )
    return [name for name in EXPERIMENTS if name in given]


def _options(names: Sequence[str], given: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Options of each experiment: those that it takes. One that none takes is a mistake."""
    for key in given:
        if not set(names) & set(TAKEN_BY[key]):
            raise InputError(
                f"{', '.join(names)} takes no --{key}, which is for {', '.join(TAKEN_BY[key])}; leave it out"
            )
    return {name: {key: given[key] for key in given if name in TAKEN_BY[key]} for name in names}


def _numbers(text: str, kind: Callable[[str], Number], what: str) -> list[Number]:
    try:
        return [kind(part) for part in text.split(",")]
    except ValueError:
        raise InputError(f"got the {what} {text!r}, expected numbers with commas between them") from None


def _figures(results: Sequence[Result], report: Path, stages: Stages) -> dict[str, Any]:
    found = {
        result.name: {
            "settings": result.settings,
            "claims": [vars(claim) for claim in result.claims],
            "tables": {table.name: table.rows for table in result.tables if table.shown},
        }
        for result in results
    }
    return {"report": str(report), **found, "seconds": stages.seconds}


def _told(results: Sequence[Result], report: Path) -> list[str]:
    """What was found: a table of verdicts, the sentences, and where to read on."""
    from labeltree.paper.experiments.report import VERDICTS, verdict

    lines = []
    for result in results:
        lines += [f"{result.name}: {result.title}"]
        for claim in result.claims:
            text = f"{verdict(claim)}: {claim.sentence}"
            lines += textwrap.wrap(
                text, 100, initial_indent="- ", subsequent_indent="  ", break_on_hyphens=False
            )
        lines.append("")
    counted = (
        (result.name, *(str(sum(verdict(claim) == word for claim in result.claims)) for word in VERDICTS))
        for result in results
    )
    return [*lines, *printing.table(("", *VERDICTS), counted, left=1), "", f"report {report}"]
