"""The grammar of errors: `file:line: what; hint`, checked at every place that raises one."""

from __future__ import annotations

import ast
import pickle
import re
from pathlib import Path

import pytest

import labeltree
from labeltree.cli.options import spelled
from labeltree.errors import InputError, NoTermError, ResourceError

KINDS = {"InputError", "NoTermError", "ResourceError"}
# Words that begin with a capital letter anywhere in a sentence.
PROPER = re.compile(r"(X|Y|GET|LIBSVM|CSV|JSONL?|TSV|UTF-8|TF-IDF|NaN|P@|K-means|Python)\b")
# Words that the language of labeltree avoids.
FOREIGN = re.compile(
    r"\b(mend|said|told|tells|says so|unless given|made-up|makes? up|folder|data sets?|whole file|anew|"
    r"any more|(no|any|some|every)body|"
    r"(one|bytes|row|label|line) an? (row|line|label|weight|node))\b"
)


def _texts(node):
    """Yield the texts that an expression can be, with {} for the values in them."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.JoinedStr):
        yield "".join(part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)
    elif isinstance(node, ast.IfExp):
        yield from _texts(node.body)
        yield from _texts(node.orelse)


def _errors(source):
    """Yield the texts of the errors that a module makes or changes: line, "what" or "hint", and the text.

    Texts that do not fit into the call are in variables of these names.
    """
    for node in ast.walk(ast.parse(source)):
        named = {}
        if isinstance(node, ast.Call):
            named = {word.arg: word.value for word in node.keywords}
            if getattr(node.func, "id", None) in KINDS:
                named["what"] = node.args[0]
            elif getattr(node.func, "attr", None) != "replace":
                continue
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            named = {node.targets[0].id: node.value}
        for name in ("what", "hint"):
            for text in _texts(named.get(name)):
                yield node.lineno, name, text


def _faults(what):
    """Return what is wrong with the text of an error or a hint."""
    if re.match(r"[A-Z]", what) and not PROPER.match(what):
        yield "begins with a capital letter"
    if what.endswith(".") and not what.endswith("..."):
        yield "ends with a period"
    if FOREIGN.search(what):
        yield f"has the word {FOREIGN.search(what)[0]!r}"
    if "\n" in what or "  " in what:
        yield "has line breaks or double spaces"
    if re.search(r"\bgot\b.*\bexpected\b|\bmust\b", what):
        yield "does not follow the order expected, got"


def _wrong(source, place=""):
    """Yield what is wrong with the errors of a module."""
    for line, name, text in _errors(source):
        faults = [*_faults(text)]
        if name == "what" and "; " in text:
            faults.append("has a hint, which belongs in hint=")
        if name == "what" and re.match(r"\{\}(:\{\})?: ", text):
            faults.append("has a file name, which belongs in file=")
        if name == "hint" and re.search(r"(?<![\w-])--[a-z]", text) and not place.startswith("cli/"):
            faults.append("has an option, which belongs in parameters=")
        yield from (f"{place}:{line}: {name} {fault}: {text}" for fault in faults)


def test_every_raise_follows_the_grammar():
    source = Path(labeltree.__file__).parent
    modules = {path.relative_to(source).as_posix(): path.read_text("utf-8") for path in source.rglob("*.py")}
    assert [fault for place, text in sorted(modules.items()) for fault in _wrong(text, place)] == []
    assert sum(len(list(_errors(text))) for text in modules.values()) > 500


@pytest.mark.parametrize(
    "source",
    [
        "raise InputError('Wrong')",
        "what = 'Wrong'\nraise InputError(what)",
        "def f():\n    if x:\n        what = f'{x} is wrong.'\n    raise NoTermError(what)",
        "raise error.replace(hint='Try again')",
        "raise InputError('wrong' if x else 'Wrong')",
        "raise InputError('got 1, expected 2')",
        "raise InputError('wrong', hint='use --overwrite')",
        "raise InputError('wrong; use another')",
        "raise InputError(f'{path}: wrong')",
        "raise InputError('one row a line')",
        "raise InputError('no  such file')",
    ],
)
def test_wrong_errors_are_found(source):
    assert len(list(_wrong(source, "module.py"))) == 1


@pytest.mark.parametrize("kind", [InputError, NoTermError, ResourceError])
def test_the_message_is_made_of_the_fields(kind):
    assert str(kind("no such file")) == "no such file"
    assert str(kind("no such file", file=Path("a/b"))) == "a/b: no such file"
    error = kind("expected index:value, got 'x'", file="train.svm", line=3, hint="remove it")
    assert str(error) == "train.svm:3: expected index:value, got 'x'; remove it"
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), vars(again), str(again)) == (kind, vars(error), str(error))
    named = kind(
        "already exists", hint="use {overwrite} or {threads}", parameters={"overwrite": True, "threads": None}
    )
    assert (
        str(named)
        == str(pickle.loads(pickle.dumps(named)))
        == "already exists; use overwrite=True or threads"
    )
    assert named.message(spelled) == "already exists; use --overwrite or --threads"
    changed = error.replace(line=None, hint="add it")
    assert (type(changed), str(changed)) == (kind, "train.svm: expected index:value, got 'x'; add it")
