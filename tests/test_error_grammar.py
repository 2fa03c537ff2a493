"""The grammar of errors: `file:line: what; hint`, checked at every place that raises one."""

from __future__ import annotations

import ast
import pickle
import re
from pathlib import Path

import pytest

import labeltree
from labeltree.errors import InputError, NoTermError, ResourceError

KINDS = {"InputError", "NoTermError", "ResourceError"}
# Words that begin with a capital letter anywhere in a sentence.
PROPER = re.compile(r"(X|Y|LIBSVM|CSV|JSONL?|TSV|UTF-8|TF-IDF|NaN|P@|K-means|Python)\b")
# Words that the language of labeltree avoids.
FOREIGN = re.compile(
    r"\b(mend|said|told|tells|says so|unless given|made-up|makes? up|folder|data sets?|whole file|anew|"
    r"(one|bytes|row|label|line) an? (row|line|label|weight|node))\b"
)


def _calls():
    source = Path(labeltree.__file__).parent
    for path in sorted(source.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", None) in KINDS:
                yield f"{path.relative_to(source)}:{node.lineno}", node


def _text(node):
    """Return the literal text of a string expression with {} for its values; None if it is not a literal."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)
    return None


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


def test_every_raise_follows_the_grammar():
    wrong, seen = [], 0
    for place, call in _calls():
        seen += 1
        if len(call.args) != 1 or not {word.arg for word in call.keywords} <= {"file", "line", "hint", None}:
            wrong.append(f"{place}: expected InputError(what, file=, line=, hint=)")
            continue
        what = _text(call.args[0])
        if what is not None:
            wrong += [f"{place}: what {fault}: {what}" for fault in _faults(what)]
            if "; " in what:
                wrong.append(f"{place}: a hint belongs in hint=: {what}")
            if re.match(r"\{\}(:\{\})?: ", what):
                wrong.append(f"{place}: a file name belongs in file=: {what}")
        for word in call.keywords:
            hint = _text(word.value) if word.arg == "hint" else None
            if hint is not None:
                wrong += [f"{place}: hint {fault}: {hint}" for fault in _faults(hint)]
    assert wrong == []
    assert seen > 150


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
    changed = error.replace(line=None, hint="add it")
    assert (type(changed), str(changed)) == (kind, "train.svm: expected index:value, got 'x'; add it")
