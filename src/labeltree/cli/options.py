"""The options of all commands: types, limits and defaults from signatures, help from docstrings.

A parameter of a command is an argument before ``*`` and an option after it. One whose type is a dataclass
stands for an option per field. The help is that of the docstring, where the section "Parameters" is shown
under no title of its own, and names in braces are those of defaults in `labeltree.settings`; a settings class
documents its fields for Python and for the command line.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from functools import cache, wraps
from pathlib import Path
from typing import Annotated, Any, NamedTuple, get_args, get_origin, get_type_hints

import typer

from labeltree import settings
from labeltree.base import limits
from labeltree.cli.places import local, model_place
from labeltree.cli.printing import Display
from labeltree.errors import InputError, alternatives
from labeltree.settings import (
    DEFAULT_BEAM,
    ModelSettings,
    SolverSettings,
    StorageSettings,
    TextSettings,
    TreeSettings,
)

# The sections of the help that settings are in; where two classes have the same one, the last counts.
_SECTIONS: dict[type[Any], str] = {
    ModelSettings: "Classifiers",
    TextSettings: "Text features (TF-IDF)",
    StorageSettings: "Stored weights",
    SolverSettings: "Classifiers",
    TreeSettings: "Label tree",
}
_LIMITS: dict[str, limits.Limit | None] = {
    **settings.TEXT_LIMITS,
    **settings.STORAGE_LIMITS,
    **settings.SOLVER_LIMITS,
    **settings.TREE_LIMITS,
    "stop_words": limits.OneOf(("english", "none")),
    "tree": None,  # a file
    "normalize": limits.FLAG,
}
# The settings whose options are shown by --help. The others, and those marked as rare, are by --help-all.
_EVERY_DAY = {"clusters", "max_depth", "trees", "seed", "cost", "weights", "prune", "ngrams"}
_METAVARS = {
    limits.OneOf: "NAME",
    limits.Whole: "N",
    limits.Number: "X",
    limits.PerDepth: "X,...",
    limits.Span: "MIN,MAX",
    limits.Size: "SIZE",
    limits.Duration: "TIME",
    limits.Loss: "X%",
}
# Parameters of the library that have another name as options.
_NAMES = {"add_missing": "--tree-rest", "format": "--data-format"}
_NAMES |= {"text": "--text-column", "labels": "--label-column", "id": "--id-column"}
_NAMES |= {"separator": "--label-separator", "training": "--data"}
_REPEATED = ("text", "separator")
_FLAGS = {"one_based": "--one-based/--zero-based"}
_SHORT = {"quiet": "-q", "out": "-o", "output": "-o"}

_COMMON = """
Parameters
----------
data
    Files or patterns: LIBSVM, TSV, CSV or JSONL, plain or compressed (gz, bz2, xz), Parquet, Arrow, or X.npz
    Y.npz; - for standard input.
model
    Model directory, or address such as hf://user/name.
work
    Work directory.
threads
    Number of threads. Default: all CPUs.
memory_limit (rare)
    Memory that training may use, such as 8GB.
seed
    Random seed; the same seed gives the same result.
force (rare)
    Train even if memory or disk space appears insufficient.
overwrite
    Replace existing output once the new output is complete.
resume
    Continue an interrupted run with the same data and options.
sync (rare)
    Wait until data is on disk, so that nothing is lost if the machine fails.
beam
    Beam width: nodes kept at each depth of the search.
score
    Function that maps classifier outputs to scores. Default: as stored in the model.
score_scale : A
    Scale of the sigmoid: sigmoid(A x margin). Default: as stored in the model.
top
    Number of labels per row.
words
    Number of words to show for and against each step.
quiet
    Suppress progress and summaries.
json
    Print the results as a single JSON object.
help_all
    Show all options, and exit.
"""


def spelled(name: str, value: Any = None) -> str:
    """Return a parameter of the library as an option, for the hints of its errors."""
    if name == "one_based":
        return "--one-based" if value else "--zero-based"
    option = _NAMES.get(name, f"--{name.replace('_', '-')}")
    return option if value is None or value is True else f"{option} {value}"


def parameter(name: str) -> str:
    """Return the parameter of commands for a parameter of the library: text_column for text."""
    return _NAMES.get(name, name).removeprefix("--").replace("-", "_")


# Docstrings


class _Help(NamedTuple):
    """What a docstring says about a parameter; rare ones are shown only by --help-all."""

    metavar: str
    text: str
    section: str | None
    rare: bool


_SECTION = re.compile(r"\n\n(.+)\n-{3,}\n")
_ENTRY = re.compile(r"^(\w+)(?: : (.+?))??( \(rare\))?\n((?:    .+\n?)+)", re.MULTILINE)


def _described(docstring: str | None) -> dict[str, _Help]:
    """Return what a docstring says about each parameter; titles other than Parameters are sections."""
    _, *parts = _SECTION.split("\n\n" + inspect.cleandoc(docstring or ""))
    return {
        name: _Help(
            metavar,
            " ".join(text.split()).format_map(vars(settings)),
            None if title == "Parameters" else title,
            bool(rare),
        )
        for title, body in zip(parts[::2], parts[1::2], strict=True)
        for name, metavar, rare, text in _ENTRY.findall(body)
    }


def summary_of(function: Callable[..., None]) -> str:
    """Return the docstring of a command without its sections, each paragraph on a line of its own."""
    text = _SECTION.split(inspect.cleandoc(function.__doc__ or ""))[0]
    return re.sub(r"(?<!\n)\n(?!\n)", " ", text)  # Rich would keep the line breaks of a paragraph


@cache
def _settings_help() -> dict[str, _Help]:
    """Return what the classes of settings say about their fields, with parameters as options."""
    found = {}
    for kind, section in _SECTIONS.items():
        for name, about in _described(kind.__doc__).items():
            if name not in _LIMITS:
                continue
            text = re.sub("``(.+?)``", lambda match: spelled(match[1]), about.text)
            default = about.metavar.partition(", default ")[2].strip("()").replace(", ", ",")
            if kind is TextSettings and default[:1].isdigit():  # the option itself is None
                text += f" Default: {default}."
            found[name] = _Help("", text, section, name not in _EVERY_DAY)
    return found


# Options


def as_command(function: Callable[..., None]) -> Callable[..., None]:
    """Return a command for Typer: fields of dataclasses become options, published models are downloaded."""
    signature = inspect.signature(function, eval_str=True)
    helps = _described(_COMMON) | _described(function.__doc__)
    groups: dict[str, type[Any]] = {}
    parameters: list[inspect.Parameter] = []
    for item in signature.parameters.values():
        if isinstance(item.annotation, type) and is_dataclass(item.annotation):
            groups[item.name] = group = item.annotation
            about = _described(_COMMON) | _settings_help()
            for kind in reversed(group.__mro__):
                about |= _described(kind.__doc__)
            hints = get_type_hints(group, include_extras=True)
            declared = (_keyword(field.name, hints[field.name], field.default) for field in fields(group))
            parameters += (_declared(each, about) for each in declared)
        else:
            parameters.append(_declared(item, helps))
    if any(item.annotation.__metadata__[0].hidden for item in parameters):
        extra = Annotated[bool, {"is_eager": True, "callback": _show_all}]
        parameters.append(_declared(_keyword("help_all", extra, False), helps))

    @wraps(function)
    def call(**given: Any) -> None:
        given.pop("help_all", None)
        display = Display(bool(given.get("quiet")), bool(given.get("json")))
        given = {name: local(value, display) for name, value in given.items()}
        for name, group in groups.items():
            given[name] = group(**{item.name: given.pop(item.name) for item in fields(group)})
        function(**given)

    call.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {item.name: item.annotation for item in parameters}
    return call


def _keyword(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _declared(item: inspect.Parameter, helps: dict[str, _Help]) -> inspect.Parameter:
    """Return a parameter that Typer reads as it is declared: its type may have a limit, a parser or more."""
    about = helps[item.name]
    annotated = get_origin(item.annotation) is Annotated
    kind, extra = get_args(item.annotation) if annotated else (item.annotation, None)
    limit = extra if hasattr(extra, "plain") else None if annotated else _LIMITS.get(item.name)
    limit = limit.limit if isinstance(limit, limits.Optional) else limit
    is_flag, is_argument = kind in (bool, bool | None), item.kind is not item.KEYWORD_ONLY
    metavar = about.metavar or ("" if is_argument else _METAVARS.get(type(limit), "")) or item.name.upper()
    option = metavar if is_argument else "--" + item.name.replace("_", "-")
    more: dict[str, Any] = {"help": about.text, "metavar": "" if is_flag else metavar}
    if isinstance(extra, dict):
        more |= extra
    elif limit is not None and not is_flag:
        more |= _parsing(option, limit)
        if isinstance(limit, limits.OneOf):
            before, *default = about.text.partition(" Default:")
            choices = alternatives([str(value) for value in limit.values])
            more["help"] = "".join([before, f" One of {choices}.", *default])
    elif callable(extra):
        more["parser"] = extra
    if is_argument:
        return _keyword(item.name, Annotated[kind, typer.Argument(**more)], item.default)
    if is_flag and item.default is not False:
        option = _FLAGS.get(item.name, f"{option}/{option.replace('--', '--no-')}")
    names = [option, *([_SHORT[item.name]] if item.name in _SHORT else [])]
    declared = typer.Option(*names, rich_help_panel=about.section, hidden=about.rare, **more)
    return _keyword(item.name, Annotated[kind, declared], item.default)


def _parsing(name: str, limit: limits.Limit) -> dict[str, Any]:
    def parse(value: Any) -> Any:
        try:
            return limits.checked(name, limits.from_text(value, limit), limit)
        except InputError as error:
            # Typer's own kind of error: it keeps track of the command.
            raise typer.BadParameter(error.what) from None

    if isinstance(limit, limits.OneOf):
        return {"parser": parse, "autocompletion": lambda: list(limit.values)}
    return {"parser": parse}


def _show_all(context: typer.Context, given: bool) -> None:
    if given:
        for parameter in context.command.params:
            parameter.hidden = False  # type: ignore[attr-defined]
        print(context.get_help())
        raise typer.Exit


def _use_settings(context: typer.Context, path: Path | None) -> Path | None:
    """Make the values of a settings file the defaults of the other options."""
    if path is not None:
        from labeltree.tuning.settings_file import read_settings

        given = read_settings(path)
        for name, value in given.items():
            if name in _REPEATED:
                given[name] = [value] if isinstance(value, str) else value
            elif isinstance(value, list | tuple):  # numbers, which are joined by commas as options
                given[name] = ",".join(f"{number:g}" for number in value)
        given = {parameter(name): value for name, value in given.items()}
        context.default_map = {**(context.default_map or {}), **given}
    return path


SettingsFile = Annotated[Path | None, {"is_eager": True, "callback": _use_settings}]
ModelPath = Annotated[Path, model_place]
Threads = Annotated[int | None, limits.THREADS]
MemoryLimit = Annotated[int | None, limits.MEMORY]
Seed = Annotated[int, limits.SEED]
Words = Annotated[int, limits.WORDS]


# Groups of options


@dataclass(frozen=True)
class Search:
    """How to search for the best labels."""

    beam: Annotated[int, limits.BEAM] = DEFAULT_BEAM
    score: Annotated[str | None, limits.SCORE] = None
    score_scale: Annotated[float | None, limits.SCORE_SCALE] = None
