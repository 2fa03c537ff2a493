"""A dataset: sparse features, sparse labels, and the names of the labels."""

from __future__ import annotations

import mmap
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from labeltree import _native
from labeltree.base.limits import LARGEST_INT32
from labeltree.errors import InputError

if TYPE_CHECKING:
    from labeltree.data.tfidf import TextFeatures


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """Instances with their features and labels.

    Create one with `from_matrices`, `labeltree.read_data` or `labeltree.read_svm`, which validate their
    input.

    Parameters
    ----------
    X : scipy.sparse.csr_matrix of float32, shape (n_instances, n_features)
        Sorted indices, no duplicates, no explicit zeros, every value finite.
    Y : scipy.sparse.csr_matrix of float32, shape (n_instances, n_labels)
        1 where the instance has the label; sorted indices, no duplicates.
    label_names : tuple of str or None
        A name for each column of Y; None if labels are the integers 0 to n_labels - 1.
    one_based : bool or None
        Whether the file it was read from numbers features from 1; None if it was not read from a file. Other
        files of the same data should be read the same way.
    text : TextFeatures or None
        How X was computed from documents, if it was. A model stores it, to predict labels of other documents.
    n_skipped : int
        Documents of the file that have no text and are not among the instances.
    normalized : bool
        Whether all rows of X have length 1 by `normalize`. A model stores it, and scales its queries.
    n_dropped : int
        Labels that `drop_rare` removed, because they have fewer than `least_rows`.
    notes : tuple of str
        Sentences about what was found when it was read, such as documents with the same ID.
    """

    X: sparse.csr_matrix
    Y: sparse.csr_matrix
    label_names: tuple[str, ...] | None = None
    one_based: bool | None = None
    text: TextFeatures | None = None
    n_skipped: int = 0
    normalized: bool = False
    n_dropped: int = 0
    least_rows: int = 1
    notes: tuple[str, ...] = ()

    @classmethod
    def from_matrices(cls, X: Any, Y: Any, label_names: Iterable[str] | None = None) -> Dataset:
        """Create a dataset from matrices, copying only what has to change.

        Parameters
        ----------
        X : sparse matrix or array-like, shape (n_instances, n_features)
            Real, finite numbers. Duplicate entries of a sparse matrix are summed, as SciPy does.
        Y : sparse matrix or array-like, shape (n_instances, n_labels)
            An instance has the labels whose entries are non-zero.
        label_names : iterable of str, optional
            A unique name for each column of Y.

        Returns
        -------
        Dataset

        Examples
        --------
        >>> Dataset.from_matrices([[0.5, 0], [0, 2]], [[1, 0, 1], [0, 1, 0]])
        Dataset(n_instances=2, n_features=2, n_labels=3)
        """
        features, flags = canonical_csr(X, "X"), canonical_csr(Y, "Y")
        if features.shape[0] != flags.shape[0]:
            what = f"X has {features.shape[0]} rows and Y has {flags.shape[0]}"
            raise InputError(what, hint="pass one row per instance in both")
        if features.shape[0] == 0 or flags.shape[1] == 0:
            raise InputError(
                f"the data has {features.shape[0]} instances and {flags.shape[1]} labels, expected at least "
                "one of each"
            )
        ones = np.ones(flags.nnz, dtype=np.float32)
        names = None if label_names is None else _checked_names(label_names, flags.shape[1])
        return cls(features, wrap_csr(ones, flags.indices, flags.indptr, flags.shape), names)

    @property
    def n_instances(self) -> int:
        """int: Number of rows of X and Y."""
        return int(self.X.shape[0])

    @property
    def n_features(self) -> int:
        """int: Number of columns of X."""
        return int(self.X.shape[1])

    @property
    def n_labels(self) -> int:
        """int: Number of columns of Y."""
        return int(self.Y.shape[1])

    @cached_property
    def by_label(self) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Y by columns: (ptr, instances); label j has the instances ``instances[ptr[j]:ptr[j + 1]]``."""
        columns = self.Y.tocsc()
        return columns.indptr.astype(np.int64), columns.indices.astype(np.int32, copy=False)

    @cached_property
    def native(self) -> _native.TrainingData:
        """The arrays as the kernels take them, checked once. They must not be changed afterwards."""
        arrays = csr_arrays(self.X)
        is_mapped = all(_file_map(array) is not None for array in arrays[1:])
        return _native.TrainingData(*arrays, self.n_features, *self.by_label, is_mapped)

    def release_pages(self) -> None:
        """Release the memory of arrays that are mapped from files; they are read again when needed."""
        for array in (self.X.indices, self.X.data, self.Y.indices, *self.by_label):
            mapped = _file_map(array)
            if mapped is not None:
                with suppress(OSError):  # locked pages stay
                    mapped.madvise(mmap.MADV_DONTNEED)

    def fingerprint(self) -> int:
        """Return a checksum of everything that a model depends on: features, labels, names and text."""
        names = [] if self.label_names is None else self.label_names
        texts = [name.encode(errors="surrogatepass") + b"\0" for name in names]
        texts += self.text.contents.values() if self.text else ()
        crc = _native.crc32c(np.frombuffer(b"".join(texts), np.uint8))
        for array in (*csr_arrays(self.X), *self.by_label):
            crc = _native.crc32c(array.view(np.uint8), crc)
        return crc

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in ("native", "_scaled")}

    @property
    def bytes(self) -> int:
        """int: Memory that the arrays take, including those of ``by_label``, ``text`` and ``normalize``."""
        rows = sum(m.data.nbytes + m.indices.nbytes + m.indptr.nbytes for m in (self.X, self.Y))
        text = 0 if self.text is None else self.text.memory
        scaled = self.__dict__.get("_scaled", self)
        values = 0 if scaled.X is self.X else scaled.X.data.nbytes
        return int(rows + 4 * self.Y.nnz + 8 * (self.n_instances + 1 + self.n_labels + 1) + text + values)

    def __repr__(self) -> str:
        return (
            f"Dataset(n_instances={self.n_instances}, n_features={self.n_features}, n_labels={self.n_labels})"
        )

    def normalize(self) -> Dataset:
        """Scale the rows of X to length 1.

        A row whose squared length is within 0.002 of 1 is not changed, so that TF-IDF stays as it is, even
        read from a text file with a few digits; nor is a row without features.

        Returns
        -------
        Dataset
            With ``normalized=True``, also if no row changes; it is computed once, and shares all arrays but
            the values of X, if these change. The same object if it is normalized already, or has TF-IDF of
            documents: their rows have length 1, also those of queries.

        Examples
        --------
        >>> data = Dataset.from_matrices([[3, 4], [0, 1]], [[1, 0], [0, 1]])
        >>> data.normalize().X.toarray().tolist()
        [[0.6000000238418579, 0.800000011920929], [0.0, 1.0]]
        >>> data.normalized, data.normalize().normalized
        (False, True)
        """
        return self if self.normalized else self._scaled

    @cached_property
    def _scaled(self) -> Dataset:
        X = unit_rows(self.X)
        if X is self.X and self.text is not None:
            return self
        scaled = replace(self, X=X, normalized=True)
        scaled.__dict__["by_label"] = self.by_label
        if X is self.X:
            scaled.__dict__["native"] = self.native
        return scaled

    def widen(self, n_features: int) -> Dataset:
        """Return the data with at least so many features; those that a file does not mention are 0."""
        if self.n_features >= n_features:
            return self
        X = wrap_csr(self.X.data, self.X.indices, self.X.indptr, (self.n_instances, n_features))
        return replace(self, X=X)

    def take(self, rows: NDArray[Any]) -> Dataset:
        """Return some rows, by number, with all features and labels."""
        return replace(self, X=self.X[rows], Y=self.Y[rows])

    def drop_rare(self, n_rows: int) -> Dataset:
        """Return the data without labels that have fewer rows; the rows stay, with their other labels."""
        kept = np.flatnonzero(np.diff(self.by_label[0]) >= n_rows)
        if n_rows <= 1 or kept.size == self.n_labels:
            return self
        if not kept.size:
            what = f"no label has {n_rows:,} rows"
            raise InputError(what, hint="lower {min_label_count}")
        names = (
            map(str, kept.tolist()) if self.label_names is None else map(self.label_names.__getitem__, kept)
        )
        dropped = self.n_labels - kept.size
        return replace(
            self, Y=self.Y[:, kept], label_names=tuple(names), n_dropped=dropped, least_rows=n_rows
        )

    def align(self, label_names: Sequence[str] | None, n_labels: int) -> Dataset:
        """Reorder the columns of Y to match the labels of a model.

        Labels that the model does not know get columns after the model's: they can never be predicted, and
        count as missed. The number 5 and the name "5" are the same label.

        Parameters
        ----------
        label_names : sequence of str or None
            The model's label names; None if its labels are integers.
        n_labels : int
            The model's number of labels.

        Returns
        -------
        Dataset
            With the same X, and at least `n_labels` columns in Y.
        """
        if label_names is None and self.label_names is None:
            if self.n_labels >= n_labels:
                return self
            Y = wrap_csr(self.Y.data, self.Y.indices, self.Y.indptr, (self.n_instances, n_labels))
            return replace(self, Y=Y)
        known = tuple(map(str, range(n_labels)) if label_names is None else label_names)
        if known == self.label_names:
            return self
        columns = {name: column for column, name in enumerate(known)}
        used, positions = np.unique(self.Y.indices, return_inverse=True)
        mine = [str(c) if self.label_names is None else self.label_names[c] for c in used.tolist()]
        target = np.array(
            [columns.setdefault(name, len(columns)) for name in mine], dtype=self.Y.indices.dtype
        )
        Y = wrap_csr(self.Y.data, target[positions], self.Y.indptr, (self.n_instances, len(columns)))
        Y.sort_indices()
        return replace(self, Y=Y, label_names=tuple(columns))


def _file_map(array: NDArray[Any]) -> mmap.mmap | None:
    """Return the map of a file that an array is a part of; None if it is in memory, or writable."""
    source: Any = array
    while isinstance(source, np.ndarray) and not isinstance(source.base, mmap.mmap):
        source = source.base
    return source.base if isinstance(source, np.memmap) and source.mode == "r" else None  # type: ignore[return-value]


def csr_arrays(matrix: sparse.csr_matrix) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]]:
    """Return indptr, indices and data as the kernels take them, copied only if type or layout differ.

    The matrix must have fewer than 2**31 columns, as in every Dataset.
    """
    return (
        np.ascontiguousarray(matrix.indptr, dtype=np.int64),
        np.ascontiguousarray(matrix.indices, dtype=np.int32),
        np.ascontiguousarray(matrix.data, dtype=np.float32),
    )


def wrap_csr(
    data: NDArray[np.float32], indices: NDArray[Any], indptr: NDArray[Any], shape: tuple[int, int]
) -> sparse.csr_matrix:
    """Make a csr_matrix that shares these arrays, with int32 indices if possible."""
    # SciPy needs one type for both and would widen the longer array to the type of the shorter.
    dtype = np.int32 if len(data) <= LARGEST_INT32 and max(shape) <= LARGEST_INT32 else np.int64
    indices, indptr = indices.astype(dtype, copy=False), indptr.astype(dtype, copy=False)
    return sparse.csr_matrix((data, indices, indptr), shape=shape, copy=False)


def canonical_csr(matrix: Any, name: str) -> sparse.csr_matrix:
    """Return a matrix in the form of `Dataset.X`, validated; messages call it `name`, "X" or "Y"."""
    if not sparse.issparse(matrix):
        try:
            matrix = np.asarray(matrix)
        except ValueError:
            what, hint = f"{name} has rows of different lengths", "pass rows of equal length"
            raise InputError(what, hint=hint) from None
    if matrix.ndim != 2:
        column = "label" if name == "Y" else "feature"
        what = f"{name} has {matrix.ndim} dimension{'s' * (matrix.ndim != 1)}, expected 2"
        raise InputError(what, hint=f"pass one row per instance and one column per {column}")
    if matrix.dtype.kind not in "biuf":
        raise InputError(f"{name} has entries of type {matrix.dtype}, expected real numbers")
    if matrix.shape[1] > LARGEST_INT32:
        raise InputError(f"{name} has {matrix.shape[1]} columns, expected fewer than 2**31")
    try:
        given = sparse.csr_matrix(matrix)  # shares the arrays of a matrix that is in CSR format already
        given.check_format(full_check=True)
    except ValueError as error:
        raise InputError(f"{name} is not a valid sparse matrix ({error})") from None
    with np.errstate(over="ignore"):  # found below, as an infinite value
        data = given.data.astype(np.float32, copy=False)
    # A new object, so that SciPy checks whether indices are sorted instead of trusting a stale flag.
    csr = wrap_csr(data, given.indices, given.indptr, given.shape)
    if not csr.has_canonical_format or not csr.data.all():
        csr = csr.copy()
        csr.sum_duplicates()
        csr.eliminate_zeros()
    if not np.isfinite(csr.data).all():
        what = f"{name} contains NaN, infinity or a number too large for float32"
        raise InputError(what, hint="replace or remove them")
    return csr


def _checked_names(label_names: Iterable[str], n_labels: int) -> tuple[str, ...]:
    names = tuple(label_names)
    if len(names) != n_labels:
        raise InputError(f"there are {len(names)} label names for {n_labels} columns of Y")
    wrong = next((name for name in names if not isinstance(name, str)), None)
    if wrong is not None:
        raise InputError(f"the label name {wrong!r} is not a string")
    try:
        "".join(names).encode()
    except UnicodeEncodeError:
        what = "a label name contains an unpaired surrogate"
        raise InputError(what, hint="use valid Unicode text") from None
    if len(set(names)) != len(names):
        twice = Counter(names).most_common(1)[0][0]
        raise InputError(f"the label name {twice!r} occurs twice", hint="rename one of the labels")
    return names


# A squared length that differs from 1 by no more than this is one of rounded values, as in a text file with
# four digits: such a row is left as it is. docs/model-format.md has the same number.
TOLERANCE = _native.UNIT_TOLERANCE


def unit_rows(X: sparse.csr_matrix) -> sparse.csr_matrix:
    """Scale rows to length 1, except those that have it already and those without values.

    Returns the same object if no row changes. Otherwise a matrix with other values that shares the indices;
    if a value becomes too small for float32, it has its own indices without that entry.
    """
    values = unit_values(X.indptr, X.data)
    if values is X.data:
        return X
    scaled = sparse.csr_matrix((values, X.indices, X.indptr), shape=X.shape, copy=False)
    if not values.all():
        scaled = scaled.copy()
        scaled.eliminate_zeros()
    return scaled


def unit_values(indptr: NDArray[Any], values: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the values of all rows, scaled as in `unit_rows`; the same array if none changes."""
    scaled = _native.unit_rows(
        np.ascontiguousarray(indptr, np.int64), np.ascontiguousarray(values, np.float32)
    )
    return values if scaled is None else scaled
