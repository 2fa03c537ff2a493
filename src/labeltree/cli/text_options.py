"""The options of text, which several commands share: how documents are read, how they become features."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from enum import Enum
from functools import partial, wraps
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from labeltree.cli.options import whole_number
from labeltree.errors import InputError

if TYPE_CHECKING:
    from labeltree.text.formats import Columns
    from labeltree.text.settings import TextSettings

_reading: Any = partial(typer.Option, rich_help_panel="Reading text", show_default=False)
_features: Any = partial(typer.Option, rich_help_panel="Features of text (TF-IDF)", show_default=False)


class DataFormat(str, Enum):
    """What DATA is."""

    svm = "svm"
    tsv = "tsv"
    csv = "csv"
    jsonl = "jsonl"
    txt = "txt"


class Analyzer(str, Enum):
    """What the terms of a text are."""

    word = "word"
    char = "char"
    char_wb = "char_wb"


class StopWords(str, Enum):
    """Words to leave out."""

    english = "english"
    none = "none"


@dataclass(frozen=True)
class Reading:
    """How documents are read; None where nothing was said."""

    data_format: Annotated[
        DataFormat | None,
        _reading("--data-format", metavar="NAME", help="svm, tsv, csv, jsonl or txt; told by DATA's name."),
    ] = None
    text_column: Annotated[
        str | None,
        _reading("--text-column", metavar="NAME", help="Column of text in CSV and JSONL, if not text."),
    ] = None
    label_column: Annotated[
        str | None,
        _reading("--label-column", metavar="NAME", help="Column of labels, if not labels."),
    ] = None
    label_separator: Annotated[
        list[str] | None,
        _reading(
            "--label-separator",
            metavar="TEXT",
            help="White space in TSV, else a comma; may be repeated.",
        ),
    ] = None

    def format(self, data: str, default: str) -> str:
        """Tell what a data file is; the default if its name does not tell."""
        from labeltree.text.formats import format_of

        return self.data_format.value if self.data_format else format_of(data) or default

    def columns(self, format: str, default: Columns) -> Columns:
        """Where text and labels are to be found, as said or by default."""
        for option, value in (("--text-column", self.text_column), ("--label-column", self.label_column)):
            if value is not None and format in ("tsv", "txt"):
                raise InputError(
                    f"got {option} with {format} data, expected CSV or JSONL, which name their columns; "
                    "leave it out, or say --data-format csv"
                )
        said: dict[str, Any] = {
            "text": self.text_column,
            "labels": self.label_column,
            "separators": tuple(self.label_separator) if self.label_separator else None,
        }
        return replace(default, **{key: value for key, value in said.items() if value is not None})

    def refuse(self) -> None:
        """Refuse the options of text for data that is none."""
        for item in fields(self):
            if item.name != "data_format" and getattr(self, item.name) is not None:
                raise InputError(
                    f"got --{item.name.replace('_', '-')} with LIBSVM data, expected text; leave it out, or "
                    "say what DATA is (--data-format tsv, csv or jsonl)"
                )


@dataclass(frozen=True)
class Text(Reading):
    """How documents are read, and how they become features; None where nothing was said."""

    analyzer: Annotated[
        Analyzer | None,
        _features("--analyzer", metavar="NAME", help="Terms are words (word) or characters (char, char_wb)."),
    ] = None
    ngrams: Annotated[
        str | None,
        _features("--ngrams", metavar="A,B", help="Length of a term: 1,2 is words and pairs."),
    ] = None
    min_df: Annotated[
        int | None,
        _features("--min-df", metavar="N", callback=whole_number(1), help="Leave out terms of fewer texts."),
    ] = None
    max_features: Annotated[
        int | None,
        _features(
            "--max-features", metavar="N", callback=whole_number(1), help="Keep only the most frequent."
        ),
    ] = None
    sublinear: Annotated[
        bool | None,
        _features("--sublinear/--no-sublinear", help="Count n times as 1 + log(n), or as n."),
    ] = None
    stop_words: Annotated[
        StopWords | None,
        _features("--stop-words", metavar="NAME", help="Words to leave out: english, or none."),
    ] = None
    lowercase: Annotated[bool | None, _features("--lowercase/--keep-case", help="Whether A is a.")] = None

    def settings(self) -> TextSettings:
        """What was said, and defaults for the rest."""
        from labeltree.text.settings import TextSettings

        given = {key: getattr(self, key) for key in ("min_df", "max_features", "sublinear", "lowercase")}
        given["analyzer"] = self.analyzer and self.analyzer.value
        given["ngrams"] = None if self.ngrams is None else _lengths(self.ngrams)
        given["stop_words"] = "english" if self.stop_words is StopWords.english else None
        return TextSettings(**{key: value for key, value in given.items() if value is not None})


NOTHING = Text()


def _lengths(given: str) -> tuple[int, int]:
    parts = given.replace(",", " ").split()
    if not (len(parts) in (1, 2) and all(part.isascii() and part.isdigit() for part in parts)):
        raise InputError(f"got --ngrams {given}, expected one or two whole numbers such as 1,2; correct it")
    return int(parts[0]), int(parts[-1])


def refuse_base(one_based: bool | None) -> None:
    """Refuse the options of numbered features for text."""
    if one_based is not None:
        raise InputError(
            "got --one-based or --zero-based with text, expected LIBSVM data, which numbers its features; "
            "leave it out, or say --data-format svm"
        )


def takes(group: type[Reading]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options of a group; it gets them as one argument, `text`."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        hints = get_type_hints(group, include_extras=True)
        names = [item.name for item in fields(group)]

        @wraps(command)
        def call(**given: Any) -> None:
            text = group(**{name: given.pop(name) for name in names})
            command(**given, text=text)

        signature = inspect.signature(command, eval_str=True)
        kept = [item for item in signature.parameters.values() if item.name != "text"]
        added = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=hints[name])
            for name in names
        ]
        parameters = [item.replace(kind=inspect.Parameter.KEYWORD_ONLY) for item in kept] + added
        call.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        call.__annotations__ = {item.name: item.annotation for item in parameters}
        return call

    return decorate
