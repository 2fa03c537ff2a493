"""Parse documents in JSON objects, one per line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from labeltree.data.formats import Labels, Record, tidy_label
from labeltree.data.lines import Lines
from labeltree.data.rules import KINDS, Rules, some_names
from labeltree.errors import InputError


def parse_jsonl(rules: Rules, lines: Lines) -> Iterator[Record]:
    """Parse lines; the first ones, as many as were read at once, have all columns between them."""
    missing = rules.wanted()
    first, members = 0, dict[str, None]()
    begun: list[tuple[Record, int]] = []  # until all columns were seen, so that their names are correct
    for number, line in enumerate(lines, 1):
        if not line or line.isspace():
            continue
        record, found = _json_record(line, rules, number)
        if not missing:
            yield rules.check(record, number)
            continue
        first = first or number
        members.update(dict.fromkeys(found))
        begun.append((record, number))
        missing = [(key, field) for key, field in missing if key not in found]
        if missing and lines.waiting:
            break
        if not missing:
            yield from (rules.check(*each) for each in begun)
            begun = []
    if missing and begun:
        key, field = missing[0]
        raise InputError(
            f"the object has no {key!r}" + (f", only {some_names(list(members))}" if members else ""),
            file=rules.name,
            line=first,
            hint=f"add it, or set the name of the {KINDS[field]} column ({{columns}})",
            parameters={"columns": field},
        )


def _json_record(line: str, rules: Rules, number: int) -> tuple[Record, dict[str, Any]]:
    """Parse a line; return the document and the object."""
    try:
        return _parsed(line, rules)
    except InputError as error:
        raise error.replace(file=rules.name, line=number) from None


def _parsed(line: str, rules: Rules) -> tuple[Record, dict[str, Any]]:
    """Parse a line. Errors do not name the file and the line."""
    columns = rules.columns
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InputError(f"not JSON ({error})", hint="write one JSON object per line") from None
    if not isinstance(found, dict):
        example = f'{{"{columns.texts[0]}": "...", "{columns.labels}": ["a", "b"]}}'
        what = f"expected a JSON object, got {_kind(found)}"
        raise InputError(what, hint=f"write one object per line, such as {example}")
    texts = [text for key in columns.texts if (text := found.get(key)) is not None]
    for key in columns.texts:
        if not isinstance(found.get(key), str | None):
            raise InputError(f"{key!r} is {_kind(found[key])}, expected a string")
    labels = _json_labels(found.get(columns.labels), rules)
    identity: Any = None if columns.id is None else found.get(columns.id)
    if isinstance(identity, dict | list | bool):
        raise InputError(f"{columns.id!r} is {_kind(identity)}, expected a string or a number")
    record = Record(" ".join(texts) if texts else None, labels, "" if identity is None else str(identity))
    if "\\u" in line:
        _check_surrogates(record)
    return record, found


def _json_labels(labels: Any, rules: Rules) -> Labels | None:
    key = rules.columns.labels
    if labels is None:
        return None
    if isinstance(labels, str):
        return rules.columns.split(",")(labels)
    if not isinstance(labels, list):
        if not _is_label(labels):
            raise InputError(f"{key!r} is {_kind(labels)}, expected a string, an integer or a list of them")
        return [str(labels)]
    if None in labels:
        if rules.strict and rules.require_labels:
            hint = "correct it, or remove {strict}"
            raise InputError(f"{key!r} contains null", hint=hint, parameters={"strict": None})
        labels = [label for label in labels if label is not None]
    for label in labels:
        if not _is_label(label):
            raise InputError(f"{key!r} contains {_kind(label)}, expected only strings and integers")
    return [text for label in labels if (text := tidy_label(str(label)))]


def _is_label(value: Any) -> bool:
    return isinstance(value, str | int) and not isinstance(value, bool)


def _check_surrogates(document: Record) -> None:
    try:
        "".join([document.text or "", *(document.labels or ()), document.id]).encode()
    except UnicodeEncodeError:
        what = "the document contains an unpaired surrogate, such as \\ud800"
        raise InputError(what, hint="use valid Unicode text") from None


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")
