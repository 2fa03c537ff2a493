"""Damaged models: small models of every kind, random changes of their files, and what may happen to them."""

import contextlib
import io
import json
import pickle
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pytest
from codec_models import drawing, store_model, wide_tree
from forgery import array, npy, read_files, seal
from helpers import random_data, read_documents, train_small
from scipy import sparse

from labeltree import InputError, LabelTreeClassifier, load
from labeltree.cli import main
from labeltree.explain.label import describe_label
from labeltree.explain.overview import tree_shape
from labeltree.explain.prediction import explain_prediction
from labeltree.model.layout import MANIFEST
from labeltree.settings import SolverSettings

DOCUMENTS = """cats animals\tthe cat sat on the mat
dogs animals\ta dog and another dog
trees\tan oak is a tree, a pine is a tree
trees animals\tthe bird in the tree
cars\tthe car stops at the red light
cars dogs\ta dog in a car
"""

ANYTHING = [
    *(None, True, False, "", "x", "7", "\x1b[31mred", "\ud800", "../../etc/passwd", "float32", "sparse", "O"),
    *(0, 1, -1, 2, 3, 100, 2**31 - 2, 2**31 - 1, 2**31, 2**53, 2**63 - 1, 2**63, 2**70, -(2**63), 10**400),
    *(0.0, 0.5, -0.5, -0.0, 1e-300, 1e15, 1e30, 1e308, float("nan"), float("inf"), float("-inf")),
    *([], [1], [None], ["a"], [[]], {}, {"a": 1}, {"nodes": 1, "depth": 1}, {"bytes": 0}, {"threshold": "x"}),
]
NAMES = [
    *("", "x", "näme 0", "\x1b[2J", "\ud800", "a\nb", "a\tb", "\x00", "\u202e", "𝄞"),
    *(7, None, [], {}, True, 1e400),
]
INTEGERS = [
    *(0, 1, -1, 2, 255, 256, 65_535, 65_536, 2**31 - 1, 2**31, -(2**31), 2**40),
    *(2**62, 2**63 - 1, -(2**63)),
]
FLOATS = [0.0, -0.0, 1.0, -1.0, np.nan, np.inf, -np.inf, 3e38, -3e38, 1e-45, 65504.0, 1e308, 5e-324]
GARBAGE = [
    *(b"", b"\0", b"\0" * 200, b"[" * 5000),
    *(b"\x80\x04N.", b"PK\x03\x04", b"\x93NUMPY", b"\x93NUMPY\x01\x00\xff\xff"),
]


def make_models(place):
    """Write a small model of each kind; return the files of each, by name."""
    place.mkdir(exist_ok=True)
    trained = train_small(place / "float32")
    for codec in ("float16", "int8"):
        trained.compress(place / codec, weights=codec)
    trained.compress(place / "sparse", prune=0.05)
    train_small(place / "normalized", random_data().normalize(), 1)
    train_small(place / "plain", random_data(), 1, settings=SolverSettings(bias=0))
    train_small(place / "unpruned", random_data(), 1, settings=SolverSettings(bias=0)).compress(
        place / "sparse-plain", prune=0
    )
    rng = np.random.default_rng(0)
    wide = [wide_tree(rng, 300, 70_000, drawing(rng, 0.3))], 70_000, 300, 0.0
    store_model(place / "wide", wide).compress(place / "sparse-wide", prune=0.1)
    (place / "documents.tsv").write_text(DOCUMENTS)
    train_small(place / "text", read_documents(place / "documents.tsv"), 1)
    classes = np.array(["ant", "bee", "cat"])
    rows = np.abs(np.random.default_rng(1).normal(size=(30, 6)))
    estimator = LabelTreeClassifier(clusters=2, threads=1)
    estimator.fit(rows, classes[np.arange(30) % 3]).save(place / "estimator")
    return {path.name: read_files(path) for path in sorted(place.iterdir()) if path.is_dir()}


def mutate(files, rng, sealed):
    """Return changed files of a model, and what was changed; `sealed` makes all checksums right again."""
    files, notes = dict(files), []
    for _ in range(1 + (rng.random() < 0.2)):
        # The file may be damaged already.
        with contextlib.suppress(Exception), warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            notes.append(pick(rng, MUTATIONS)(files, rng))
    if sealed:
        seal(files)
    return files, f"{'sealed' if sealed else 'open'}: {', '.join(map(str, notes))}"


def pick(rng, choices):
    return choices[int(rng.integers(len(choices)))]


def change_manifest(files, rng):
    """Replace, delete or move one entry at any depth of the manifest."""
    manifest = json.loads(files[MANIFEST])
    note = change_json(manifest, rng, ANYTHING, 0.6)
    files[MANIFEST] = json.dumps(manifest).encode()
    return f"manifest {note}"


def change_json(value, rng, pool, stop):
    """Change one entry at any depth; return its place and the change."""
    keys = list(value) if isinstance(value, dict) else list(range(len(value)))
    key = pick(rng, keys)
    inner = value[key]
    if isinstance(inner, dict | list) and inner and rng.random() < stop:
        return f"{key}.{change_json(inner, rng, pool, stop)}"
    action = rng.random()
    if action < 0.1:
        del value[key]
        return f"{key} deleted"
    if action < 0.2 and isinstance(value, dict):
        names = ["x", "codec", "normalized", "score", "pruned", "estimator", "../x", "text/terms.json"]
        value[pick(rng, names)] = inner
        return f"{key} copied"
    near = [[inner], str(inner), {"x": inner}]
    if isinstance(inner, int | float):
        near += [inner + 1, inner - 1, -inner, 2 * inner, float(inner), bool(inner)]
    value[key] = pick(rng, near) if action < 0.4 else pick(rng, pool)
    return f"{key} = {repr(value[key])[:40]}"


def change_text(files, rng):
    """Change names, terms or settings."""
    name = pick(rng, [n for n in files if n.endswith(".json") and n != MANIFEST])
    content = json.loads(files[name])
    note = change_json(content, rng, NAMES, 0.9)
    encoding = pick(rng, ["utf-8"] * 8 + ["utf-16", "utf-8-sig"])
    files[name] = json.dumps(content, ensure_ascii=True).encode(encoding)
    return f"{name} {note}"


def arrays_of(files):
    return [name for name in files if name.endswith(".npy")]


def change_element(files, rng):
    """Set one element, or swap two."""
    name = pick(rng, arrays_of(files))
    values = array(files, name)
    at, other = (int(rng.integers(values.size)) for _ in range(2))
    with np.errstate(over="ignore"):
        if rng.random() < 0.3:
            values[[at, other]] = values[[other, at]]
        elif rng.random() < 0.3:
            values[at] = values[other]
        elif values.dtype.kind == "f":
            values[at] = pick(rng, FLOATS)
        else:
            wanted = pick(rng, [*INTEGERS, int(values[at]) + 1, int(values[at]) - 1, ~int(values[at])])
            values[at] = np.array(wanted % 2**64, np.uint64).astype(values.dtype)
    files[name] = npy(values)
    return f"{name}[{at}] = {values[at]}"


def change_array(files, rng):
    """Change a whole array: its order, length, type, or shape."""
    name = pick(rng, arrays_of(files))
    values = array(files, name)
    changed = pick(
        rng,
        [
            lambda: values[::-1],
            lambda: np.sort(values),
            lambda: rng.permutation(values),
            lambda: values[:-1],
            lambda: values[: values.size // 2],
            lambda: values[:0],
            lambda: np.append(values, values[-1:]),
            lambda: np.concatenate([values, values]),
            lambda: np.full_like(values, pick(rng, [0, 1, -1]) if values.dtype.kind != "u" else 1),
            lambda: np.cumsum(values).astype(values.dtype),
            lambda: values.astype(values.dtype.newbyteorder(">")),
            lambda: values.astype(pick(rng, ["<i8", "<f8", "<f4", "<u4", "|u1", "<c16", "<U3", "|b1"])),
            lambda: values.reshape(1, -1),
            lambda: values.reshape(-1, 1),
            lambda: values[0],
            lambda: np.array([{"a": 1}], object),
        ],
    )()
    files[name] = npy(changed)
    return f"{name} {changed.dtype}{changed.shape}"


def change_header(files, rng):
    """Let the header of an array lie."""
    name = pick(rng, arrays_of(files))
    content = files[name]
    size = int.from_bytes(content[8:10], "little")
    text = content[10 : 10 + size].decode("latin1").rstrip()
    length = text.split("(")[1].split(",")[0]
    new = pick(
        rng,
        [
            text.replace(f"({length},)", f"({pick(rng, [-1, 0, int(length) + 1, 2**40, 2**62, 2**70])},)"),
            text.replace(f"({length},)", f"({length}, 1)"),
            text.replace(f"({length},)", "()"),
            text.replace("False", "True"),
            text.replace("'descr': '", "'descr': '|O"),
            text.replace("{", "{'x': 1, "),
            text.replace("{", "{" * 300),
            "__import__('os').abort()",
            text + " " * 5000,
            text[:-5],
        ],
    )
    header = (new + " " * (-(len(new) + 11) % 64) + "\n").encode("latin1")
    version = pick(rng, [b"\x01\x00"] * 4 + [b"\x02\x00", b"\x03\x00", b"\x09\x00"])
    width = 2 if version == b"\x01\x00" else 4
    files[name] = (
        b"\x93NUMPY" + version + len(header).to_bytes(width, "little") + header + content[10 + size :]
    )
    return f"{name} header {new[:60]!r}"


def change_bytes(files, rng):
    """Flip bits, cut, extend, remove or replace a file."""
    name = pick(rng, sorted(files))
    content = bytearray(files[name])
    action = pick(
        rng, ["flip", "flip", "flip", "cut", "extend", "remove", "garbage", "npz", "pickle", "swap"]
    )
    if action == "flip":
        for _ in range(int(rng.integers(1, 4))):
            content[int(rng.integers(len(content)))] ^= 1 << int(rng.integers(8))
    elif action == "cut":
        del content[int(rng.integers(len(content))) :]
    elif action == "extend":
        content += pick(rng, [b"\0", b" ", bytes(64), bytes(content[:100])])
    elif action == "garbage":
        content = pick(rng, GARBAGE)
    elif action == "npz":
        stream = io.BytesIO()
        np.savez(stream, a=np.arange(3), b=np.zeros(2))
        content = stream.getvalue()
    elif action == "pickle":
        content = pickle.dumps(np.arange(5))
    elif action == "swap":
        content = files[pick(rng, sorted(files))]
    files[name] = bytes(content)
    if action == "remove":
        del files[name]
    return f"{name} {action}"


def change_rows(files, rng):
    """Remove the first or the last row of a block, or all of them, from all arrays of a dense tree."""
    folder = "tree-0/"
    lists = {k: array(files, f"{folder}{k}.npy") for k in ("child_ptr", "feature_ptr", "features", "weights")}
    node = int(rng.integers(lists["feature_ptr"].size - 1))
    width = np.diff(lists["child_ptr"])
    first, last = (int(p) for p in lists["feature_ptr"][node : node + 2])
    weight_ptr = np.concatenate([[0], np.cumsum(np.diff(lists["feature_ptr"]) * width)])
    gone = pick(rng, [slice(first, first + 1), slice(last - 1, last), slice(first, last)])
    n_gone = gone.stop - gone.start
    start = int(weight_ptr[node]) + (gone.start - first) * int(width[node])
    lists["features"] = np.delete(lists["features"], gone)
    lists["weights"] = np.delete(lists["weights"], slice(start, start + n_gone * int(width[node])))
    lists["feature_ptr"][node + 1 :] -= n_gone
    for name, values in lists.items():
        files[f"{folder}{name}.npy"] = npy(values)
    manifest = json.loads(files[MANIFEST])
    if rng.random() < 0.5:
        manifest["weights"] -= n_gone * int(width[node])
    files[MANIFEST] = json.dumps(manifest).encode()
    return f"{n_gone} rows of node {node} removed"


MUTATIONS = [
    *[change_manifest, change_element] * 6,
    *[change_array, change_bytes] * 3,
    *[change_text] * 2,
    *[change_header, change_rows],
]


def outcome(path, verify=None):
    """Open a model and use it in every way; "refused", or "opened". Anything but an InputError is raised."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            model = load(path, verify=verify)
        except InputError as error:
            message = str(error)
            assert "\n" not in message.replace(str(path), "")
            assert "not enough memory" not in message
            message.encode()
            assert command("info", path)[0] == 2 or verify is False
            return "refused"
        use(model, path)
        return "opened"


def use(model, path):
    """Call everything that reads a model."""
    rows = sparse.random(3, min(model.n_features, 50), 0.5, "csr", rng=np.random.default_rng(0)).astype(
        np.float32
    )
    rows.resize(3, model.n_features)
    labels, scores = model.predict(rows, top=3, threads=1)
    assert ((labels >= -1) & (labels < model.n_labels)).all()
    assert labels.shape == scores.shape
    with contextlib.suppress(InputError):  # of blocks that were not verified
        explain_prediction(model, rows[0], top=3)
        describe_label(model, model.n_labels - 1)
    repr(model), model._repr_html_(), tree_shape(model)
    if model.text is not None:
        model.text.transform(["the cat and a dog"])
    with contextlib.suppress(InputError):
        LabelTreeClassifier.load(path).predict(sparse.csr_matrix((1, model.n_features), dtype=np.float32))
    given = "cat" if model.text is not None else "1:0.5"
    for arguments in (["info"], ["info", "--json"], ["verify"], ["explain", given, "--json"]):
        code, out = command(arguments[0], path, *arguments[1:])
        assert code in (0, 2)
        assert not any(ord(c) < 32 and c != "\n" for c in out)
        if code == 0 and "--json" in arguments:
            json.loads(out, parse_constant=pytest.fail)
    with tempfile.TemporaryDirectory(dir=path.parent) as place, contextlib.suppress(InputError):
        model.save(Path(place) / "copy")
        load(Path(place) / "copy", verify=True)
        model.compress(Path(place) / "small", prune=0.01)


def command(name, path, *arguments):
    """Run a command in this process: exit code and standard output."""
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        code = main([name, str(path), *arguments])
    assert "Traceback" not in err.getvalue()
    return code, out.getvalue()
