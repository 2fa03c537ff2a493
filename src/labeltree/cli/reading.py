"""Reading the data of a command: LIBSVM or text, as its options and its model require."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from labeltree.base.progress import Stages
from labeltree.cli import printing
from labeltree.cli.text_options import Reading, Text, refuse_base_for_text
from labeltree.errors import InputError

if TYPE_CHECKING:
    from labeltree.base.progress import Progress
    from labeltree.data.columns import Columns
    from labeltree.data.dataset import Dataset
    from labeltree.data.documents import Batch
    from labeltree.data.summary import DataSummary
    from labeltree.model.model import Model
    from labeltree.settings import TextSettings


def _as_options(separator: str, format: str | None) -> str:
    option = f"--label-separator '{separator}'"
    return option if format is None else f"--data-format {format} {option}"


class Source:
    """A data file and how to read it; options that do not match it are refused before it is read.

    Parameters
    ----------
    data : str
        The file; "-" for standard input.
    options : Reading
        How to read text; a `Text` if the data is for training.
    one_based : bool or None
        Whether the first feature of a LIBSVM file has the index 1; None to detect it.
    model : Model, optional
        The model that will use the data: it decides on features, columns and the first index.
    id_column : str, optional
        The column that identifies a document.

    Attributes
    ----------
    name : str
        The name of the file for messages.
    is_text : bool
        Whether it contains documents.
    """

    def __init__(
        self,
        data: str,
        options: Reading,
        one_based: bool | None,
        model: Model | None = None,
        id_column: str | None = None,
        settings: Path | None = None,
    ) -> None:
        from labeltree.base.files import display_name
        from labeltree.data.read import resolve_format

        self._data, self.name = data, display_name(data)
        self._model, self._strict, self._one_based = model, options.strict, one_based
        self._given = options.format(data)
        self._format = resolve_format(data, self._given, model)
        self.is_text = self._format != "svm"
        self._columns: Columns | None = None
        self._settings: TextSettings | None = None
        if not self.is_text:
            options.refuse_for_svm(id_column, settings)
            return
        from labeltree.data.columns import Columns as Default

        refuse_base_for_text(one_based)
        default = Default() if model is None or model.text is None else model.text.columns
        self._columns = options.columns(self._format, default, id_column)
        self._settings = options.settings() if isinstance(options, Text) else None

    def read(self, stages: Stages, threads: int | None, *, require_labels: bool = True) -> Dataset:
        """Read the data as one stage of the command."""
        with stages.stage("read", f"reading {self.name}") as progress:
            return self.dataset(threads, progress, require_labels=require_labels)

    @staticmethod
    def show(dataset: Dataset, *, quiet: bool, name: str | None = None) -> DataSummary:
        """Show on standard error what was read, if not quiet, and note what looks wrong; return it all.

        The name tells one of several datasets from the others.
        """
        from labeltree.data.summary import summarize, summary_lines

        summary = summarize(dataset, _as_options)
        if not quiet:
            lines = [f"data    {name}"] * (name is not None) + summary_lines(summary)
            print(*map(printing.escaped, lines), sep="\n", file=sys.stderr, flush=True)
        for warning in summary["warnings"]:
            printing.note(warning if name is None else f"{name}: {warning}")
        return summary

    def note_suspicions(self, dataset: Dataset) -> None:
        """Note what looks as if the data had been read wrongly."""
        from labeltree.data.summary import suspicions

        for warning in suspicions(dataset, _as_options, self._model):
            printing.note(warning)

    def dataset(self, threads: int | None, progress: Progress, *, require_labels: bool = True) -> Dataset:
        """Read the data as part of a stage."""
        from labeltree.data.read import read_data

        return read_data(
            self._data,
            self._given,
            self._columns,
            settings=self._settings,
            like=self._model,
            one_based=self._one_based,
            require_labels=require_labels,
            strict=self._strict,
            threads=threads,
            progress=progress,
        )

    def batches(self, threads: int | None, progress: Progress) -> Iterator[Batch]:
        """Read the rows without their labels, batch by batch; LIBSVM data is a single batch."""
        from labeltree.data.documents import Batch, read_batches

        if self._model is None or self._model.text is None:
            data = self.dataset(threads, progress, require_labels=False)
            yield Batch([""] * data.n_instances, data.X)
            return
        empty = True
        for batch in read_batches(
            self._data,
            self._model.text,
            self._format,
            self._columns,
            strict=self._strict,
            threads=threads,
            progress=progress,
        ):
            yield batch
            empty = False
        if empty:
            raise InputError("the file contains no documents", file=self.name)
