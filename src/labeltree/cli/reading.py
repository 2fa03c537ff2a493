"""Reading for a command: opens its model, reads its data file as the options say, and predicts it."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from labeltree.base import limits
from labeltree.base.display import Stages
from labeltree.cli import printing
from labeltree.cli.options import parameter, spelled
from labeltree.errors import InputError
from labeltree.settings import TextSettings

if TYPE_CHECKING:
    from labeltree.base.display import Progress
    from labeltree.data.columns import Columns
    from labeltree.data.dataset import Dataset
    from labeltree.data.read import Batch
    from labeltree.data.summary import DataSummary
    from labeltree.model.labeled_data import Labeled
    from labeltree.model.model import Model

_TABS = {"tab": "\t", "\\t": "\t"}
# The formats that an option applies to, if not to all text.
_APPLIES_TO = {
    "text_column": "CSV, JSONL, Parquet and Arrow",
    "label_column": "CSV, JSONL, Parquet and Arrow",
    "delimiter": "CSV",
    "id_column": "TSV, CSV, JSONL, Parquet and Arrow",
    "one_based": "LIBSVM",
}
_FORMATS = {"svm": "LIBSVM", "parquet": "Parquet", "arrow": "Arrow", "npz": "NumPy"}


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

    def check(self, format: str, id_column: str | None = None, settings: Path | None = None) -> None:
        """Refuse options, given or from a settings file, that do not apply to data of a format."""
        shown = _FORMATS.get(format, format.upper())
        for name, value in {**vars(self), "id_column": id_column}.items():
            formats = _APPLIES_TO.get(name, "text")
            applies = shown in re.findall(r"\w+", formats)
            if formats == "text":
                applies = format in limits.TEXT_FORMAT.values
            elif format == "tsv" and name.endswith("_column"):  # its columns have numbers
                applies |= all(map(str.isdecimal, value if isinstance(value, list) else [value or ""]))
            applies |= name in ("data_format", "min_label_count") or (name, value) == ("strict", False)
            if applies or value is None:
                continue
            from labeltree.tuning.settings_file import read_settings

            words = {} if settings is None else {parameter(word): word for word in read_settings(settings)}
            option = words.get(name) or spelled(name, value if name == "one_based" else None)
            raise InputError(
                f"{option} applies only to {formats}, but DATA is in {shown} format",
                file=settings if name in words else None,
                hint="remove it, or set --data-format",
            )

    def columns(self, default: Columns, id_column: str | None = None) -> Columns:
        """Return where to find text, labels and what identifies a document."""
        texts = self.text_column
        given: dict[str, Any] = {
            "text": (texts[0] if len(texts) == 1 else tuple(texts)) if texts else None,
            "labels": self.label_column,
            "separators": tuple(self.label_separator) if self.label_separator else None,
            "id": id_column,
            "delimiter": _TABS.get(self.delimiter or "", self.delimiter),
        }
        return replace(default, **{key: value for key, value in given.items() if value is not None})

    def keywords(self) -> dict[str, Any]:
        """Return what was given, by the names of the parameters in Python."""
        delimiter = _TABS.get(self.delimiter or "", self.delimiter)
        given = {
            "text": self.text_column,
            "labels": self.label_column,
            "separator": self.label_separator,
            "delimiter": delimiter,
            "format": self.data_format,
            "one_based": self.one_based,
        }
        found = {name: value for name, value in given.items() if value is not None}
        return {**found, "strict": True} if self.strict else found


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

    def settings(self) -> TextSettings:
        """Return the settings, with defaults for options that were not given."""
        given = {item.name: getattr(self, item.name) for item in fields(TextSettings)}
        given = {name: value for name, value in given.items() if value is not None}
        if self.stop_words == "none":
            del given["stop_words"]
        return TextSettings(**given)


def _as_options(separator: str, format: str | None) -> str:
    option = f"--label-separator '{separator}'"
    return option if format is None else f"--data-format {format} {option}"


class DataFile:
    """A data file and how to read it; options that do not match it are refused before it is read.

    Parameters
    ----------
    data : str or list of str
        The files, or a pattern; "-" for standard input.
    reading : Reading
        How to read text; a `Text` if the data is for training.
    model : Model or Dataset, optional
        The model that will use the data, or its training data: decides on features, columns and first index.
    id_column : str, optional
        The column that identifies a document.
    settings : Path, optional
        A settings file that options may come from.

    Attributes
    ----------
    name : str
        The name of the file for messages.
    is_text : bool
        Whether it contains documents.
    """

    def __init__(
        self,
        data: str | list[str],
        reading: Reading,
        model: Model | Dataset | None = None,
        id_column: str | None = None,
        settings: Path | None = None,
    ) -> None:
        from labeltree.base.paths import data_files, shown_files
        from labeltree.data.columns import Columns
        from labeltree.data.read import resolve_format

        self._files = data_files(data)
        self.name = shown_files(self._files)
        self._model, self._reading = model, reading
        self._format = resolve_format(self._files, reading.data_format, model)
        self.is_text = self._format in limits.TEXT_FORMAT.values
        reading.check(self._format, id_column, settings)
        default = Columns() if model is None or model.text is None else model.text.columns
        self._columns = reading.columns(default, id_column) if self.is_text else None
        learns = self.is_text and model is None
        self._settings = reading.settings() if learns and isinstance(reading, Text) else None
        self._least_rows = 1
        if model is None and isinstance(reading, Text):
            self._least_rows = reading.min_label_count or 1

    def read(
        self,
        stages: Stages,
        threads: int | None,
        *,
        require_labels: bool = True,
        noted: list[str] | None = None,
    ) -> Dataset:
        """Read the data as one stage of the command; note labels that do not look like those of the model.

        What is `noted` already, of other models, is not noted again.
        """
        from labeltree.data.summary import suspicions

        with stages.stage("read", f"reading {self.name}") as progress:
            dataset = self.dataset(threads, progress, require_labels=require_labels)
        if self._model is not None and require_labels:
            noted = [] if noted is None else noted
            for warning in suspicions(dataset, _as_options, self._model):
                if warning not in noted:
                    printing.note(warning)
                    noted.append(warning)
        return dataset.drop_rare(self._least_rows)

    def held_out(
        self, stages: Stages, share: float, seed: int, threads: int | None
    ) -> tuple[Dataset, Dataset]:
        """Read the data as training rows and a share of rows that are held out."""
        from labeltree.data.inputs import open_data
        from labeltree.data.split import held_out

        source = open_data([Path(file) for file in self._files], **self._reading.keywords())
        with stages.stage("read", f"reading {self.name}") as progress:
            train, test = held_out(source, share, seed, self._settings, threads, progress)
        return train.drop_rare(self._least_rows), test

    @staticmethod
    def show(dataset: Dataset, *, quiet: bool, name: str | None = None) -> DataSummary:
        """Show on standard error what was read, if not quiet, and note what looks wrong; return it all.

        The name distinguishes several datasets.
        """
        from labeltree.data.summary import describe_data, summary_lines

        summary = describe_data(dataset, _as_options)
        if not quiet:
            lines = [f"data    {name}"] * (name is not None) + summary_lines(summary)
            print(*map(printing.escaped, lines), sep="\n", file=sys.stderr, flush=True)
        for warning in summary["warnings"]:
            printing.note(warning if name is None else f"{name}: {warning}")
        return summary

    def dataset(self, threads: int | None, progress: Progress, *, require_labels: bool = True) -> Dataset:
        """Read the data as part of a stage."""
        from labeltree.data.read import read_file

        return read_file(
            self._files,
            self._reading.data_format,
            self._columns,
            settings=self._settings,
            like=self._model,
            one_based=self._reading.one_based,
            require_labels=require_labels,
            strict=self._reading.strict,
            threads=threads,
            progress=progress,
        )

    def batches(self, threads: int | None, progress: Progress) -> Iterator[Batch]:
        """Read the rows without their labels, batch by batch; LIBSVM data is a single batch."""
        from labeltree.data.read import Batch, read_batches

        if self._model is None or self._model.text is None:
            data = self.dataset(threads, progress, require_labels=False)
            yield Batch([""] * data.n_instances, data.X)
            return
        empty = True
        for batch in read_batches(
            self._files,
            self._model.text,
            self._format,
            self._columns,
            strict=self._reading.strict,
            threads=threads,
            progress=progress,
        ):
            yield batch
            empty = False
        if empty:
            raise InputError("the file contains no documents", file=self.name)


def open_model(stages: Stages, path: Path) -> Model:
    """Open a model as one stage of the command."""
    from labeltree.model.model import load

    with stages.stage("load", f"opening {path}"):
        return load(path)


def speed_of(rows: int, seconds: float) -> dict[str, Any]:
    """Return how long the search took."""
    return {"rows": rows, "seconds": seconds, "milliseconds_per_row": 1000 * seconds / max(rows, 1)}


def note_missed(labeled: Labeled) -> dict[str, int]:
    """Count and note what no prediction can get right."""
    for note in (*labeled.unknown_note("--label-separator"), *labeled.rows_note()):
        printing.note(note)
    return labeled.missed
