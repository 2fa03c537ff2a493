"""Count the terms and labels of tab-separated documents, or of plain lines of text, by native code."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from labeltree import _native
from labeltree.files import display_name, read_pieces
from labeltree.text.reader import check_columns, decode_line
from labeltree.text.term_counts import CHUNK_BYTES

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
) -> tuple[list[str], NDArray[np.int64], NDArray[np.int32]]:
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

    Raises
    ------
    InputError
        If the file cannot be read. The message names the first invalid line.
    """
    least = 2 if require_labels else 1
    reader = _native.TsvReader(counts, int(only_text), least, threads, chunk_bytes)
    with contextlib.closing(read_pieces(path, piece_bytes, progress)) as pieces:
        for piece, last in pieces:
            if not reader.feed(piece, last):
                _refuse(display_name(path), reader, least)
    return reader.labels()


def _refuse(name: str, reader: _native.TsvReader, least: int) -> NoReturn:
    """Raise the error for the line that the parser did not accept."""
    assert reader.fault is not None
    number, raw = reader.fault
    n_fields = len(decode_line(raw, name, number).split("\t"))
    check_columns(n_fields, reader.n_columns, least, name, number)
    raise AssertionError(f"line {number} is valid")
