"""The options for text: how documents are read, and how they become features."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from labeltree.base import limits
from labeltree.cli.options import limited, spelled
from labeltree.errors import InputError
from labeltree.settings import TextSettings

if TYPE_CHECKING:
    from labeltree.data.columns import Columns

READING = "Text input"
_FEATURES = "Text features (TF-IDF)"
_reading: Any = partial(typer.Option, rich_help_panel=READING)
_features: Any = partial(typer.Option, rich_help_panel=_FEATURES)

_FORMATS = limits.OneOf(("svm", *limits.TEXT_FORMAT.values))
_ANALYZERS = limits.ANALYZER
_TABS = {"tab": "\t", "\\t": "\t"}
_STOP_WORDS = limits.OneOf(("english", "none"))


@dataclass(frozen=True)
class Reading:
    """How documents are read; None where the option was not given."""

    data_format: Annotated[
        str | None,
        limited(
            "--data-format", _FORMATS, "NAME", "Format of DATA", READING, default="detected from its name"
        ),
    ] = None
    text_column: Annotated[
        list[str] | None,
        _reading(
            "--text-column",
            metavar="NAME",
            help="Column with the text, in CSV and JSONL; repeat the option to join several. Default: text.",
        ),
    ] = None
    label_column: Annotated[
        str | None,
        _reading(
            "--label-column",
            metavar="NAME",
            help="Column with the labels, in CSV and JSONL. Default: labels.",
        ),
    ] = None
    label_separator: Annotated[
        list[str] | None,
        _reading(
            "--label-separator",
            metavar="TEXT",
            help="String that separates labels; repeat the option for several. Default: whitespace in TSV, a "
            "comma in CSV and JSONL.",
        ),
    ] = None
    delimiter: Annotated[
        str | None,
        _reading(
            "--delimiter",
            metavar="CHARACTER",
            help="Character between the fields of a CSV file, or tab. Default: detected from the header.",
        ),
    ] = None
    strict: Annotated[
        bool,
        _reading("--strict", help="Refuse documents without text or labels instead of counting them."),
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

    analyzer: Annotated[
        str | None,
        limited(
            "--analyzer",
            _ANALYZERS,
            "NAME",
            "Split text into words or characters",
            _FEATURES,
            default=TextSettings.analyzer,
        ),
    ] = None
    ngrams: Annotated[
        str | None,
        _features(
            "--ngrams",
            metavar="MIN,MAX",
            help="Range of n-gram lengths; 1,2 means single words and pairs. "
            f"Default: {','.join(map(str, TextSettings.ngrams))}.",
        ),
    ] = None
    min_df: Annotated[
        int | None,
        limited(
            "--min-df",
            limits.MIN_DF,
            "N",
            "Ignore terms that occur in fewer than N documents",
            _FEATURES,
            default=TextSettings.min_df,
        ),
    ] = None
    max_features: Annotated[
        int | None,
        limited(
            "--max-features",
            limits.MAX_FEATURES,
            "N",
            "Keep only the N most frequent terms",
            _FEATURES,
            default="all",
        ),
    ] = None
    sublinear: Annotated[
        bool | None,
        _features(
            "--sublinear/--no-sublinear",
            help="Weight a term that occurs n times by 1 + log(n) (the default), or by n.",
        ),
    ] = None
    stop_words: Annotated[
        str | None,
        limited("--stop-words", _STOP_WORDS, "NAME", "Words to leave out", _FEATURES, default="none"),
    ] = None
    lowercase: Annotated[
        bool | None,
        _features(
            "--lowercase/--keep-case", help="Convert text to lowercase (the default) or keep its case."
        ),
    ] = None

    def settings(self) -> TextSettings:
        """Return the settings, with defaults for options that were not given."""
        names = ("analyzer", "min_df", "max_features", "sublinear", "lowercase")
        given: dict[str, Any] = {name: getattr(self, name) for name in names}
        given["ngrams"] = None if self.ngrams is None else _lengths(self.ngrams)
        given["stop_words"] = None if self.stop_words == "none" else self.stop_words
        return TextSettings(**{key: value for key, value in given.items() if value is not None})


def _lengths(text: str) -> tuple[int, int]:
    parts = text.replace(",", " ").split()
    if not (len(parts) in (1, 2) and all(part.isascii() and part.isdigit() for part in parts)):
        raise InputError(f"--ngrams is {text!r}, expected one or two integers such as 1,2")
    low, high = int(parts[0]), int(parts[-1])
    if low > high:
        raise InputError(f"--ngrams is {low},{high}, expected the minimum before the maximum")
    return low, high


def refuse_base_for_text(one_based: bool | None) -> None:
    """Refuse options for LIBSVM data if the data is text."""
    if one_based is not None:
        raise InputError(
            f"--{'one' if one_based else 'zero'}-based applies only to LIBSVM data, but the input is text",
            hint="remove it, or set --data-format",
        )
