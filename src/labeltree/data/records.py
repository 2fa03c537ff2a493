"""Read the documents of a TSV, CSV, JSONL or text file, one at a time."""

from __future__ import annotations

import codecs
import contextlib
import csv
import itertools
import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from labeltree.base.files import display_name, read_pieces
from labeltree.base.paths import BINARY, shares, shown_files
from labeltree.data.columns import KINDS, Columns, Document, Rules, kind_of, no_column, some_names
from labeltree.data.tsv import parse_tsv
from labeltree.errors import InputError


class Documents:
    """The documents of one or several files, read one at a time in each iteration.

    Files are in UTF-8, plain or compressed; "-" is standard input. Several are read one after the other, and
    have the same format and the same columns.

    `require_labels` rejects a file that has no column for labels; `strict` a document without text, and with
    `require_labels` one without labels or with a null among them, which are otherwise empty. If `eager`, a
    pipe gives what it has without waiting for more. If it `learns`, a TSV file whose columns cannot be told
    apart is refused; a model knows its labels, and can note others. The first line of each document is
    appended to `starts`. After the iteration, the keys of `notes` are sentences about what was read in
    another way than it is written.
    """

    def __init__(
        self,
        files: Sequence[str],
        format: str,
        columns: Columns,
        progress: Callable[[float], None] | None = None,
        *,
        require_labels: bool,
        strict: bool,
        eager: bool = False,
        learns: bool = False,
        starts: list[int] | None = None,
    ) -> None:
        if format == "txt" and require_labels:
            what, hint = "plain text (txt) has no labels", "use TSV, CSV or JSONL, or set another {format}"
            raise InputError(what, file=shown_files(files), hint=hint)
        self._files, self._format = files, format
        self._rules = Rules("", columns, require_labels, strict, learns, starts)
        self.notes = self._rules.notes
        self._progress, self._eager = progress, eager
        self._lines: Lines | None = None

    @property
    def waiting(self) -> bool:
        """Whether the next document has still to be read from a pipe."""
        return self._lines is not None and self._lines.waiting

    def __iter__(self) -> Iterator[Document]:
        for file, progress in shares(self._files, self._progress):
            self._rules.name = display_name(file)
            if self._format in BINARY:
                from labeltree.data.binary import parse_arrow

                yield from parse_arrow(self._rules, file, self._format, progress)
            else:
                self._lines = Lines(file, progress, eager=self._eager)
                yield from _PARSERS[self._format](self._rules, self._lines)


_PIECE_BYTES = 1 << 20


class Lines:
    """The lines of a file of documents, without their line ends.

    If `eager`, a pipe gives what it has without waiting for more; `waiting` is whether the next line with a
    document has still to be read from the file.
    """

    def __init__(
        self, path: str | os.PathLike[str], progress: Callable[[float], None] | None, *, eager: bool = False
    ) -> None:
        self.path, self.waiting = path, True
        self._progress, self._eager = progress, eager

    def __iter__(self) -> Iterator[str]:
        number = 1
        begun: list[bytes] = []  # parts of a line that has not ended
        read = read_pieces(self.path, _PIECE_BYTES, self._progress, eager=self._eager)
        with contextlib.closing(read) as pieces:
            for piece, last in pieces:
                content = piece.tobytes()
                cut = content.rfind(b"\n") + 1
                if not (cut or last):
                    begun.append(content)
                    continue
                ended = b"".join([*begun, content if last else content[:cut]])
                begun = [] if last else [content[cut:]]
                lines, error = self._decoded(ended, number)
                filled = max((i for i in range(len(lines) - 1, -1, -1) if lines[i].strip()), default=0)
                for i, line in enumerate(lines):
                    self.waiting = i >= filled  # the rest is blank lines
                    yield line
                if error is not None:
                    raise error
                number += len(lines)

    def _decoded(self, content: bytes, number: int) -> tuple[list[str], InputError | None]:
        """Decode whole lines, of which the first has this number, up to one that is not in UTF-8."""
        error = None
        if number == 1:
            content = content.removeprefix(codecs.BOM_UTF8)
        try:
            text = content.decode()
        except UnicodeDecodeError as invalid:
            start = content.rfind(b"\n", 0, invalid.start) + 1
            error = InputError(
                f"the byte 0x{content[invalid.start]:02x} is not UTF-8",
                file=display_name(self.path),
                line=number + content.count(b"\n", 0, start),
                hint="convert the file to UTF-8 (for example with iconv -f latin1 -t utf-8)",
            )
            text = content[:start].decode()
        lines = text.split("\n")
        if not lines[-1]:  # after the last line end
            lines.pop()
        return [line.removesuffix("\r") for line in lines] if "\r" in text else lines, error


def parse_txt(rules: Rules, lines: Lines) -> Iterator[Document]:
    """Take each line as a text without labels."""
    return (rules.check(Document(line, []), number) for number, line in enumerate(lines, 1))


_LONGEST_FIELD = 2**31 - 1  # the default limit of Python is 128 kB
_DELIMITERS = (",", ";", "\t", "|")
_PUNCTUATION = re.compile(r"[^\w\s.-]|\t")
_DELIMITER_NAMES = {",": "commas", ";": "semicolons", "\t": "tabs"}


def parse_csv(rules: Rules, lines: Lines) -> Iterator[Document]:
    """Parse records; the header sets the columns, and unless it is given, the delimiter."""
    name, columns, first = rules.name, rules.columns, 1
    before = csv.field_size_limit(_LONGEST_FIELD)
    try:
        rest = iter(lines)
        start = next(rest, None)
        if not start:
            what = "the file is empty" if start is None else "the first line is empty, expected a header"
            hint = "check that this is the right file"
            raise InputError(what, file=name, line=None if start is None else 1, hint=hint)
        delimiter = columns.delimiter or _detected(start, columns)
        again = (line + "\n" for line in itertools.chain([start], rest))
        records = csv.reader(again, strict=True, delimiter=delimiter)
        header = [column.strip() for column in next(records, [])]
        last = header[-1] if len(header) > 1 else None  # a text may be the name of the only column
        texts = [_column(name, header, column, "text") for column in columns.texts]
        label_column = rules.label_column(header)
        split = rules.splits[label_column]
        labelled = rules.require_labels or label_column in header
        labels_at = _column(name, header, label_column, "labels") if labelled else -1
        id_at = None if columns.id is None else _column(name, header, columns.id, "id")
        first = records.line_num + 1
        for record in records:
            if record and len(record) != len(header):
                what = f"the record has {len(record)} fields, expected {len(header)} as in the header"
                hint = f"quote fields that contain {_DELIMITER_NAMES.get(delimiter, repr(delimiter))}"
                raise InputError(what, file=name, line=first, hint=hint)
            if record:  # not a blank line
                if record[-1].strip() == last and [cell.strip(" \t\ufeff") for cell in record] == header:
                    hint = "remove this line, or pass the files that were joined one by one"
                    raise InputError("the header occurs again", file=name, line=first, hint=hint)
                labels = split(record[labels_at]) if labelled else []
                text = " ".join(record[at] for at in texts)
                yield rules.check(Document(text, labels, "" if id_at is None else record[id_at]), first)
            first = records.line_num + 1
    except csv.Error as error:
        what, hint = f"not a CSV record ({error})", "close each quoted field, and double the quotes inside it"
        raise InputError(what, file=name, line=first, hint=hint) from None
    finally:
        csv.field_size_limit(before)


def _detected(header: str, columns: Columns) -> str:
    """Return the delimiter with which the header has most of the columns; a comma if none does."""
    wanted = {*columns.texts, columns.labels, columns.id}

    def found(delimiter: str) -> int:
        try:
            names = next(csv.reader([header], delimiter=delimiter), [])
        except csv.Error:
            return 0
        return len(wanted & {name.strip() for name in names})

    return max(_DELIMITERS, key=found)


def _column(name: str, header: list[str], wanted: str, field: str) -> int:
    """Return the position of a column."""
    if (count := header.count(wanted)) > 1:
        what = f"the header has {count} columns named {wanted!r}"
        raise InputError(what, file=name, line=1, hint="rename all but one of them")
    if wanted in header:
        return header.index(wanted)
    error = no_column("the header", wanted, header, field).replace(file=name, line=1)
    if len(header) == 1 and _PUNCTUATION.search(header[0]):  # perhaps several columns
        error = error.replace(hint=f"{error.hint}, or the character between columns ({{delimiter}})")
    raise error


def parse_jsonl(rules: Rules, lines: Lines) -> Iterator[Document]:
    """Parse lines; the first ones, as many as were read at once, have all columns between them."""
    missing = dict.fromkeys(rules.columns.texts, "text")
    if rules.require_labels:
        missing[rules.columns.labels] = "labels"
    members: dict[str, Any] = {}
    begun: list[tuple[Document, int]] = []  # until all columns were seen, so that their names are correct
    for number, line in enumerate(lines, 1):
        if not line or line.isspace():
            continue
        try:
            document, found = _json_document(line, rules)
        except InputError as error:
            raise error.replace(file=rules.name, line=number) from None
        begun.append((document, number))
        if missing:
            members.update(found)
            names = {*found, rules.columns.labels} if rules.label_column(found) in found else found
            missing = {name: field for name, field in missing.items() if name not in names}
        if not missing:
            yield from (rules.check(*each) for each in begun)
            begun.clear()
        elif lines.waiting:
            break
    if missing and begun:
        name, field = next(iter(missing.items()))
        what = f"the object has no {name!r}" + (f", only {some_names(list(members))}" if members else "")
        hint = f"add it, or set the name of the {KINDS[field]} column ({{{field}}})"
        raise InputError(what, file=rules.name, line=begun[0][1], hint=hint)


def _json_document(line: str, rules: Rules) -> tuple[Document, dict[str, Any]]:
    """Return the document of a line, and its object. Errors do not name the file and the line."""
    columns = rules.columns
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InputError(f"not JSON ({error})", hint="write one JSON object per line") from None
    if not isinstance(found, dict):
        example = f'{{"{columns.texts[0]}": "...", "{columns.labels}": ["a", "b"]}}'
        what = f"expected a JSON object, got {kind_of(found)}"
        raise InputError(what, hint=f"write one object per line, such as {example}")
    document = rules.document(found)
    if "\\u" in line:  # only an escape can stand for half a character
        try:
            "".join([document.text, *document.labels, document.id]).encode()
        except UnicodeEncodeError:
            what = "the document contains an unpaired surrogate, such as \\ud800"
            raise InputError(what, hint="use valid Unicode text") from None
    return document, found


_PARSERS = {"tsv": parse_tsv, "csv": parse_csv, "jsonl": parse_jsonl, "txt": parse_txt}
