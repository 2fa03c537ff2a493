import bz2
import gzip
import lzma
import os
import subprocess
import sys
import threading

import numpy as np
import pytest
import svm_twin
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from labeltree import InputError
from labeltree.data import svm
from labeltree.data.svm import read_svm

SMALL = [(1 << 20, 1 << 19), (64, 8), (7, 3), (1, 1)]  # bytes of a piece, of a chunk


def read_in_pieces(path, one_based, threads, piece_bytes, chunk_bytes):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(svm, "_PIECE_BYTES", piece_bytes)
        patch.setattr(svm, "_CHUNK_BYTES", chunk_bytes)
        return read_svm(path, one_based=one_based, threads=threads)


def same(a, b):
    return a.shape == b.shape and (a != b).nnz == 0 and a.nnz == b.nnz


def check_form(dataset):
    for matrix in (dataset.X, dataset.Y):
        fresh = sparse.csr_matrix((matrix.data, matrix.indices, matrix.indptr), shape=matrix.shape)
        assert fresh.has_canonical_format
        assert matrix.data.dtype == np.float32
        assert matrix.indices.dtype == matrix.indptr.dtype == np.int32
        assert matrix.data.all()
    assert dataset.X.shape[0] == dataset.Y.shape[0]


@pytest.fixture
def read(tmp_path):
    def read_text(text, **options):
        path = tmp_path / "train.svm"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        dataset = read_svm(path, **options)
        check_form(dataset)
        return dataset

    return read_text


@pytest.mark.parametrize(
    ("text", "x", "y"),
    [
        # plain; unsorted; zero-based; no labels; no features; blank; comments; zeros; spellings; indented
        ("2,1 2:0.5 3:-5e-1\n0 1:2\n", [[0, 0.5, -0.5], [2, 0, 0]], [[0, 1, 1], [1, 0, 0]]),
        ("1 3:4 1:2\n0 2:1", [[2, 0, 4], [0, 1, 0]], [[0, 1], [1, 0]]),
        ("1 0:4 1:2\n", [[4, 2]], [[0, 1]]),
        (" 1:1\n2:1\n0 1:1", [[1, 0], [0, 1], [1, 0]], [[0], [0], [1]]),
        ("0\n1\t2:1 \t\r\n", [[0, 0], [0, 1]], [[1, 0], [0, 1]]),
        ("0 1:1\n\n \n0 1:1\n\n\r\n \n", [[1], [0], [0], [1]], [[1], [0], [0], [1]]),
        ("# c\n0 1:1#c 2:1\n \t# c\n0 2:2 # c\n#", [[1, 0], [0, 2]], [[1], [1]]),
        ("0,0,1,0 1:0 3:-0 2:1e-60\n", [[0, 0, 0]], [[1, 1]]),
        ("\ufeff0 1:+.5 2:5. 3:1E1", [[0.5, 5, 10]], [[1]]),
        ("  0 1:1", [[1]], [[1]]),
    ],
)
def test_what_a_file_may_hold(read, text, x, y):
    data = read(text)
    assert data.X.toarray().tolist() == x
    assert data.Y.toarray().tolist() == y
    assert data.label_names is None


def test_names_are_numbered_in_order_of_appearance(read):
    data = read("7,cat 1:1\ndog,7,7 1:1\ncat,é\n")
    assert data.label_names == ("7", "cat", "dog", "é")
    assert data.Y.toarray().tolist() == [[1, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 1]]


@pytest.mark.parametrize("label", ["2147483647", "99999999999999999999999", "007", "-1", "+1", "1.0"])
def test_labels_that_are_not_plain_numbers_are_names(read, label):
    assert read(f"3 1:1\n{label} 1:1\n").label_names == ("3", label)


def test_header_gives_the_shape(read):
    data = read("3 5 9\n1 0:1\n\n2 1:1\n\n")
    assert data.X.shape == (3, 5)
    assert data.Y.shape == (3, 9)
    assert read("1 5 9\n1 5:1\n", one_based=True).X[0, 4] == 1
    assert read("2 5 9\n1 1:1\n\n\n").n_instances == 2  # a blank line at the end that the header needs


@pytest.mark.parametrize(
    ("text", "line", "fragment"),
    [
        ("1 1:1\n3,4 1:x\n", 2, "expected a number"),
        ("3 1:0.5:2\n", 1, "expected a number"),
        ("3 5:\n", 1, "expected a value"),
        ("3 5: 1:2\n", 1, "expected a value"),
        ("3 -4:1\n", 1, "expected an index of at least 0"),
        ("3 2147483647:1\n", 1, "expected an index of at most 2147483646"),
        ("3 99999999999999999999999:1\n", 1, "expected an index of at most 2147483646"),
        ("3 00000000000000000001:1\n", 1, "expected an index of at most 2147483646"),
        ("3 a:1\n", 1, "expected an integer before the colon"),
        ("3 :1\n", 1, "expected an integer before the colon"),
        ("3 4 1:1\n", 1, "expected index:value"),
        ("3 1:1 2:1 1:2\n", 1, "got feature 1 twice"),
        ("3 1:0 1:0\n", 1, "got feature 1 twice"),
        ("3 1:nan\n", 1, "finite"),
        ("3 1:-Inf\n", 1, "finite"),
        ("3 1:infinity\n", 1, "finite"),
        ("3 1:1e39\n", 1, "finite"),
        ("3 1:3.4028236e38\n", 1, "finite"),
        ("3 1:1e999999999999\n", 1, "finite"),
        ("3 1:1" + "0" * 50 + "\n", 1, "finite"),
        ("3 1:1e\n", 1, "number"),
        ("3 1:.\n", 1, "number"),
        ("3 1:0x10\n", 1, "number"),
        ("3,,4 1:1\n", 1, "expected a label on both sides"),
        ("3, 1:1\n", 1, "expected a label on both sides"),
        (",3 1:1\n", 1, "expected a label on both sides"),
        ("1 1:1\n" * 16 + "3 1:1 x\n" + "1 1:y\n" * 20, 17, "'x'"),
        (b"1 1:1\n\x00\x01 1:1\n", 2, "expected text in UTF-8"),
        (b"\x89PNG\r\n\x1a\n\x00", 1, "expected text in UTF-8"),
        (b"1 1:\xff\n", 1, "expected text in UTF-8"),
        (b"\xed\xa0\x80 1:1\n", 1, "expected text in UTF-8"),
        ("2 3 4\n1 1:1\n", 1, "the header declares 2 instances, but the file has 1"),
        ("1 3 4\n1 1:1\n1 1:1\n", 1, "the header declares 1 instances, but the file has 2"),
        (
            "1 3 4\n1 3:1\n",
            2,
            "the feature index 3 is out of range for the 3 features declared in the header",
        ),
        ("1 3 4\n4 1:1\n", 2, "the label 4 is out of range for the 4 labels declared in the header"),
        ("2 3 4\n4 1:1\n1 1:x\n", 2, "the label 4 is out of range"),
        ("", None, "the input is empty"),
        ("\n\n# comment\n", None, "the input is empty"),
        ("1:1\n 2:1\n", None, "no line has labels"),
        ("1 3 1\na,b 1:1\n", None, "2 different label names, expected at most 1"),
    ],
)
@pytest.mark.parametrize("threads", [1, 4])
def test_faults(tmp_path, text, line, fragment, threads):
    path = tmp_path / "train.svm"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    for sizes in SMALL:
        with pytest.raises(InputError) as error:
            read_in_pieces(path, None, threads, *sizes)
        message = str(error.value)
        assert message.startswith(f"{path}:{line}: " if line else f"{path}: ")
        assert fragment in message
        assert "\n" not in message


@pytest.mark.parametrize("compress", [bz2.compress, gzip.compress, lzma.compress])
def test_compressed(tmp_path, compress):
    path = tmp_path / "no-suffix"
    lines = "".join(f"{i % 7} {i % 11 + 1}:0.{i}\n" for i in range(500)).encode()
    path.write_bytes(compress(lines[:1000]) + compress(lines[1000:]))  # two members
    plain = tmp_path / "plain"
    plain.write_bytes(lines)
    expected = read_svm(plain)
    for sizes in SMALL[:2]:
        data = read_in_pieces(path, None, 2, *sizes)
        assert same(data.X, expected.X)
        assert same(data.Y, expected.Y)
    path.write_bytes(compress(b"1 1:1\n1 1:x\n"))
    with pytest.raises(InputError, match="no-suffix:2: expected a number"):
        read_svm(path)


def test_pipe(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_bytes, args=(gzip.compress(b"1 1:1\n0 2:3\n"),))
    writer.start()
    data = read_svm(path)
    writer.join()
    assert data.X.toarray().tolist() == [[1, 0], [0, 3]]


@pytest.mark.parametrize("path", ["-", "/dev/stdin"])
def test_standard_input(path):
    code = f"from labeltree.data.svm import read_svm; print(read_svm({path!r}))"
    done = subprocess.run(
        [sys.executable, "-c", code], input=b"1 1:1\n0 2:3\n", capture_output=True, check=True
    )
    assert done.stdout.decode().strip() == "Dataset(n_instances=2, n_features=2, n_labels=2)"
    done = subprocess.run([sys.executable, "-c", code], input=b"1 1:x\n", capture_output=True, check=False)
    assert ("standard input:1: expected" if path == "-" else "/dev/stdin:1: expected") in done.stderr.decode()


VALUES = st.one_of(
    st.floats(width=32, allow_nan=False, allow_infinity=False).map(repr),
    st.from_regex(r"\A[+-]?[0-9]{1,25}(\.[0-9]{0,25})?([eE][+-]?[0-9]{1,2})?\Z"),
    st.sampled_from(["16777217", "16777217.0000000001", "33554435", "1e-45", "7e-46", "3.40282357e38", "0"]),
)
GOOD = st.builds("{}:{}".format, st.integers(0, 30), VALUES)
LABEL_TOKENS = st.sampled_from(["0", "1", "5", "12", "0,1", "5,0,5", "b", "a,b", "3,a", "00", "é,2147483647"])
BAD = st.text("0123456789:,.-+eE#ax \t\r", max_size=12)
LINES = st.builds(
    lambda labels, features, end: " ".join([*labels, *features]) + end,
    st.lists(LABEL_TOKENS, max_size=1),
    st.lists(GOOD, max_size=6, unique_by=lambda token: token.split(":")[0]),
    st.sampled_from(["", "", "", " ", "\r", "#x", " # 1:1"]),
)
HEADERS = st.lists(
    st.builds("{} {} {}".format, st.integers(0, 9), st.integers(0, 40), st.integers(0, 20)), max_size=1
)


def check_against_twin(path, lines, one_based, end):
    text = "\n".join(lines) + end
    path.write_bytes(text.encode())
    try:
        X, Y, names = svm_twin.parse(text, one_based)
    except svm_twin.Fault as fault:
        where = f"{path}:{fault.line}: " if fault.line else ""
        for threads, sizes in ((1, SMALL[0]), (3, SMALL[1]), (4, SMALL[2])):
            with pytest.raises(InputError) as caught:
                read_in_pieces(path, one_based, threads, *sizes)
            assert str(caught.value).startswith(where)
        return
    for threads, sizes in ((1, SMALL[0]), (3, SMALL[1]), (4, SMALL[2])):
        data = read_in_pieces(path, one_based, threads, *sizes)
        check_form(data)
        assert same(data.X, X)
        assert same(data.Y, Y)
        assert data.label_names == names


@pytest.fixture(scope="module")
def scratch(tmp_path_factory):
    return tmp_path_factory.mktemp("svm") / "random.svm"


@given(
    HEADERS,
    st.lists(LINES, max_size=12),
    st.sampled_from([None, True, False]),
    st.sampled_from(["", "\n", "\n\n"]),
)
def test_random_files_agree_with_the_twin(scratch, header, lines, one_based, end):
    check_against_twin(scratch, header + lines, one_based, end)


@given(HEADERS, st.lists(LINES, max_size=5), st.lists(BAD, max_size=3), st.lists(LINES, max_size=5))
def test_random_faults_agree_with_the_twin(scratch, header, before, bad, after):
    check_against_twin(scratch, header + before + bad + after, None, "\n")


def test_the_base_of_a_file_is_remembered(read):
    assert read("0 1:1\n").one_based is True
    assert read("0 0:1\n").one_based is False
    assert read("1 5 9\n1 4:1\n").one_based is False
    assert read("0 1:1\n", one_based=False).one_based is False
    assert read("0 1:1\n").align(None, 5).one_based is True
    assert read("a 0:1\n").align(("b", "a"), 2).one_based is False
    with pytest.raises(InputError, match=r"train.svm:1: expected indices from 1"):
        read("1 1:1 0:1\n", one_based=True)


def test_labels_are_optional(read):
    data = read("1:1\n 2:1\n\n3:1\n", require_labels=False)
    assert data.X.shape == (4, 3)
    assert data.Y.shape == (4, 0)
    assert read("1:1\n2 2:1\n", require_labels=False).Y.shape == (2, 3)
    with pytest.raises(InputError, match="the input is empty"):
        read("", require_labels=False)


def test_label_numbers_with_huge_gaps_are_refused(tmp_path):
    path = tmp_path / "gaps.svm"
    path.write_text("1234567890 1:1\n3 2:1\n")
    with pytest.raises(
        InputError, match="the largest label number is 1234567890, but labels occur only 2 times"
    ):
        read_svm(path)
    path.write_text("1234 1:1\n3 2:1\n")
    assert read_svm(path).n_labels == 1235


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b"1 1:1\n2 1:1 # a\0comment\n3 1:1\n", 2),
        (b"1 1:1\n#\0\n3 1:1\n", 2),
        (b"# a long comment that fills several small pieces \0", 1),
        (b"1 1:1\n\n\0\n2 x\n", 3),
        (b"1 1:1\n2 \x001:1\n", 2),
    ],
)
def test_a_zero_byte_is_refused_wherever_a_piece_ends(tmp_path, content, line):
    path = tmp_path / "zero.svm"
    path.write_bytes(content)
    for pieces in SMALL:
        with pytest.raises(InputError, match=r"expected text in UTF-8, got '\\x00'") as caught:
            read_in_pieces(path, None, 2, *pieces)
        assert caught.value.line == line
