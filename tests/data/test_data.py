import numpy as np
import pytest
from scipy import sparse

from labeltree import InputError
from labeltree.data.dataset import Dataset, csr_arrays

X = np.array([[0.5, 0, 2], [0, -1, 0]])
Y = np.array([[1, 0], [1, 1]])


@pytest.mark.parametrize(
    "make",
    [
        np.array,
        np.matrix,
        np.ndarray.tolist,
        sparse.csr_matrix,
        sparse.csc_matrix,
        sparse.coo_array,
        sparse.csr_array,
        sparse.dok_matrix,
        lambda a: sparse.csr_matrix(a.astype(np.float64)),
        lambda a: np.asfortranarray(a),
    ],
)
@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
def test_any_matrix_is_accepted(make):
    data = Dataset.from_matrices(make(X), make(Y), ["a", "b"])
    assert type(data.X) is type(data.Y) is sparse.csr_matrix
    assert data.X.dtype == data.Y.dtype == np.float32
    assert data.X.indices.dtype == data.X.indptr.dtype == np.int32
    assert data.X.toarray().tolist() == X.tolist()
    assert data.Y.toarray().tolist() == Y.tolist()
    assert (data.n_instances, data.n_features, data.n_labels) == (2, 3, 2)
    assert data.label_names == ("a", "b")
    assert data.bytes == 4 * (3 + 3 + 3) + 4 * (3 + 3 + 3) + 4 * 3 + 8 * (2 + 1 + data.n_labels + 1)
    assert repr(data) == "Dataset(n_instances=2, n_features=3, n_labels=2)"


def test_no_copy_of_what_is_right_already():
    x, y = sparse.csr_matrix(X, dtype=np.float32), sparse.csr_array(Y)
    data = Dataset.from_matrices(x, y)
    assert np.shares_memory(data.X.data, x.data)
    assert np.shares_memory(data.X.indices, x.indices)
    assert np.shares_memory(data.Y.indices, y.indices)


def test_untidy_matrices_are_sorted_in_a_copy():
    values = np.array([1, 2, 3, 0, 5, -5], dtype=np.float32)
    indices, indptr = np.array([2, 0, 2, 1, 1, 1]), np.array([0, 4, 6])
    untidy = sparse.csr_matrix((values, indices, indptr), shape=(2, 3))
    untidy.has_sorted_indices = untidy.has_canonical_format = True  # a lie
    kept = untidy.indices.copy(), untidy.data.copy()
    data = Dataset.from_matrices(untidy, untidy)
    assert data.X.indices.tolist() == data.Y.indices.tolist() == [0, 2]
    assert data.X.data.tolist() == [2, 4]
    assert data.Y.data.tolist() == [1, 1]
    assert data.X.indptr.tolist() == [0, 2, 2]
    assert (untidy.indices == kept[0]).all()
    assert (untidy.data == kept[1]).all()


def test_wide_indices_are_narrowed():
    wide = sparse.csr_matrix(X)
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    assert Dataset.from_matrices(wide, Y).X.indices.dtype == np.int32


def broken():
    matrix = sparse.csr_matrix(X)
    matrix.indices, matrix.indptr = matrix.indices.astype(np.int64), matrix.indptr.astype(np.int64)
    matrix.indices[0] = 2**32  # 0 if cut to 32 bits
    return matrix


@pytest.mark.parametrize(
    ("x", "y", "names", "message"),
    [
        (X, Y[:1], None, "X has 2 rows and Y has 1"),
        ([[np.nan, 1, 2]] * 2, Y, None, "X contains NaN"),
        ([[1e39, 1, 2]] * 2, Y, None, "too large for float32"),
        (sparse.csr_matrix([[np.inf, 1]] * 2), Y, None, "X contains NaN, infinity"),
        (X, [[np.nan, 1]] * 2, None, "Y contains NaN"),
        (X * 1j, Y, None, "X has entries of type complex128, expected real numbers"),
        ([["a"], ["b"]], Y, None, "X has entries of type <U1"),
        (np.array([[None], [1]]), Y, None, "X has entries of type object"),
        ([[1], [1, 2]], Y, None, "X has rows of different lengths"),
        (
            X,
            [1, 0],
            None,
            "Y has 1 dimension, expected 2; pass one row per instance",
        ),
        (np.zeros((2, 2, 2)), Y, None, "X has 3 dimensions"),
        (sparse.coo_array([1, 0]), Y, None, "X has 1 dimension"),
        (sparse.csr_matrix((2, 2**31)), Y, None, "X has 2147483648 columns"),
        (broken(), Y, None, "X is not a valid sparse matrix"),
        (np.zeros((0, 3)), np.zeros((0, 2)), None, "the data has 0 instances"),
        (X, np.zeros((2, 0)), None, "0 labels"),
        (X, Y, ["a"], "there are 1 label names for 2 columns"),
        (X, Y, ["a", 1], "the label name 1 is not a string"),
        (X, Y, ["b", "b"], "the label name 'b' occurs twice"),
    ],
)
def test_what_is_refused(x, y, names, message):
    with pytest.raises(InputError) as error:
        Dataset.from_matrices(x, y, names)
    assert message in str(error.value)


def test_align_widens_integers():
    data = Dataset.from_matrices(X, Y)
    assert data.align(None, 2) is data
    assert data.align(None, 1) is data  # label 1 is beyond the model's
    wide = data.align(None, 5)
    assert wide.Y.shape == (2, 5)
    assert wide.Y.indices.tolist() == data.Y.indices.tolist()
    assert wide.X is data.X


def test_align_maps_names_and_keeps_unknown_ones_beyond():
    data = Dataset.from_matrices(X, Y, ["new", "b"])
    assert data.align(("new", "b"), 2) is data
    aligned = data.align(("a", "b", "c"), 3)
    assert aligned.label_names == ("a", "b", "c", "new")
    assert aligned.Y.toarray().tolist() == [[0, 0, 0, 1], [0, 1, 0, 1]]
    assert aligned.Y.has_sorted_indices
    assert data.Y.toarray().tolist() == Y.tolist()


def test_align_takes_a_number_for_the_name_that_spells_it():
    numbers = Dataset.from_matrices(X, Y).align(("1", "x"), 2)
    assert numbers.label_names == ("1", "x", "0")
    assert numbers.Y.toarray().tolist() == [[0, 0, 1], [1, 0, 1]]
    names = Dataset.from_matrices(X, Y, ["x", "1"]).align(None, 3)
    assert names.label_names == ("0", "1", "2", "x")
    assert names.Y.toarray().tolist() == [[0, 0, 0, 1], [0, 1, 0, 1]]


def test_csr_arrays_copy_only_what_differs():
    matrix = sparse.csr_matrix(X, dtype=np.float32)
    indptr, indices, data = csr_arrays(matrix)
    assert (indptr.dtype, indices.dtype, data.dtype) == (np.int64, np.int32, np.float32)
    assert np.shares_memory(indices, matrix.indices)
    assert np.shares_memory(data, matrix.data)
    assert indptr.tolist() == matrix.indptr.tolist()


# Arrays in files


def mapped(path, matrix, mode):
    """Return a matrix whose arrays are mapped from files."""
    for name in ("data", "indices", "indptr"):
        np.save(path / f"{name}.npy", getattr(matrix, name))
    arrays = [np.load(path / f"{name}.npy", mmap_mode=mode) for name in ("data", "indices", "indptr")]
    return sparse.csr_matrix(tuple(arrays), shape=matrix.shape)


def test_pages_of_files_are_released_and_read_again(tmp_path):
    X = sparse.random(500, 300, 0.1, "csr", np.float32, rng=np.random.default_rng(0))
    Y = sparse.csr_matrix(np.eye(500, 3))
    data = Dataset(mapped(tmp_path, X, "r"), Y)
    assert data.native is not None  # checks them
    data.release_pages()
    assert (data.X != X).nnz == 0


def test_changed_pages_are_not_released(tmp_path):
    X = sparse.random(500, 300, 0.1, "csr", np.float32, rng=np.random.default_rng(0))
    data = Dataset(mapped(tmp_path, X, "c"), sparse.csr_matrix(np.eye(500, 3)))
    data.X.data[:] = 7  # only in memory, not in the file
    assert data.native is not None
    data.release_pages()
    assert np.all(data.X.data == 7)
