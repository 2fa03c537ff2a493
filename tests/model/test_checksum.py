"""CRC-32C against a plain table twin and published vectors."""

import numpy as np
import pytest
from helpers import run_portable
from hypothesis import given
from hypothesis import strategies as st

from labeltree import _native
from labeltree._native import crc32c


def make_table():
    table = []
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
        table.append(crc)
    return table


TABLE = make_table()


def twin(content, before=0):
    crc = before ^ 0xFFFFFFFF
    for byte in content:
        crc = crc >> 8 ^ TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def checksum(content, before=0):
    return crc32c(np.frombuffer(content, np.uint8), before)


# RFC 3720, B.4, and the check value of the catalog of CRC algorithms.
VECTORS = {
    b"": 0,
    b"123456789": 0xE3069283,
    bytes(32): 0x8A9136AA,
    b"\xff" * 32: 0x62A8AB43,
    bytes(range(32)): 0x46DD794E,
    bytes(range(31, -1, -1)): 0x113FDB5C,
}


@pytest.mark.parametrize("content", VECTORS)
def test_published_vectors(content):
    assert checksum(content) == twin(content) == VECTORS[content]


@given(st.binary(max_size=100), st.integers(0, 2**32 - 1))
def test_equals_its_twin(content, before):
    assert checksum(content, before) == twin(content, before)


def test_does_not_depend_on_alignment():
    content = np.random.default_rng(0).integers(0, 256, 4000, np.uint8)
    for start in range(9):
        for size in (0, 1, 7, 8, 9, 63, 3000):
            piece = content[start : start + size]
            assert crc32c(piece) == twin(piece.tobytes())


def checksums_of_pieces():
    content = np.random.default_rng(1).integers(0, 256, 5000, np.uint8)
    return [crc32c(content[a:b]) for a in range(9) for b in (a, a + 1, a + 8, a + 15, 4990)]


def test_portable_code_agrees():
    script = "from test_checksum import checksums_of_pieces; print(checksums_of_pieces())"
    assert run_portable(script).strip() == str(checksums_of_pieces())


def test_only_bytes_are_taken():
    for wrong in (np.zeros(4, np.int32), np.zeros((2, 2), np.uint8), np.zeros(8, np.uint8)[::2]):
        with pytest.raises(TypeError):
            crc32c(wrong)


def blocks():
    features = np.arange(7, dtype=np.int32)
    weights = np.linspace(-1, 1, 12).astype(np.float32)
    feature_ptr, weight_ptr = np.array([0, 2, 2, 7]), np.array([0, 4, 4, 12])
    checksums = [
        twin(features[a:b].tobytes() + weights[c:d].tobytes())
        for a, b, c, d in ((0, 2, 0, 4), (2, 2, 4, 4), (2, 7, 4, 12))
    ]
    checksums = np.array(checksums, np.uint32)
    lists = feature_ptr, features.view(np.uint8), weight_ptr, weights.view(np.uint8)
    return ["float32", *lists, checksums, 7, False]


def damaged_blocks(codec, *arguments):
    names = ["feature_ptr", "features", "weight_ptr", "weights"]
    names += ["checksums", "n_features", "has_bias", "threads"]
    return _native.damaged_blocks(codec, **dict(zip(names, arguments, strict=True)))


@pytest.mark.parametrize("threads", [1, 3])
def test_damaged_blocks_are_named(threads):
    damaged, fault = damaged_blocks(*blocks(), threads)
    assert (damaged.tolist(), fault) == ([], None)
    for argument, place, node in [(2, 0, 0), (2, 6, 2), (4, 3, 0), (4, 4, 2), (5, 1, 1)]:
        changed = blocks()
        changed[argument].view(np.uint32)[place] ^= 1
        assert damaged_blocks(*changed, threads)[0].tolist() == [node]


@pytest.mark.parametrize("threads", [1, 3])
def test_contents_that_no_writer_stores_are_found(threads):
    unsorted = "features are out of order or out of range"
    for place, value, node in [(0, 1, 0), (0, -1, 0), (1, 7, 0), (6, 7, 2), (4, 3, 2)]:
        changed = blocks()
        changed[2].view(np.int32)[place] = value
        assert damaged_blocks(*changed, threads)[1] == (node, unsorted)
    for place, value, node in [(0, np.nan, 0), (3, np.inf, 0), (4, -np.inf, 2), (11, np.nan, 2)]:
        changed = blocks()
        changed[4].view(np.float32)[place] = value
        assert damaged_blocks(*changed, threads)[1] == (node, "a weight is not finite")
    changed = blocks()
    changed[4] = changed[4].view(np.float32).astype(np.float16).view(np.uint8)
    changed[0] = "float16"
    assert damaged_blocks(*changed, threads)[1] is None
    changed[4].view(np.float16)[5] = np.nan
    assert damaged_blocks(*changed, threads)[1] == (2, "a weight is not finite")
    changed = blocks()
    changed[-1] = True
    assert damaged_blocks(*changed, threads)[1] == (0, "the weights of the bias are missing")
    changed[0], changed[4] = "int8", np.zeros(12, np.uint8)
    assert damaged_blocks(*changed, threads)[1] is None  # the bias is not in the list


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        (1, np.array([0, 2, 2, 8])),
        (1, np.array([0, 3, 2, 7])),
        (1, np.array([0, 2, 7])),
        (3, np.array([1, 4, 4, 12])),
        (3, np.array([0, 4, 4, 11])),
        (5, np.zeros(2, np.uint32)),
        (0, "float64"),
    ],
)
def test_pointers_that_do_not_fit_are_refused(argument, value):
    arguments = blocks()
    arguments[argument] = value
    with pytest.raises(ValueError, match="must"):
        damaged_blocks(*arguments, 1)
