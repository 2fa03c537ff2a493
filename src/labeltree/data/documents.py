"""Read a file of documents as a dataset, in one pass: features from the text, a column for each label."""

from __future__ import annotations

import codecs
import contextlib
import os
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from labeltree import _native
from labeltree.base.files import display_name, read_pieces
from labeltree.base.system import threads_to_use
from labeltree.data.columns import LABELS, Columns, Record, check_format, checked_columns
from labeltree.data.dataset import Dataset, wrap_csr
from labeltree.data.records import Records, check_columns, decode_line
from labeltree.data.tfidf import CHUNK_BYTES, Learner, TextFeatures, Transformer
from labeltree.errors import InputError, NoTermError
from labeltree.settings import TextSettings

_BATCH_ROWS = 10_000


def read_documents(
    path: str | os.PathLike[str],
    format: str | None = None,
    columns: Columns | None = None,
    *,
    settings: TextSettings | None = None,
    features: TextFeatures | None = None,
    require_labels: bool = True,
    strict: bool = False,
    threads: int | None = None,
    progress: Callable[[float], None] | None = None,
) -> Dataset:
    """Read a file of documents as a dataset. The documents themselves are not kept in memory.

    Documents without text are skipped, and counted in ``n_skipped`` of the dataset, if labels are required.

    Parameters
    ----------
    path, format, progress
        As in :func:`labeltree.read_text`.
    columns : Columns, optional
        Names of the columns and separators of labels. Default: those of `features`, if given.
    settings : TextSettings, optional
        How documents become features.
    features : TextFeatures, optional
        Compute these features (``model.text``) instead of learning new ones.
    require_labels : bool, default True
        Reject a file without any labels, and skip documents without text: null, missing or blank.
    strict : bool, default False
        Reject a document without text, and with `require_labels` one without labels.
    threads : int, optional
        Threads to use; the result does not depend on it. Default: all CPUs.

    Returns
    -------
    Dataset
        Its ``text`` computes the same features for other documents; its labels are sorted by name.

    Raises
    ------
    InputError
        If the file cannot be read, or there is nothing to learn from. The message names the first invalid
        line.
    """
    name, threads = display_name(path), threads_to_use(threads)
    format = check_format(path, format, require_labels)
    columns = checked_columns(columns, Columns() if features is None else features.columns)
    task = Learner(settings, threads) if features is None else Transformer(features, threads)
    if not strict and (format == "txt" or (format == "tsv" and columns.split(" ") is str.split)):
        *_, n_skipped = found = count_tsv(
            path,
            task.counts,
            threads,
            only_text=format == "txt",
            require_labels=require_labels,
            progress=progress,
        )
        names, Y = _matrix(*found[:3])
    else:
        labels = _Labels()
        records = Records(
            path, format, columns, require_labels=require_labels, strict=strict, progress=progress
        )
        for text in labels.collect(records, skip=require_labels):
            task.counts.append(text)
        names, Y = labels.matrix()
        n_skipped = labels.n_skipped
    try:
        features, X = task.finish(columns)
    except NoTermError as error:
        raise error.replace(file=name) from None
    if not X.shape[0]:
        raise InputError("the file contains no documents", file=name)
    if require_labels and not names:
        hint = "check the label column ({columns})"
        raise InputError("no document has a label", file=name, hint=hint, parameters={"columns": LABELS})
    return Dataset(X, Y, names, text=features, n_skipped=n_skipped)


@dataclass(frozen=True, eq=False)
class Batch:
    """Some successive documents of a file: what identifies each, and their features."""

    ids: list[str]
    X: sparse.csr_matrix


def read_batches(
    path: str | os.PathLike[str],
    features: TextFeatures,
    format: str | None = None,
    columns: Columns | None = None,
    *,
    strict: bool = False,
    threads: int | None = None,
    progress: Callable[[float], None] | None = None,
) -> Iterator[Batch]:
    """Read the features of documents batch by batch, as soon as a pipe or a terminal has them.

    Parameters
    ----------
    path, format, strict, threads, progress
        As in `read_documents`. Labels are not required.
    features : TextFeatures
        The features to compute.
    columns : Columns, optional
        Default: those of `features`.

    Yields
    ------
    Batch
        Every document is in one of them, in the order of the file; one without text has no features.

    Raises
    ------
    InputError
        If a line is invalid, after the documents before it.
    """
    records = Records(
        path,
        format,
        columns or features.columns,
        require_labels=False,
        strict=strict,
        progress=progress,
        eager=True,
    )
    ids: list[str] = []
    texts: list[str] = []
    rows, error = iter(records), None
    while True:
        try:
            text, _, key = next(rows)
        except StopIteration:
            break
        except InputError as invalid:  # the rows before it are answered first
            error = invalid
            break
        ids.append(key)
        texts.append(text or "")
        if records.waiting or len(texts) == _BATCH_ROWS:
            yield Batch(ids, features.transform(texts, threads=threads))
            ids, texts = [], []
    if texts:
        yield Batch(ids, features.transform(texts, threads=threads))
    if error is not None:
        raise error


class _Labels:
    """The labels of documents, collected while their texts are processed."""

    def __init__(self) -> None:
        self.n_skipped = 0
        self._columns, self._ptr = array("i"), array("q", [0])
        self._numbers: defaultdict[str, int] = defaultdict()
        self._numbers.default_factory = self._numbers.__len__

    def collect(self, records: Iterable[Record], *, skip: bool) -> Iterator[str]:
        """Yield the texts of the documents and keep the labels; `skip` and count those without text."""
        number = self._numbers.__getitem__
        for text, labels, _ in records:
            if skip and not (text and text.strip()):
                self.n_skipped += 1
                continue
            self._columns.extend(map(number, labels or ()))
            self._ptr.append(len(self._columns))
            yield text or ""

    def matrix(self) -> tuple[tuple[str, ...], sparse.csr_matrix]:
        """Return the sorted names and the matrix with these columns."""
        names = sorted(self._numbers)
        target = np.empty(len(names), np.int32)
        target[[self._numbers[name] for name in names]] = np.arange(len(names))
        return _matrix(names, np.asarray(self._ptr), target[np.asarray(self._columns)])


def _matrix(
    names: list[str], ptr: NDArray[np.int64], columns: NDArray[np.int32]
) -> tuple[tuple[str, ...], sparse.csr_matrix]:
    """Return the names, and the matrix with these columns."""
    ones = np.ones(len(columns), np.float32)
    Y = wrap_csr(ones, columns, ptr, (len(ptr) - 1, len(names)))
    Y.sum_duplicates()
    Y.data[:] = 1  # a label may be repeated
    return tuple(names), Y


_PIECE_BYTES = 1 << 22  # read at a time; two pieces are in memory


def count_tsv(
    path: str | os.PathLike[str],
    counts: _native.TermCounts,
    threads: int,
    *,
    only_text: bool,
    require_labels: bool,
    progress: Callable[[float], None] | None,
    piece_bytes: int = _PIECE_BYTES,
    chunk_bytes: int = CHUNK_BYTES,
) -> tuple[list[str], NDArray[np.int64], NDArray[np.int32], int]:
    """Read documents as `read_text` does, with labels separated by whitespace, and add them to `counts`.

    Parameters
    ----------
    path, require_labels, progress
        As in :func:`labeltree.read_text`.
    counts : TermCounts
        To be filled.
    threads : int
        Threads that parse; the result does not depend on it.
    only_text : bool
        Every line is the text of a document, without labels.
    piece_bytes, chunk_bytes : int
        How much is read at a time, and parsed at a time by a thread.

    Returns
    -------
    names : list of str
        The labels, sorted.
    indptr, indices : ndarray
        The labels of each document, in the order of the file.
    n_skipped : int
        Documents without text, which are skipped if labels are required.

    Raises
    ------
    InputError
        If the file cannot be read. The message names the first invalid line.
    """
    least = 2 if require_labels else 1
    blank = _BlankTexts()
    reader = None
    with contextlib.closing(read_pieces(path, piece_bytes, progress)) as pieces:
        for piece, last in blank.emptied(pieces) if require_labels else pieces:
            if reader is None:
                columns = int(only_text) or blank.n_columns
                reader = _native.TsvReader(counts, columns, least, threads, chunk_bytes)
            if not reader.feed(piece, last):
                _refuse(display_name(path), reader, least)
    assert reader is not None  # there is a last piece
    return *reader.labels(), blank.n_skipped


class _BlankTexts:
    """Empties the lines whose text is blank: the parser skips empty lines, and still counts them.

    Attributes
    ----------
    n_columns : int
        Columns of the file; 0 if its first line is invalid.
    n_skipped : int
        Lines that were emptied.
    """

    def __init__(self) -> None:
        self.n_columns = self.n_skipped = 0

    def emptied(
        self, pieces: Iterable[tuple[NDArray[np.uint8], bool]]
    ) -> Iterator[tuple[NDArray[np.uint8], bool]]:
        """Yield the pieces again, cut where lines end, from the first line that is not empty."""
        begun: list[bytes] = []
        started = False
        for piece, last in pieces:
            data = piece.tobytes()
            cut = len(data) if last else data.rfind(b"\n") + 1
            if not (cut or last):
                begun.append(data)
                continue
            lines = b"".join([*begun, data[:cut]])
            started = started or self._start(lines)
            begun = [data[cut:]] if started else [lines, data[cut:]]
            if started or last:
                yield np.frombuffer(self._empty(lines) if self.n_columns else lines, np.uint8), last

    def _start(self, lines: bytes) -> bool:
        """Take the number of columns from the first line that is not empty; return whether there is one."""
        for line in lines.removeprefix(codecs.BOM_UTF8).split(b"\n"):
            if line.removesuffix(b"\r"):
                n_fields = min(line.count(b"\t"), 2) + 1
                self.n_columns = n_fields if n_fields > 1 else 0
                return True
        return False

    def _empty(self, lines: bytes) -> bytes:
        codes = np.frombuffer(lines + b"\n", np.uint8)
        ends = np.flatnonzero(codes == ord("\n"))
        before = codes[ends - 1]
        kept: list[bytes] = []
        done = 0
        # A blank text ends in whitespace, ASCII or not, or in a tab; few other lines do.
        for end in ends[(before <= ord(" ")) | (before > 127)].tolist():
            begin = lines.rfind(b"\n", 0, end) + 1
            if self._is_blank(lines[begin:end]):
                kept.append(lines[done:begin])
                done = end
        self.n_skipped += len(kept)
        return b"".join([*kept, lines[done:]])

    def _is_blank(self, line: bytes) -> bool:
        fields = line.split(b"\t", self.n_columns - 1)
        if len(fields) < self.n_columns:
            return False
        try:
            return not fields[-1].decode().strip() and bool(line.decode())
        except UnicodeDecodeError:  # for the parser to refuse
            return False


def _refuse(name: str, reader: _native.TsvReader, least: int) -> NoReturn:
    """Raise the error for the line that the parser did not accept."""
    assert reader.fault is not None
    number, raw = reader.fault
    n_fields = len(decode_line(raw, name, number).split("\t"))
    check_columns(n_fields, reader.n_columns, least, name, number)
    raise AssertionError(f"line {number} is valid")
