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
PROPER = re.compile(r"(X|Y|LIBSVM|CSV|JSONL?|TSV|UTF-8|TF-IDF|NaN|P@|K-means|Python)\b")
# Words that the language of labeltree avoids.
FOREIGN = re.compile(
    r"\b(mend|said|told|tells|says so|unless given|made-up|makes? up|folder|data sets?|whole file|anew|"
    r"any more|(no|any|some|every)body|"
    r"(one|bytes|row|label|line) an? (row|line|label|weight|node))\b"
)


FIELDS = {"file", "line", "hint", "parameters"}


def _calls(module):
    """Yield each call that makes an error or changes one, with the assignments that it can see."""

    def walk(node, assigned):
        if isinstance(node, ast.FunctionDef | ast.Module):
            assigned = {**assigned, **_assignments(node)}
        if isinstance(node, ast.Call) and (
            getattr(node.func, "id", None) in KINDS
            or (
                getattr(node.func, "attr", None) == "replace"
                and {"what", *FIELDS} & {w.arg for w in node.keywords}
            )
        ):
            yield node, assigned
        for child in ast.iter_child_nodes(node):
            yield from walk(child, assigned)

    return walk(module, {})


def _assignments(scope):
    """Return the expressions assigned to each name, outside the functions in the scope."""
    found, left = {}, list(scope.body)
    while left:
        node = left.pop()
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            continue
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            for target in getattr(node, "targets", None) or [node.target]:
                if isinstance(target, ast.Name):
                    found.setdefault(target.id, []).append(node.value)
        left += ast.iter_child_nodes(node)
    return found


def _texts(node, assigned):
    """Yield the texts that a string expression can be, with {} for their values, as far as they are known."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.JoinedStr):
        parts = [
            part.value if isinstance(part, ast.Constant) else _only(part.value, assigned)
            for part in node.values
        ]
        yield "".join(parts)
    elif isinstance(node, ast.IfExp):
        yield from _texts(node.body, assigned)
        yield from _texts(node.orelse, assigned)
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        for left in _texts(node.left, assigned):
            yield from (left + right for right in _texts(node.right, assigned))
    elif isinstance(node, ast.Name):
        values = assigned.get(node.id, [])
        rest = {name: value for name, value in assigned.items() if name != node.id}
        for value in values:
            yield from _texts(value, rest)


def _only(node, assigned):
    """Return the text of a variable inside a text if there is only one; {} for any other value."""
    texts = list(_texts(node, assigned)) if isinstance(node, ast.Name) else []
    return texts[0] if len(texts) == 1 else "{}"


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
    """Yield what is wrong with the errors that a module makes; and None for each text that is right."""
    for call, assigned in _calls(ast.parse(source)):
        at = f"{place}:{call.lineno}"
        words = {word.arg: word.value for word in call.keywords}
        new = isinstance(call.func, ast.Name)
        if len(call.args) != new or not words.keys() <= {*FIELDS, None, *([] if new else ["what"])}:
            yield f"{at}: expected InputError(what, file=, line=, hint=, parameters=)"
            continue
        for what in _texts(call.args[0] if new else words.get("what"), assigned):
            yield None
            yield from (f"{at}: what {fault}: {what}" for fault in _faults(what))
            if "; " in what:
                yield f"{at}: a hint belongs in hint=: {what}"
            if re.match(r"\{\}(:\{\})?: ", what):
                yield f"{at}: a file name belongs in file=: {what}"
        for hint in _texts(words.get("hint"), assigned):
            yield None
            yield from (f"{at}: hint {fault}: {hint}" for fault in _faults(hint))
            if re.search(r"(?<![\w-])--[a-z]", hint) and not place.startswith("cli/"):
                yield f"{at}: an option belongs in parameters=: {hint}"


def test_every_raise_follows_the_grammar():
    source = Path(labeltree.__file__).parent
    found = [
        fault
        for path in sorted(source.rglob("*.py"))
        for fault in _wrong(path.read_text(encoding="utf-8"), path.relative_to(source).as_posix())
    ]
    assert [fault for fault in found if fault] == []
    assert len(found) > 250


@pytest.mark.parametrize(
    "source",
    [
        "raise InputError('Wrong')",
        "what = 'Wrong'\nraise InputError(what)",
        "def f():\n    if x:\n        what = f'{x} is wrong.'\n    raise NoTermError(what)",
        "raise error.replace(hint='Try again')",
        "end = 'right.'\nraise error.replace(what=f'not {end}')",
        "raise InputError('wrong' if x else 'Wrong')",
        "raise InputError('got 1, expected 2')",
        "raise InputError('wrong', hint='use --overwrite')",
        "raise InputError('wrong', 'hint')",
    ],
)
def test_wrong_errors_are_found(source):
    assert len(list(filter(None, _wrong(source, "module.py")))) == 1


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("The tree has 3 labels", "begins with a capital letter"),
        ("no such file.", "ends with a period"),
        ("one row a line", "has the word"),
        ("no  such file", "has line breaks"),
    ],
)
def test_faults_are_found(text, fault):
    assert any(found.startswith(fault) for found in _faults(text))


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
