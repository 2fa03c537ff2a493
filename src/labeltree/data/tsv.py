"""Count the terms and labels of tab-separated documents, or of plain lines of text, by native code."""

from __future__ import annotations

import codecs
import contextlib
import os
from collections.abc import Callable, Iterable, Iterator
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from labeltree import _native
from labeltree.base.files import display_name, read_pieces
from labeltree.data.lines import decode_line
from labeltree.data.term_counts import CHUNK_BYTES
from labeltree.data.tsv_records import check_columns

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
