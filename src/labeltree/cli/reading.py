"""Reading the data of a command: LIBSVM or text, as its options and its model require."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from labeltree.cli.progress import Stages
from labeltree.cli.text_options import Reading, Text, refuse_base_for_text
from labeltree.errors import InputError

if TYPE_CHECKING:
    from labeltree.data import Dataset
    from labeltree.model import Model
    from labeltree.progress import Progress
    from labeltree.text.documents import Batch


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
    ) -> None:
        from labeltree.files import display_name
        from labeltree.text.formats import Columns

        self._data, self.name = data, display_name(data)
        self._model = model
        self._features = None if model is None else model.text
        self._strict = options.strict
        given = options.format(data)
        self._assumed = given is None
        self._format = given or ("svm" if self._features is None else "txt")
        self.is_text = self._format != "svm"
        if model is not None and self.is_text != (model.text is not None):
            if model.text is None:
                what = f"the file is text, but the model {model.path} was trained on LIBSVM data"
                hint = "pass a LIBSVM file, or set --data-format"
            else:
                what = f"the file is in LIBSVM format, but the model {model.path} was trained on text"
                hint = "pass text (TSV, CSV, JSONL or plain lines), or set --data-format"
            raise InputError(what, file=self.name, hint=hint)
        if not self.is_text:
            options.refuse_for_svm(id_column)
            # A file that lacks the first feature does not show its base, but the model knows it.
            self._one_based = model.one_based if model is not None and one_based is None else one_based
        else:
            refuse_base_for_text(one_based)
            default = Columns() if self._features is None else self._features.columns
            self._columns = options.columns(self._format, default, id_column)
            self._settings = options.settings() if isinstance(options, Text) else None

    def read(self, stages: Stages, threads: int | None, *, require_labels: bool = True) -> Dataset:
        """Read the data as one stage of the command."""
        from labeltree.text.documents import read_documents

        with stages.stage("read", f"reading {self.name}") as progress:
            if not self.is_text:
                return self._read_svm(threads, require_labels)
            return read_documents(
                self._data,
                self._format,
                self._columns,
                settings=self._settings,
                features=self._features,
                require_labels=require_labels,
                strict=self._strict,
                threads=threads,
                progress=progress,
            )

    def batches(self, threads: int | None, progress: Progress) -> Iterator[Batch]:
        """Read the rows without their labels, batch by batch; LIBSVM data is a single batch."""
        from labeltree.text.documents import Batch, read_batches

        if self._features is None:
            data = self._read_svm(threads, require_labels=False)
            yield Batch([""] * data.n_instances, data.X)
            return
        empty = True
        for batch in read_batches(
            self._data,
            self._features,
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

    def _read_svm(self, threads: int | None, require_labels: bool) -> Dataset:
        from labeltree.svm import read_svm
        from labeltree.system import threads_to_use

        try:
            dataset = read_svm(
                self._data,
                one_based=self._one_based,
                threads=threads_to_use(threads),
                require_labels=require_labels,
            )
        except InputError as error:
            if self._assumed and error.line is not None:
                hint = "use --data-format tsv if the file is text"
                raise error.replace(hint=f"{error.hint}, or {hint}" if error.hint else hint) from None
            raise
        if self._model is None and dataset.X.nnz == 0:  # such as a list of names
            raise InputError(
                "no row has any features (expected index:value pairs)",
                file=self.name,
                hint="check that this is the right file",
            )
        return dataset
