"""Read files of documents with labels, one document at a time."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

from labeltree.base.files import display_name
from labeltree.data.csv_records import parse_csv
from labeltree.data.formats import Columns, Document, Record, check_format, checked_columns
from labeltree.data.jsonl_records import parse_jsonl
from labeltree.data.lines import Lines
from labeltree.data.rules import Rules
from labeltree.data.tsv_records import parse_tsv, parse_txt

_PARSERS = {"tsv": parse_tsv, "csv": parse_csv, "jsonl": parse_jsonl, "txt": parse_txt}


def read_text(
    path: str | os.PathLike[str],
    format: str | None = None,
    columns: Columns | None = None,
    *,
    require_labels: bool = True,
    strict: bool = False,
    progress: Callable[[float], None] | None = None,
) -> Iterator[Document]:
    """Read documents one at a time; only one is in memory.

    Parameters
    ----------
    path : str or path-like
        The file, in UTF-8, plain or compressed; "-" for standard input.
    format : {"tsv", "csv", "jsonl", "txt"}, optional
        Default: detected from the extension of the file name.
    columns : Columns, optional
        Names of the columns and separators of labels.
    require_labels : bool, default True
        Reject a file that has no column for labels.
    strict : bool, default False
        Reject a document without text, and with `require_labels` one without labels or with a null among
        them. Otherwise, a text or labels that are null or missing in JSONL are empty.
    progress : callable, optional
        Called periodically with the fraction of the file read so far, if its length is known.

    Yields
    ------
    Document

    Raises
    ------
    InputError
        If the file cannot be read. The message names the first invalid line.
    """
    rows = Records(path, format, columns, require_labels=require_labels, strict=strict, progress=progress)
    return (Document(text or "", labels or []) for text, labels, _ in rows)


class Records:
    """The documents of a file, one at a time, as the file has them.

    Parameters
    ----------
    path, format, columns, require_labels, strict, progress
        As in :func:`read_text`.
    eager : bool, default False
        Take from a pipe what it has to give, without waiting for more.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        format: str | None = None,
        columns: Columns | None = None,
        *,
        require_labels: bool = True,
        strict: bool = False,
        progress: Callable[[float], None] | None = None,
        eager: bool = False,
    ) -> None:
        format = check_format(path, format, require_labels)
        self._rules = Rules(display_name(path), checked_columns(columns, Columns()), require_labels, strict)
        self._lines = Lines(path, progress, eager=eager)
        self._parse = _PARSERS[format]

    @property
    def waiting(self) -> bool:
        """Whether the next document has still to be read from the file."""
        return self._lines.waiting

    def __iter__(self) -> Iterator[Record]:
        return self._parse(self._rules, self._lines)
