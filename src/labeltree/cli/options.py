"""The options of all commands: one name, one meaning, and help and limits from the settings."""

from __future__ import annotations

import inspect
import itertools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_type_hints

import typer

from labeltree import settings
from labeltree.base import limits
from labeltree.base.limits import AUTO
from labeltree.base.progress import Stages
from labeltree.cli import printing
from labeltree.errors import InputError, alternatives
from labeltree.hub.address import is_address
from labeltree.settings import (
    DEFAULT_BEAM,
    ModelSettings,
    ScoreSettings,
    SolverSettings,
    StorageSettings,
    TextSettings,
    TreeSettings,
)

if TYPE_CHECKING:
    from labeltree.data.columns import Columns
    from labeltree.data.dataset import Dataset

TREE, READING = "Label tree", "Text input"
_STORAGE = "Stored weights"
# The limits of settings, and the section of the help that they are in.
_SETTINGS: dict[type[Any], tuple[dict[str, limits.Limit], str]] = {
    TreeSettings: (settings.TREE_LIMITS, TREE),
    SolverSettings: (settings.SOLVER_LIMITS, "Classifiers"),
    StorageSettings: (settings.STORAGE_LIMITS, _STORAGE),
    TextSettings: (settings.TEXT_LIMITS, "Text features (TF-IDF)"),
    ModelSettings: ({}, "Classifiers"),
}
_METAVARS = {
    limits.Whole: "N",
    limits.Number: "X",
    limits.PerDepth: "X,...",
    limits.Span: "MIN,MAX",
    limits.Size: "SIZE",
    limits.Duration: "TIME",
}
_FORMATS = limits.OneOf(("svm", *limits.TEXT_FORMAT.values))
_TABS = {"tab": "\t", "\\t": "\t"}
_STOP_WORDS = limits.OneOf(("english", "none"))
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
    rare: bool = False,
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
    rare : bool, default False
        Show it only with --help-all.

    Returns
    -------
    typer option
    """
    text = _with_choices(help, limit) + ("" if default is None else f" Default: {default}.")
    return _option(
        name, metavar=metavar, help=text, rich_help_panel=section, hidden=rare, **_parsing(name, limit)
    )


def setting(
    kind: type[Any], name: str, *, limit: limits.Limit | None = None, flag: str = "", rare: bool = True
) -> Any:
    """Declare the option of a setting: its limit and its help are those of the class.

    Parameters
    ----------
    kind : type
        A class of settings, with a numpydoc docstring.
    name : str
        The setting.
    limit : Limit, optional
        What it may be on the command line. Default: the same as in Python.
    flag : str, optional
        The names of an option without a value, such as --lowercase/--keep-case.
    rare : bool, default True
        Show it only with --help-all.

    Returns
    -------
    typer option
    """
    known, section = _SETTINGS[kind]
    help = _documentation(kind, name)
    if flag:
        return _option(flag, help=help, rich_help_panel=section, hidden=rare)
    limit = limit or known[name]
    limit = limit.limit if isinstance(limit, limits.Optional) else limit
    metavar = _METAVARS.get(type(limit), "NAME")
    if isinstance(limit, limits.OneOf):
        before, *default = help.partition(" Default:")
        help = "".join([before, f" One of {alternatives(list(map(str, limit.values)))}.", *default])
    return _option(
        spelled(name, None),
        metavar=metavar,
        help=help,
        rich_help_panel=section,
        hidden=rare,
        **_parsing(spelled(name, None), limit),
    )


def _documentation(kind: type[Any], name: str) -> str:
    """Return what the docstring of a class says about a parameter, with parameters as options."""
    lines = inspect.cleandoc(kind.__doc__ or "").splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith(f"{name} : ")) + 1
    described = itertools.takewhile(lambda line: line.startswith(" "), lines[first:])
    text = " ".join(map(str.strip, described))
    default = lines[first - 1].partition(", default ")[2]
    if kind is TextSettings and default[:1] in "(0123456789" and default:  # the option itself is None
        text = f"{text} Default: {default.strip('()').replace(', ', ',')}."
    return re.sub("``(.+?)``", lambda found: spelled(found[1], None), text)


def limited_argument(limit: limits.OneOf, metavar: str, help: str) -> Any:
    """Declare an argument that is one of a few choices."""
    return _argument(metavar=metavar, help=_with_choices(help, limit), **_parsing(metavar, limit))


def _with_choices(help: str, limit: limits.Limit) -> str:
    choices = f": {alternatives(list(map(str, limit.values)))}" if isinstance(limit, limits.OneOf) else ""
    return f"{help}{choices}."


def _parsing(name: str, limit: limits.Limit) -> dict[str, Any]:
    def parse(value: Any) -> Any:
        try:
            return limits.checked(name, _from_text(value, limit), limit)
        except InputError as error:
            # Typer's own kind of error: it keeps track of the command.
            raise typer.BadParameter(error.what) from None

    if isinstance(limit, limits.OneOf):
        return {"parser": parse, "autocompletion": lambda: list(limit.values)}
    return {"parser": parse}


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
        if isinstance(limit, limits.Span):
            ends = tuple(map(int, str(value).split(",")))
            return ends * 2 if len(ends) == 1 else ends
    except ValueError:
        return value
    # squared-hinge is squared_hinge.
    underscored = str(value).replace("-", "_")
    return underscored if isinstance(limit, limits.OneOf) and underscored in limit.values else value


@dataclass(frozen=True)
class Published:
    """The address of a model that a command is to open."""

    url: str


def model_place(text: str) -> Path | Published:
    """Parse an argument that is a model directory or an address."""
    return Published(text) if is_address(text) else Path(text)


def own_place(text: str) -> Path:
    """Parse an argument that is a model directory which the command changes."""
    if is_address(text):
        what = "a published model cannot be changed; download it first"
        raise typer.BadParameter(f"MODEL is {text!r}, expected a directory: {what}")
    return Path(text)


def with_local_models(arguments: dict[str, Any]) -> dict[str, Any]:
    """Replace the addresses among the arguments of a command by directories, after the models are there."""
    stages = Stages(bool(arguments.get("quiet") or arguments.get("json")))

    def local(value: Any) -> Any:
        if isinstance(value, list | tuple):
            return type(value)(map(local, value))
        return fetched(stages, value.url) if isinstance(value, Published) else value

    return {name: local(value) for name, value in arguments.items()}


def fetched(stages: Stages, url: str) -> Path:
    """Return the directory of a published model, downloaded as a stage of the command if necessary."""
    from labeltree.hub.loading import fetch

    with printing.warnings_as_notes():
        return fetch(url, stage=stages.stage)


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

Seed = Annotated[int, limited("--seed", limits.SEED, "N", "Random seed; the same seed gives the same result")]
Threads = Annotated[
    int | None, limited("--threads", limits.THREADS, "N", "Number of threads", default="all CPUs")
]
MemoryLimit = Annotated[
    int | None,
    limited("--memory-limit", limits.MEMORY, "SIZE", "Memory that training may use, such as 8GB", rare=True),
]
Force = Annotated[
    bool, _option("--force", hidden=True, help="Train even if memory or disk space appears insufficient.")
]
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
        hidden=True,
        metavar="ADDRESS",
        help="Train on the Dask cluster with this scheduler, such as tcp://host:8786. All workers must see "
        "the directory of MODEL.",
    ),
]
Sync = Annotated[
    bool,
    _option(
        "--sync/--no-sync",
        hidden=True,
        help="Wait until data is on disk, so that nothing is lost if the machine fails.",
    ),
]
OneBased = Annotated[
    bool | None,
    _option(
        "--one-based/--zero-based",
        hidden=True,
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
        rare=True,
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
        rare=True,
    ),
]


def _use_settings(context: typer.Context, path: Path | None) -> Path | None:
    """Make the values of a settings file the defaults of the other options."""
    if path is not None:
        from labeltree.tuning.settings_file import read_settings

        # Several numbers are joined by commas, as they are written on the command line.
        given = {
            name: ",".join(f"{number:g}" for number in value) if isinstance(value, list | tuple) else value
            for name, value in read_settings(path).items()
        }
        context.default_map = {**(context.default_map or {}), **given}
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


def as_command(function: Callable[..., None]) -> Callable[..., None]:
    """Return a function for Typer: fields of dataclasses become options, published models are downloaded.

    Parameters
    ----------
    function : callable
        A command. Each field of a parameter that is a dataclass is an option, and the function gets an
        object of the class. Rare options are shown by --help-all.

    Returns
    -------
    callable
    """
    signature = inspect.signature(function, eval_str=True)
    groups: dict[str, type[Any]] = {}
    parameters: list[inspect.Parameter] = []
    for item in signature.parameters.values():
        if isinstance(item.annotation, type) and is_dataclass(item.annotation):
            groups[item.name] = item.annotation
            parameters += _parameters(item.annotation)
        else:
            parameters.append(item.replace(kind=item.KEYWORD_ONLY))
    has_rare = any(option.hidden for item in parameters for option in _declared(item))
    if has_rare:
        parameters.append(
            inspect.Parameter("help_all", item.KEYWORD_ONLY, default=False, annotation=_HelpAll)
        )

    for item in parameters:
        if getattr(item.annotation, "__origin__", None) in (bool, bool | None):
            for option in _declared(item):
                option.metavar = ""  # Typer would show the type of an option without a value

    @wraps(function)
    def call(**given: Any) -> None:
        given.pop("help_all", None)
        given = with_local_models(given)
        for name, group in groups.items():
            given[name] = group(**{item.name: given.pop(item.name) for item in fields(group)})
        function(**given)

    call.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {item.name: item.annotation for item in parameters}
    return call


def _parameters(group: type[Any]) -> Iterator[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    for item in fields(group):
        keyword = inspect.Parameter.KEYWORD_ONLY
        yield inspect.Parameter(item.name, keyword, default=item.default, annotation=hints[item.name])


def _declared(parameter: inspect.Parameter) -> tuple[Any, ...]:
    """Return how Typer is to read a parameter."""
    return getattr(parameter.annotation, "__metadata__", ())


def _show_all(context: typer.Context, given: bool) -> None:
    if given:
        for parameter in context.command.params:
            parameter.hidden = False  # type: ignore[attr-defined]
        print(context.get_help())
        raise typer.Exit


_HelpAll = Annotated[
    bool,
    _option("--help-all", is_eager=True, callback=_show_all, help="Show all options, and exit."),
]


@dataclass(frozen=True)
class Reading:
    """How documents are read; None where the option was not given."""

    data_format: Annotated[
        str | None,
        limited(
            "--data-format",
            _FORMATS,
            "NAME",
            "Format of DATA",
            READING,
            default="detected from its name",
            rare=True,
        ),
    ] = None
    text_column: Annotated[
        list[str] | None,
        _option(
            "--text-column",
            rich_help_panel=READING,
            metavar="NAME",
            help="Column with the text, in CSV and JSONL; repeat the option to join several. Default: text.",
        ),
    ] = None
    label_column: Annotated[
        str | None,
        _option(
            "--label-column",
            rich_help_panel=READING,
            metavar="NAME",
            help="Column with the labels, in CSV and JSONL. Default: labels.",
        ),
    ] = None
    label_separator: Annotated[
        list[str] | None,
        _option(
            "--label-separator",
            rich_help_panel=READING,
            metavar="TEXT",
            help="String that separates labels; repeat the option for several. Default: whitespace in TSV, a "
            "comma in CSV and JSONL.",
        ),
    ] = None
    delimiter: Annotated[
        str | None,
        _option(
            "--delimiter",
            hidden=True,
            rich_help_panel=READING,
            metavar="CHARACTER",
            help="Character between the fields of a CSV file, or tab. Default: detected from the header.",
        ),
    ] = None
    strict: Annotated[
        bool,
        _option(
            "--strict",
            rich_help_panel=READING,
            hidden=True,
            help="Refuse documents without text or labels instead of counting them.",
        ),
    ] = False

    def format(self, data: str) -> str | None:
        """Return the format of a data file; None if neither option nor name shows it."""
        from labeltree.data.columns import format_of

        return self.data_format or format_of(data)

    def columns(self, format: str, default: Columns, id_column: str | None = None) -> Columns:
        """Return where to find text, labels and what identifies a document."""
        named = ("csv", "jsonl")
        for option, value, formats, names in (
            ("--text-column", self.text_column, named, "CSV and JSONL"),
            ("--label-column", self.label_column, named, "CSV and JSONL"),
            ("--delimiter", self.delimiter, ("csv",), "CSV"),
            ("--id-column", id_column, (*named, "tsv"), "TSV, CSV and JSONL"),
        ):
            if value and format not in formats:
                raise InputError(
                    f"{option} applies only to {names}, but DATA is in {format} format",
                    hint="remove it, or set --data-format",
                )
        texts = self.text_column
        given: dict[str, Any] = {
            "text": (texts[0] if len(texts) == 1 else tuple(texts)) if texts else None,
            "labels": self.label_column,
            "separators": tuple(self.label_separator) if self.label_separator else None,
            "id": id_column,
            "delimiter": _TABS.get(self.delimiter or "", self.delimiter),
        }
        return replace(default, **{key: value for key, value in given.items() if value is not None})

    def refuse_for_svm(self, id_column: str | None = None, settings: Path | None = None) -> None:
        """Refuse options for text, given or from a settings file, if the data is LIBSVM."""
        given = {item.name: getattr(self, item.name) for item in fields(self)} | {"id_column": id_column}
        for name, value in given.items():
            if name != "data_format" and value is not None and not (name == "strict" and value is False):
                from labeltree.tuning.settings_file import read_settings

                is_from_file = settings is not None and name in read_settings(settings)
                raise InputError(
                    f"{name if is_from_file else spelled(name, None)} applies only to text, but DATA is in "
                    "LIBSVM format",
                    file=settings if is_from_file else None,
                    hint="remove it, or set --data-format",
                )


@dataclass(frozen=True)
class Text(Reading):
    """How documents are read and become features; None where the option was not given."""

    analyzer: Annotated[str | None, setting(TextSettings, "analyzer")] = None
    ngrams: Annotated[Any, setting(TextSettings, "ngrams", rare=False)] = None
    min_df: Annotated[int | None, setting(TextSettings, "min_df")] = None
    max_features: Annotated[int | None, setting(TextSettings, "max_features")] = None
    sublinear: Annotated[
        bool | None, setting(TextSettings, "sublinear", flag="--sublinear/--no-sublinear")
    ] = None
    stop_words: Annotated[str | None, setting(TextSettings, "stop_words", limit=_STOP_WORDS)] = None
    lowercase: Annotated[bool | None, setting(TextSettings, "lowercase", flag="--lowercase/--keep-case")] = (
        None
    )

    def settings(self) -> TextSettings:
        """Return the settings, with defaults for options that were not given."""
        given = {item.name: getattr(self, item.name) for item in fields(TextSettings)}
        given = {name: value for name, value in given.items() if value is not None}
        if self.stop_words == "none":
            del given["stop_words"]
        return TextSettings(**given)


def refuse_base_for_text(one_based: bool | None) -> None:
    """Refuse options for LIBSVM data if the data is text."""
    if one_based is not None:
        raise InputError(
            f"--{'one' if one_based else 'zero'}-based applies only to LIBSVM data, but the input is text",
            hint="remove it, or set --data-format",
        )


@dataclass(frozen=True)
class Training:
    """How the trees of a model are built, how its classifiers are trained, and how weights are stored."""

    clusters: Annotated[int, setting(TreeSettings, "clusters", rare=False)] = TreeSettings.clusters
    max_depth: Annotated[int, setting(TreeSettings, "max_depth", rare=False)] = TreeSettings.max_depth
    trees: Annotated[int, setting(TreeSettings, "trees", rare=False)] = TreeSettings.trees
    seed: Annotated[int, setting(TreeSettings, "seed", rare=False)] = TreeSettings.seed
    tree: Annotated[
        Path | None,
        _option(
            "--tree",
            hidden=True,
            metavar="FILE",
            help="Use this tree instead of clustering: nested lists (JSON), a table with the columns label "
            "and parent, or one cluster of labels per line.",
            rich_help_panel=TREE,
        ),
    ] = None
    tree_rest: Annotated[
        bool,
        _option(
            "--tree-rest",
            hidden=True,
            help="Put labels missing from FILE under a separate child of the root.",
            rich_help_panel=TREE,
        ),
    ] = False
    loss: Annotated[str, setting(SolverSettings, "loss")] = SolverSettings.loss
    cost: Annotated[float | None, setting(SolverSettings, "cost", rare=False)] = SolverSettings.cost
    max_cost: Annotated[float | None, setting(SolverSettings, "max_cost")] = SolverSettings.max_cost
    positive_cost: Annotated[Any, setting(SolverSettings, "positive_cost")] = SolverSettings.positive_cost
    tolerance: Annotated[float, setting(SolverSettings, "tolerance")] = SolverSettings.tolerance
    max_iterations: Annotated[int, setting(SolverSettings, "max_iterations")] = SolverSettings.max_iterations
    bias: Annotated[float, setting(SolverSettings, "bias")] = SolverSettings.bias
    normalize: Annotated[bool, setting(ModelSettings, "normalize", flag="--normalize/--no-normalize")] = True
    weights: Annotated[str | None, setting(StorageSettings, "weights", rare=False)] = StorageSettings.weights
    prune: Annotated[float | None, setting(StorageSettings, "prune", rare=False)] = StorageSettings.prune

    def model_settings(self, score: ScoreSettings | Literal["auto"] = AUTO) -> ModelSettings:
        """Return all settings of a model; reads the file of a given tree."""
        from labeltree.trees.file import read_tree

        if self.tree_rest and self.tree is None:
            raise InputError("--tree-rest is given without --tree", hint="add --tree FILE, or leave it out")
        given = None if self.tree is None else read_tree(self.tree, add_missing=self.tree_rest)
        return ModelSettings.of({**vars(self), "tree": given}, score, self.normalize)

    def rows_of(self, dataset: Dataset, *, quiet: bool) -> Dataset:
        """Return the data to train on; notes report that rows are scaled, or what their length changes."""
        from labeltree.training.costs import default_cost, length_cost

        scaled = dataset.normalize() if self.normalize else dataset
        if scaled.X is not dataset.X and not quiet:
            printing.note("rows are scaled to length 1; --no-normalize keeps their lengths")
        if self.cost is None and not quiet and length_cost(scaled.X) != 1:
            cost = default_cost(scaled.X)
            printing.note(f"the cost is {cost:g}, because of the length of the rows; --cost sets another")
        return scaled


@dataclass(frozen=True)
class Search:
    """How to search for the best labels."""

    beam: Beam = DEFAULT_BEAM
    score: Score = None
    score_scale: ScoreScale = None
