"""Reading for a command: opens its model, reads its data file as the options say, and predicts it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from labeltree.base import limits
from labeltree.cli import printing
from labeltree.cli.printing import Display
from labeltree.errors import InputError
from labeltree.settings import TextSettings

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

    from labeltree.base.display import Progress
    from labeltree.data.dataset import Dataset
    from labeltree.data.inputs import Source
    from labeltree.data.summary import DataSummary
    from labeltree.model.model import Model

_TABS = {"tab": "\t", "\\t": "\t"}


@dataclass(frozen=True)
class Reading:
    """How data is read; None where the option was not given.

    Parameters
    ----------
    one_based (rare)
        Whether feature indices in LIBSVM files start at 1 or 0. Default: as in training, or detected.

    Text input
    ----------
    data_format (rare)
        Format of DATA. Default: detected from its name.
    text_column : NAME
        Column with the text, in TSV by its number; repeat the option to join several. Default: text.
    label_column : NAME
        Column with the labels, in TSV by its number. Default: labels.
    label_separator : TEXT
        String that separates labels; repeat the option for several. Default: whitespace in TSV, a comma in
        other formats.
    delimiter : CHARACTER (rare)
        Character between the fields of a CSV file, or tab. Default: detected from the header.
    strict (rare)
        Refuse documents without text or labels instead of counting them.
    """

    data_format: Annotated[str | None, limits.DATA_FORMAT] = None
    text_column: list[str] | None = None
    label_column: str | None = None
    label_separator: list[str] | None = None
    delimiter: str | None = None
    strict: bool = False
    one_based: bool | None = None

    def keywords(self) -> dict[str, Any]:
        """Return what was given, by the names of the parameters in Python."""
        given = {
            "text": self.text_column,
            "labels": self.label_column,
            "separator": self.label_separator,
            "delimiter": _TABS.get(self.delimiter or "", self.delimiter),
            "format": self.data_format,
            "one_based": self.one_based,
            "strict": self.strict or None,
        }
        return {name: value for name, value in given.items() if value is not None}


@dataclass(frozen=True)
class Text(Reading):
    """How training data is read and documents become features; None where the option was not given.

    Parameters
    ----------
    min_label_count : N
        Drop labels with fewer than N rows.
    """

    min_label_count: Annotated[int | None, limits.Whole(1)] = None
    analyzer: str | None = None
    ngrams: Any = None
    min_df: int | None = None
    max_features: int | None = None
    sublinear: bool | None = None
    stop_words: str | None = None
    lowercase: bool | None = None
    strip_html: bool | None = None
    unicode: str | None = None

    def text_options(self) -> dict[str, Any]:
        """Return the settings of text that were given."""
        given = {item.name: getattr(self, item.name) for item in fields(TextSettings)}
        return {name: value for name, value in given.items() if value is not None}

    def settings(self) -> TextSettings:
        """Return the settings of text, with defaults for options that were not given."""
        given = self.text_options()
        if self.stop_words == "none":
            del given["stop_words"]
        return TextSettings(**given)


def _as_options(separator: str, format: str | None) -> str:
    option = f"--label-separator '{separator}'"
    return option if format is None else f"--data-format {format} {option}"


class DataFile:
    """A data file and how to read it; options that do not match it are refused before it is read.

    The model that will use the data, or its training data, decides on features, columns and first index.
    Options may come from a settings file, which errors then name.
    """

    def __init__(
        self,
        data: str | list[str],
        reading: Reading,
        model: Model | Dataset | None = None,
        id_column: str | None = None,
        settings: Path | None = None,
    ) -> None:
        from labeltree.data.read import check_options

        self._files: Any = data if isinstance(data, str) else [Path(name) for name in data]
        self._model, self._given = model, reading.keywords()
        if id_column is not None:
            self._given["id"] = id_column
        text = reading.text_options() if isinstance(reading, Text) else {}
        try:
            self.source = self._source()
            check_options(self.source.format or "svm", text)
        except InputError as error:
            if settings is not None and error.file is None:
                from labeltree.tuning.settings_file import read_settings

                if not read_settings(settings).keys().isdisjoint(error.parameters):
                    raise error.replace(file=settings) from None
            raise
        self.name, self.is_text = self.source.name or "", self.source.is_text
        self.settings, self.least_rows = None, 1
        if model is None and isinstance(reading, Text):
            self.settings = reading.settings() if self.is_text else None
            self.least_rows = reading.min_label_count or 1

    def _source(self, *, require_labels: bool = True) -> Source:
        from labeltree.data.inputs import open_data

        return open_data(self._files, like=self._model, require_labels=require_labels, **self._given)

    def read(
        self,
        display: Display,
        threads: int | None,
        *,
        require_labels: bool = True,
        noted: list[str] | None = None,
    ) -> Dataset:
        """Read the data as one stage of the command; note labels that do not look like those of the model.

        What is `noted` already, of other models, is not noted again.
        """
        from labeltree.data.summary import suspicions

        with display.stage("read", f"reading {self.name}") as progress:
            source = self._source(require_labels=require_labels)
            dataset = source.dataset(self.settings, like=self._model, threads=threads, progress=progress)
        if self._model is not None and require_labels:
            noted = [] if noted is None else noted
            for warning in suspicions(dataset, _as_options, self._model):
                if warning not in noted:
                    printing.note(warning)
                    noted.append(warning)
        return dataset.drop_rare(self.least_rows)

    @staticmethod
    def show(dataset: Dataset, display: Display, name: str | None = None) -> DataSummary:
        """Show on standard error what was read, if not quiet, and note what looks wrong; return it all.

        The name distinguishes several datasets.
        """
        from labeltree.data.summary import describe_data, summary_lines

        summary = describe_data(dataset, spell=_as_options)
        if not display.is_quiet:
            lines = [f"data    {name}"] * (name is not None) + summary_lines(summary)
            print(*map(printing.escaped, lines), sep="\n", file=sys.stderr, flush=True)
        for warning in summary["warnings"]:
            printing.note(warning if name is None else f"{name}: {warning}")
        return summary

    def batches(self, threads: int | None, progress: Progress) -> Iterator[tuple[list[str], csr_matrix]]:
        """Yield the IDs and the features of rows in batches; LIBSVM data is a single batch."""
        from labeltree.data.read import read_batches

        source = self._source(require_labels=False)
        features = None if self._model is None else self._model.text
        if features is None or source.documents is None:
            data = source.dataset(like=self._model, threads=threads, progress=progress)
            yield [""] * data.n_instances, data.X
            return
        empty = True
        for batch in read_batches(source.documents(progress), features, threads=threads):
            yield batch
            empty = False
        if empty:
            raise InputError("the file contains no documents", file=self.name)


def open_model(display: Display, path: Path) -> Model:
    """Open a model as one stage of the command."""
    from labeltree.model.model import load

    with display.stage("load", f"opening {path}"):
        return load(path)


def speed_of(rows: int, seconds: float) -> dict[str, Any]:
    """Return how long the search took."""
    return {"rows": rows, "seconds": seconds, "milliseconds_per_row": 1000 * seconds / max(rows, 1)}
