"""LIBSVM files as labeltree writes them: read back the same, and nothing lost on the way."""

import os
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labeltree import InputError
from labeltree.data.dataset import Dataset
from labeltree.data.svm import read_svm, write_svm


def same(a, b):
    return a.shape == b.shape and (a != b).nnz == 0 and a.nnz == b.nnz


@pytest.fixture(scope="module")
def scratch(tmp_path_factory):
    return tmp_path_factory.mktemp("svm") / "random.svm"


@st.composite
def datasets(draw):
    rows, features, labels = draw(st.integers(1, 8)), draw(st.integers(1, 9)), draw(st.integers(1, 6))
    numbers = st.sampled_from([0, 0, 0, 1, -2.5, 0.1, 1e-40, 3.4028235e38, 16777216, 1.1754942e-38])
    X = draw(st.lists(st.lists(numbers, min_size=features, max_size=features), min_size=rows, max_size=rows))
    Y = np.array(
        draw(
            st.lists(st.lists(st.booleans(), min_size=labels, max_size=labels), min_size=rows, max_size=rows)
        )
    )
    names = None
    if draw(st.booleans()):
        letters = st.text(
            st.characters(exclude_characters=",:#\ufeff\x7f", exclude_categories=["Cs", "Cc", "Zs"])
        )
        Y[0] = True  # so that columns are in order of first appearance
        names = ["n", *draw(st.lists(letters.filter(bool), min_size=labels, max_size=labels, unique=True))][
            :labels
        ]
        names = [*dict.fromkeys(names), "0n", "1n", "2n"][:labels] if len(set(names)) < labels else names
    else:
        Y[-1, -1] = True  # so that there is a label, and the last shows how many there are
    return Dataset.from_matrices(X, Y, names)


@given(
    datasets(),
    st.booleans(),
    st.sampled_from([None, True, False]),
    st.sampled_from(["", ".gz", ".bz2", ".xz"]),
)
def test_what_is_written_is_read_back(scratch, data, header, one_based, suffix):
    path = scratch.with_suffix(suffix)
    write_svm(path, data, header=header, one_based=one_based)
    back = read_svm(path, one_based=True if header and one_based else None)
    assert same(back.X, data.X)
    assert same(back.Y, data.Y)
    assert back.label_names == data.label_names
    assert [p.name for p in scratch.parent.iterdir() if "partial" in p.name] == []


def test_header_keeps_labels_without_instances(tmp_path):
    data = Dataset.from_matrices([[1, 0], [0, 0]], [[1, 0, 0], [0, 0, 0]])
    write_svm(tmp_path / "a.svm", data, header=True)
    back = read_svm(tmp_path / "a.svm")
    assert same(back.X, data.X)
    assert same(back.Y, data.Y)


def test_values_are_written_in_the_fewest_digits(tmp_path):
    data = Dataset.from_matrices([[0.1, 1, 0.3333333333, 1e-9]], [[0, 1]])
    write_svm(tmp_path / "a.svm", data)
    assert (tmp_path / "a.svm").read_text() == "1 1:0.1 2:1 3:0.33333334 4:1e-09\n"


@pytest.mark.parametrize("name", ["", "a b", "a,b", "a:b", "a#", "a\n", "\ufeffa", "\x00"])
def test_names_that_cannot_be_written(tmp_path, name):
    data = Dataset.from_matrices([[1]], [[1, 1]])
    data = Dataset(data.X, data.Y, ("n", name))
    with pytest.raises(InputError, match="the label name"):
        write_svm(tmp_path / "a.svm", data)
    assert list(tmp_path.iterdir()) == []


def test_names_that_are_all_numbers_are_not_written(tmp_path):
    with pytest.raises(InputError, match="all label names are numbers"):
        write_svm(tmp_path / "a.svm", Dataset.from_matrices([[1]], [[1, 1]], ["10", "0"]))


def test_a_link_stays_a_link_and_a_pipe_a_pipe(tmp_path):
    data = Dataset.from_matrices([[0.5]], [[1]])
    (tmp_path / "link").symlink_to(tmp_path / "file")
    write_svm(tmp_path / "link", data)
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_text() == "0 1:0.5\n"
    os.mkfifo(tmp_path / "pipe")
    read = []
    reader = threading.Thread(target=lambda: read.append((tmp_path / "pipe").read_text()))
    reader.start()
    write_svm(tmp_path / "pipe", data)
    reader.join()
    assert read == ["0 1:0.5\n"]
    assert (tmp_path / "pipe").is_fifo()
