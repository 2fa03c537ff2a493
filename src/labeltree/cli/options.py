"""The options that several commands share: one name, one meaning, one limit."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import fields
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from labeltree.base import limits
from labeltree.cli.published import model_place, own_place
from labeltree.errors import InputError, alternatives
from labeltree.settings import ScoreSettings

TREE = "Label tree"
_STORAGE = "Stored weights"
# Options that have another name than the parameter of the library.
_NAMES = {
    "add_missing": "--tree-rest",
    "format": "--data-format",
}
_COLUMNS = {
    "text": "--text-column",
    "labels": "--label-column",
    "id": "--id-column",
    "separators": "--label-separator",
}
_option: Any = typer.Option
_argument: Any = typer.Argument


def spelled(name: str, value: Any) -> str:
    """Return a parameter of the library as an option, for the hints of its errors."""
    if name == "one_based":
        return "--one-based" if value else "--zero-based"
    if name == "columns":
        return _COLUMNS[value]
    option = _NAMES.get(name, f"--{name.replace('_', '-')}")
    return option if value is None or value is True else f"{option} {value}"


def limited(
    name: str,
    limit: limits.Limit,
    metavar: str,
    help: str,
    section: str | None = None,
    *,
    default: object = None,
) -> Any:
    """Declare an option whose values have a limit.

    Parameters
    ----------
    name : str
        With its dashes.
    limit : Limit
        What it may be. The choices of `OneOf` are listed after the help, and the shell completes them.
    metavar : str
        What the help calls the value.
    help : str
        Without a period at the end.
    section : str, optional
        The section of the help. Default: Options.
    default : object, optional
        What the help calls the default, if the default itself is None.

    Returns
    -------
    typer option
    """
    text = _parsing(name, limit, help, "" if default is None else f" Default: {default}.")
    return _option(name, metavar=metavar, rich_help_panel=section, **text)


def limited_argument(limit: limits.OneOf, metavar: str, help: str) -> Any:
    """Declare an argument that is one of a few choices."""
    return _argument(metavar=metavar, **_parsing(metavar, limit, help))


def _parsing(name: str, limit: limits.Limit, help: str, more: str = "") -> dict[str, Any]:
    def parse(value: Any) -> Any:
        try:
            return limits.checked(name, _from_text(value, limit), limit)
        except InputError as error:
            # Typer's own kind of error: it keeps track of the command.
            raise typer.BadParameter(error.what) from None

    if not isinstance(limit, limits.OneOf):
        return {"parser": parse, "help": f"{help}.{more}"}
    text = f"{help}: {alternatives(list(map(str, limit.values)))}.{more}"
    return {"parser": parse, "help": text, "autocompletion": lambda: list(limit.values)}


def _from_text(value: Any, limit: limits.Limit) -> Any:
    """Convert the text of a number; other text is left for the limit to check."""
    try:
        if isinstance(limit, limits.Whole):
            return int(value)
        if isinstance(limit, limits.Number):
            return float(value)
        if isinstance(limit, limits.PerDepth):
            numbers = tuple(map(float, str(value).split(",")))
            return numbers if len(numbers) > 1 else numbers[0]
    except ValueError:
        return value
    # squared-hinge is squared_hinge.
    underscored = str(value).replace("-", "_")
    return underscored if isinstance(limit, limits.OneOf) and underscored in limit.values else value


Data = Annotated[
    str,
    _argument(
        metavar="DATA",
        help="LIBSVM, TSV, CSV or JSONL file, plain or compressed (gz, bz2, xz), or - for standard input.",
    ),
]
_MODEL: dict[str, Any] = {
    "parser": model_place,
    "help": "Model directory, or address such as hf://user/name.",
}
ModelPath = Annotated[Path, _argument(metavar="MODEL", **_MODEL)]
OwnModelPath = Annotated[Path, _argument(metavar="MODEL", parser=own_place, help="Model directory.")]
NewModelPath = Annotated[Path, _argument(metavar="MODEL", help="Model directory to write.")]

Clusters = Annotated[int, limited("--clusters", limits.CLUSTERS, "K", "Number of clusters per node", TREE)]
Seed = Annotated[int, limited("--seed", limits.SEED, "N", "Random seed; the same seed gives the same result")]
Threads = Annotated[
    int | None, limited("--threads", limits.THREADS, "N", "Number of threads", default="all CPUs")
]
MemoryLimit = Annotated[
    int | None,
    limited("--memory-limit", limits.MEMORY, "SIZE", "Memory that training may use, such as 8GB"),
]
Force = Annotated[bool, _option("--force", help="Train even if memory or disk space appears insufficient.")]
Overwrite = Annotated[
    bool, _option("--overwrite", help="Replace existing output once the new output is complete.")
]
WorkPath = Annotated[Path, _argument(metavar="WORK", help="Work directory.")]
NewWorkPath = Annotated[Path, _argument(metavar="WORK", help="Work directory to make.")]
Part = Annotated[str, _option("--part", metavar="PART", help="The part, such as 3/8: the third of eight.")]
Resume = Annotated[
    bool,
    _option("--resume", help="Continue an interrupted run with the same data and options."),
]
Dask = Annotated[
    str | None,
    _option(
        "--dask",
        metavar="ADDRESS",
        help="Train on the Dask cluster with this scheduler, such as tcp://host:8786. All workers must see "
        "the directory of MODEL.",
    ),
]
Sync = Annotated[
    bool,
    _option(
        "--sync/--no-sync",
        help="Wait until data is on disk, so that nothing is lost if the machine fails.",
    ),
]
OneBased = Annotated[
    bool | None,
    _option(
        "--one-based/--zero-based",
        help="Whether feature indices in LIBSVM files start at 1 or 0. Default: detected.",
    ),
]
OneBasedLikeModel = Annotated[
    bool | None,
    _option(
        "--one-based/--zero-based",
        help="Whether feature indices in LIBSVM files start at 1 or 0. Default: as in training.",
    ),
]
Beam = Annotated[
    int, limited("--beam", limits.BEAM, "N", "Beam width: nodes kept at each depth of the search")
]
Top = Annotated[int, limited("--top", limits.TOP, "N", "Number of labels per row")]
Words = Annotated[
    int, limited("--words", limits.WORDS, "N", "Number of words to show for and against each step")
]
Score = Annotated[
    str | None,
    limited(
        "--score",
        limits.SCORE,
        "NAME",
        "Function that maps classifier outputs to scores",
        default="as stored in the model",
    ),
]
ScoreScale = Annotated[
    float | None,
    limited(
        "--score-scale",
        limits.SCORE_SCALE,
        "A",
        "Scale of the sigmoid: sigmoid(A x margin)",
        default="as stored in the model",
    ),
]
StoredScore = Annotated[
    str,
    limited(
        "--score",
        limits.STORED_SCORE,
        "NAME",
        "Function that maps classifier outputs to scores, stored as the model's default",
    ),
]
StoredScoreScale = Annotated[
    float | None,
    limited(
        "--score-scale",
        limits.SCORE_SCALE,
        "A",
        "Scale of the sigmoid, stored as the model's default",
        default=f"chosen with the function, {ScoreSettings.scale:g} with --score sigmoid",
    ),
]
Weights = Annotated[
    str | None,
    limited(
        "--weights",
        limits.WEIGHTS,
        "TYPE",
        "Type of the stored weights",
        _STORAGE,
        default="float32, or int8 with --prune",
    ),
]
Prune = Annotated[
    float | None,
    limited(
        "--prune",
        limits.PRUNE,
        "T",
        "Drop weights with an absolute value below T, and store the others as int8; 0 drops what rounds to "
        "zero",
        _STORAGE,
        default="keep all",
    ),
]


def _use_settings(context: typer.Context, path: Path | None) -> Path | None:
    """Make the values of a settings file the defaults of the other options."""
    if path is not None:
        from labeltree.tuning.settings_file import as_options, read_settings

        context.default_map = {**(context.default_map or {}), **as_options(read_settings(path))}
    return path


SettingsFile = Annotated[
    Path | None,
    _option(
        "--settings",
        metavar="FILE",
        is_eager=True,
        callback=_use_settings,
        help="JSON file with settings, such as the one that `labeltree tune` writes. Options that are given "
        "as well take precedence.",
    ),
]
MaxSize = Annotated[
    int | None,
    limited(
        "--max-size",
        limits.MAX_SIZE,
        "SIZE",
        "Prune the trained weights just enough for the model to fit in SIZE, such as 50MB",
        _STORAGE,
    ),
]
Quiet = Annotated[bool, _option("--quiet", "-q", help="Suppress progress and summaries.")]
Json = Annotated[bool, _option("--json", help="Print the results as a single JSON object.")]


def takes(**groups: type[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options of dataclasses.

    Parameters
    ----------
    **groups : dataclass
        Each field of a class is an option; the command gets an object of the class as the argument.

    Returns
    -------
    decorator
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        names = {argument: [item.name for item in fields(group)] for argument, group in groups.items()}

        @wraps(command)
        def call(**given: Any) -> None:
            for argument, group in groups.items():
                given[argument] = group(**{name: given.pop(name) for name in names[argument]})
            command(**given)

        signature = inspect.signature(command, eval_str=True)
        parameters: list[inspect.Parameter] = []
        for item in signature.parameters.values():
            group = groups.get(item.name)
            parameters += [item.replace(kind=item.KEYWORD_ONLY)] if group is None else _parameters(group)
        call.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        call.__annotations__ = {item.name: item.annotation for item in parameters}
        return call

    return decorate


def _parameters(group: type[Any]) -> Iterator[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    for item in fields(group):
        keyword = inspect.Parameter.KEYWORD_ONLY
        yield inspect.Parameter(item.name, keyword, default=item.default, annotation=hints[item.name])
