"""Damaged data files: small files of every format, random changes of their bytes, and what may happen."""

import bz2
import gzip
import lzma
import warnings
from unittest.mock import patch

import numpy as np
from helpers import read_documents
from mutations import pick

from labeltree import InputError, read_svm
from labeltree.data import svm

FILES = {
    "plain.svm": b"0,2 1:0.5 3:1e-3 # first\n\n1 2:1\n 4:-2.5\n# only a comment\n3,0 1:1 2:2 3:3\r\n",
    "header.svm": b"3 5 4\n0,2 0:0.5 3:1\n1 2:1\n3 4:0.25\n",
    "named.svm": "\ufeffcat,dog 1:1 7:2\nK\u00e4se 2:1\n12 3:1\n".encode(),
    "a.tsv": "1\tcat dog\tthe cat and the dog\n2\tdog\ta d\u00f6g, \U0001f600\n3\t\tnothing\n".encode(),
    "b.tsv": b"cat dog\tthe cat and the dog\ndog\tanother dog barks\n",
    "a.csv": b'id,text,labels\n1,"the cat, and ""the"" dog","cat,dog"\n2,"two\nlines here",dog\n',
    "a.jsonl": b'{"text": "the cat \\u00e9", "labels": ["cat", 7]}\n{"labels": "a,b", "text": "other"}\n',
}
TOKENS = [
    *(b"\0", b"\n", b"\r\n", b"\r", b"\t", b" ", b"1 2147483646 2147483646\n", b"999999999 5 5\n"),
    *b'\x1b[2J , : # " \\ { } [ ] -'.split(),
    *b"\xff \xc3 \xed\xa0\x80 \xef\xbb\xbf \xff\xfe \xfe\xff \xf4\x90\x80\x80 \xe2\x80\xa8".split(),
    *b"nan inf 1e400 1e-400 -0 +1 0x10 1_0 NaN null true Infinity".split(),
    *b"1000000000:1 2147483646:1 2147483647:1 4294967296:1 -1:1 0:1 1: :1 1:1:1".split(),
    *b"2147483645 99999999999999999999 \\ud800 \\u0000".split(),
    *(b"9" * 500, b"a" * 3000, b"[" * 3000, b'"' * 999, b"," * 2000),
    *(b"1:1 " * 300, b"\n" * 500, b"x," * 1500),
]
COMPRESSORS = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}


def mutate(rng):
    """Return the name of a data file, its changed content, and what was changed."""
    name = pick(rng, sorted(FILES))
    content = FILES[name]
    notes = []
    for _ in range(int(rng.integers(1, 5))):
        content, note = change(content, rng)
        notes.append(note)
    ending = pick(rng, ["", "", *COMPRESSORS])
    if ending:
        whole = content
        content = COMPRESSORS[ending](whole)
        if rng.random() < 0.3:
            content += COMPRESSORS[pick(rng, sorted(COMPRESSORS))](whole)
        if rng.random() < 0.6:
            content, note = change(content, rng)
            notes.append(f"{ending} {note}")
    if rng.random() < 0.1:
        name = pick(rng, sorted(FILES))
    return name + ending, content, ", ".join(notes)


def change(content, rng):
    data = bytearray(content)
    at, to = sorted(int(p) for p in rng.integers(0, len(data) + 1, 2))
    action = pick(rng, ["flip", "insert", "insert", "insert", "delete", "repeat", "cut", "swap", "utf-16"])
    if action == "flip" and data:
        data[min(at, len(data) - 1)] ^= 1 << int(rng.integers(8))
    elif action == "insert":
        token = pick(rng, TOKENS)
        data[at:at] = token
        return bytes(data), f"insert {token[:20]!r} at {at}"
    elif action == "delete":
        del data[at : min(to, at + 20)]
    elif action == "repeat":
        data[at:at] = data[at:to] * int(rng.integers(1, 20))
    elif action == "cut":
        del data[to:]
    elif action == "swap":
        data = data[to:] + data[at:to] + data[:at]
    elif action == "utf-16" and rng.random() < 0.2:
        return bytes(data).decode("latin1").encode(pick(rng, ["utf-16", "utf-16-be", "utf-32"])), action
    return bytes(data), f"{action} {at} {to}"


def outcome(path):
    """Read a file; "refused", or "read". Anything but an InputError is raised."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if ".svm" in path.name:
            found, other = (
                attempt(read) for read in (lambda: read_svm(path, threads=1), lambda: in_pieces(path))
            )
            assert type(found) is type(other)
            if isinstance(found, str):
                # Which part of a damaged archive is read first depends on the pieces, and so does a mark.
                assert found == other or path.suffix != ".svm" or "UTF-16" in found
                return "refused"
            for one, two in ((found.X, other.X), (found.Y, other.Y)):
                assert one.shape == two.shape
                assert (one != two).nnz == 0
            assert found.label_names == other.label_names
            return "read"
        found = attempt(lambda: read_documents(path, threads=1))
        return "refused" if isinstance(found, str) else "read"


def attempt(read):
    """Return the data, or the message of an InputError."""
    try:
        data = read()
    except InputError as error:
        message = str(error)
        assert len(message) < 3000
        return message
    assert np.isfinite(data.X.data).all()
    assert data.label_names is None or "".join(data.label_names).encode() is not None
    return data


def in_pieces(path):
    """Read a LIBSVM file in small pieces, which changes nothing."""
    with patch.multiple(svm, _PIECE_BYTES=7, _CHUNK_BYTES=5):
        return read_svm(path, threads=2)
