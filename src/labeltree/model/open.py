"""Open a model directory: read its files, and refuse what labeltree would not have written.

Every model passes through `read_parts`. Nothing in a directory is trusted, not even with correct checksums,
which anyone can compute; what follows relies on these checks. Their cost is proportional to the small
files; features and weights are mapped, and only read by `Model.verify`.
"""

from __future__ import annotations

import errno
import mmap
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from labeltree import _native
from labeltree.base.json import parse_json
from labeltree.base.limits import LARGEST_VALUE
from labeltree.base.system import available_memory, human_bytes
from labeltree.data.columns import Columns
from labeltree.data.tfidf import IDF_FILE, SETTINGS_FILE, TERMS_FILE, TextFeatures
from labeltree.errors import InputError, ResourceError
from labeltree.model import layout
from labeltree.model.blocks import NO_FLOATS, TreeBlocks
from labeltree.model.directory import ModelDirectory, read_manifest
from labeltree.model.manifest import RESTORE, Manifest
from labeltree.settings import CLEANING, TextSettings
from labeltree.trees.tree import LabelTree, pointers

# Of the data of an array in its file, in all versions of NumPy.
_ALIGNMENT = 16
# The header of a one-dimensional array after its length: what NumPy writes, padded with spaces.
_HEADER = re.compile(
    rb"\{'descr': '([<|][iuf][1248])', 'fortran_order': False, 'shape': \(([0-9]{1,18}),\), \} *\n"
)
# The largest absolute value of a stored weight, which is multiplied by a scale.
_LARGEST_STORED = {"float16": 65504.0, "int8": 128.0, layout.SPARSE: 128.0}


def read_parts(directory: ModelDirectory) -> tuple[Any, ...]:
    """Read and check a model: the arguments of `StoredModel`, with features and weights mapped."""
    path = directory.path
    manifest = read_manifest(path, directory)
    _check_memory(path, manifest)
    reader = ModelReader(directory, manifest)
    trees = tuple(_read_tree(reader, t, manifest) for t in range(len(manifest["trees"])))
    if "pruned" not in manifest:
        n_weights = sum(int(part.used_features @ part.tree.child_count) for part in trees)
        if n_weights != manifest["weights"]:
            what = f"the model has {n_weights:,} weights, but the manifest records {manifest['weights']:,}"
            raise _damaged(what, path)
    counts = reader.array(layout.LABEL_COUNTS, "<i8", manifest["labels"])
    if (counts < 0).any() or (counts > manifest["instances"]).any():
        what = f"a label has a number of instances that is not from 0 to {manifest['instances']:,}"
        raise _damaged(what, path / layout.LABEL_COUNTS)
    names = _read_names(reader, manifest["labels"]) if layout.LABEL_NAMES in manifest["files"] else None
    text = (
        read_text_features(reader, manifest["features"])
        if layout.TEXT_FILES[0] in manifest["files"]
        else None
    )
    thresholds = None
    if layout.THRESHOLDS in manifest["files"]:
        thresholds = reader.array(layout.THRESHOLDS, "<f4", manifest["labels"])
        if not ((thresholds >= 0) & (thresholds <= 1)).all():
            raise _damaged("a threshold is not from 0 to 1", path / layout.THRESHOLDS)
    return path, manifest, trees, counts, names, text, thresholds


def _check_memory(path: Path, manifest: Manifest) -> None:
    """Refuse small files that do not fit in memory: files with holes can be of any size."""
    needed = sum(entry["bytes"] for entry in manifest["files"].values() if "crc32c" in entry)
    available = available_memory()
    if needed > available:
        what = (
            f"not enough memory: opening the model needs {human_bytes(needed)}, "
            f"{human_bytes(available)} are available"
        )
        raise ResourceError(what, file=path, hint="use a machine with more memory")


def _read_tree(reader: ModelReader, number: int, manifest: Manifest) -> TreeBlocks:
    """Read the small arrays of a tree, and map its blocks."""
    folder, codec = layout.tree_folder(number), manifest["codec"]
    n_nodes, n_features = manifest["trees"][number]["nodes"], manifest["features"]
    has_bias = manifest["settings"]["bias"] != 0
    place = reader.path / folder
    files = {file.name: file for file in layout.tree_files(codec)}
    n_children = n_nodes - 1 + manifest["labels"]
    counts = {"node": n_nodes, "child": n_children}

    def read(name: str) -> NDArray[Any]:
        file = files[name]
        length = counts[file.per] + file.is_pointer
        return reader.array(f"{folder}/{name}", file.dtypes[codec], length, mapped=file.is_large)

    tree = LabelTree(read("child_ptr.npy"), read("children.npy"))
    _check_tree(tree, manifest["trees"][number]["depth"], place)
    counts["block"] = layout.Blocks.of(tree, codec).node.size
    counts["segment"] = counts["block"] * layout.n_segments(codec, n_features)
    feature_ptr = read("feature_ptr.npy")
    _check_feature_ptr(feature_ptr, codec, n_features, has_bias, place / "feature_ptr.npy")
    if codec == layout.SPARSE:
        weight_ptr = read("weight_ptr.npy")
        _check_pointers(weight_ptr, place / "weight_ptr.npy")
    else:
        n_weights = float(np.diff(feature_ptr).astype(np.float64) @ tree.child_count)
        if n_weights > 2.0**60:
            raise _damaged("there are too many weights", place / "feature_ptr.npy")
        weight_ptr = pointers(np.diff(feature_ptr) * tree.child_count)
    scales = biases = NO_FLOATS
    if layout.is_scaled(codec):
        scales, biases = read("scales.npy"), read("biases.npy")
        _check_scales(scales, biases, codec, has_bias, place)
    counts |= {"feature": int(feature_ptr[-1]), "weight": int(weight_ptr[-1])}
    blocks = feature_ptr, read("features.npy"), weight_ptr, read("weights.npy")
    return TreeBlocks(tree, codec, n_features, has_bias, *blocks, scales, biases, read("checksums.npy"))


def _check_tree(tree: LabelTree, depth: int, folder: Path) -> None:
    """Check that every node and every label is a child once, and that nodes are numbered breadth-first."""
    child_ptr, children = tree.child_ptr, tree.children
    _check_pointers(child_ptr, folder / "child_ptr.npy")
    if child_ptr[-1] != children.size:
        raise _damaged("the pointers do not end at the number of children", folder / "child_ptr.npy")
    if not tree.child_count.all():
        empty = int(np.argmin(tree.child_count))
        raise _damaged(f"node {empty} has no children", folder / "child_ptr.npy")
    inner = children >= 0
    nodes, labels = children[inner], ~children[~inner]
    if not np.array_equal(nodes, np.arange(1, tree.n_nodes)):
        raise _damaged("the nodes are not numbered breadth-first", folder / "children.npy")
    if (np.repeat(np.arange(tree.n_nodes), tree.child_count)[inner] >= nodes).any():
        raise _damaged("a node does not come after its parent", folder / "children.npy")
    if labels.max() >= labels.size or not np.bincount(labels, minlength=labels.size).all():
        raise _damaged("a label is missing or occurs twice", folder / "children.npy")
    if tree.depth != depth:
        what = f"the tree has depth {tree.depth:,}, but the manifest records {depth:,}"
        raise _damaged(what, folder)


def _check_feature_ptr(
    feature_ptr: NDArray[np.int64], codec: str, n_features: int, has_bias: bool, file: Path
) -> None:
    """Check that no block lists more features than there are, and that it has a row for the bias."""
    _check_pointers(feature_ptr, file)
    rows = np.diff(feature_ptr)
    n_bias_rows = int(has_bias and not layout.is_scaled(codec))
    most = n_features + n_bias_rows
    if codec == layout.SPARSE:
        most = min(n_features, 2**16)
    if (rows > most).any():
        raise _damaged("a node has more features than the data", file)
    if (rows < n_bias_rows).any():
        raise _damaged(f"node {int(np.argmin(rows))} has no weights of the bias", file)


def _check_pointers(ptr: NDArray[np.int64], file: Path) -> None:
    if ptr[0] != 0 or (ptr[1:] < ptr[:-1]).any():
        raise _damaged("the pointers do not start at 0, or decrease", file)


def _check_scales(
    scales: NDArray[np.float32], biases: NDArray[np.float32], codec: str, has_bias: bool, folder: Path
) -> None:
    with np.errstate(over="ignore"):
        largest = scales * np.float32(_LARGEST_STORED[codec])
    if not (np.isfinite(largest) & (scales >= 0)).all():
        raise _damaged("a scale is negative, not finite or too large", folder / "scales.npy")
    if not np.isfinite(biases).all():
        raise _damaged("a bias is not finite", folder / "biases.npy")
    if not has_bias and biases.any():
        raise _damaged("there are biases, but the model has none", folder / "biases.npy")


def _read_names(reader: ModelReader, n_labels: int) -> tuple[str, ...]:
    names = reader.json(layout.LABEL_NAMES)
    if not _are_strings(names, n_labels):
        raise _damaged(
            f"expected a name for each of the {n_labels:,} labels", reader.path / layout.LABEL_NAMES
        )
    if len(set(names)) != n_labels:
        raise _damaged("a name occurs twice", reader.path / layout.LABEL_NAMES)
    return tuple(names)


def _are_strings(values: Any, n_values: int) -> bool:
    return type(values) is list and len(values) == n_values and all(type(value) is str for value in values)


def _damaged(what: str, file: Path) -> InputError:
    return InputError(what, file=file, hint=RESTORE)


def read_text_features(reader: ModelReader, n_features: int) -> TextFeatures:
    """Read and check how a model computes features from text."""
    idf = reader.array(IDF_FILE, "<f8", n_features)
    if not ((idf >= 1 / LARGEST_VALUE) & (idf <= LARGEST_VALUE)).all():
        raise _damaged("the file contains invalid weights", reader.path / IDF_FILE)
    names, stored = reader.json(TERMS_FILE), reader.json(SETTINGS_FILE)
    if not (_are_strings(names, n_features) and len(set(names)) == n_features):
        raise _damaged(f"expected {n_features:,} distinct terms, one per feature", reader.path / TERMS_FILE)
    try:
        settings, columns = stored["tfidf"], Columns(**stored["columns"])
        if {*settings, *CLEANING} != {item.name for item in fields(TextSettings)}:
            raise ValueError(stored)
        return TextFeatures(TextSettings(**settings), tuple(names), idf, columns)
    except (AttributeError, KeyError, TypeError, ValueError):  # an InputError is a ValueError
        raise _damaged("the settings of TF-IDF are invalid", reader.path / SETTINGS_FILE) from None


class ModelReader:
    """The files of a complete model directory, each checked when it is read."""

    def __init__(self, directory: ModelDirectory, manifest: Manifest) -> None:
        self.path = directory.path
        self._directory = directory
        self._files = manifest["files"]

    @contextmanager
    def _checked(self, name: str) -> Iterator[BinaryIO]:
        """Open a file that has the size and the checksum of the manifest."""
        target, expected = self.path / name, self._files[name]
        try:
            with self._directory.open(name) as stream:
                size = os.fstat(stream.fileno()).st_size
                if size != expected["bytes"]:
                    what = f"the file has {size:,} bytes, but the manifest records {expected['bytes']:,}"
                    raise _damaged(what, target)
                if (
                    "crc32c" in expected
                    and _native.crc32c(np.fromfile(stream, np.uint8)) != expected["crc32c"]
                ):
                    raise _damaged("checksum mismatch: the file is damaged", target)
                stream.seek(0)
                yield stream
        except FileNotFoundError:
            raise _damaged("the file is missing from the model", target) from None
        except (MemoryError, OSError) as error:
            if isinstance(error, OSError) and error.errno != errno.ENOMEM:
                raise InputError(f"cannot be read ({error.strerror or error})", file=target) from None
            what = f"not enough memory to open the file of {human_bytes(expected['bytes'])}"
            hint = "raise the memory limit of the process, or use a machine with more memory"
            raise ResourceError(what, file=target, hint=hint) from None

    def array(self, name: str, dtype: str, length: int, *, mapped: bool = False) -> NDArray[Any]:
        """Read, or map, an array that must have this type and length."""
        with self._checked(name) as stream:
            start = _data_start(stream, self.path / name, layout.ArrayFile(dtype, length))
            if not mapped or not length:
                stream.seek(start)
                return np.fromfile(stream, dtype, length)
            mapping = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
            # Through a memory view: joblib would send an array on a map to other processes as the name of its
            # file, which may be another model by then, or none.
            return np.frombuffer(memoryview(mapping), dtype, length, start)

    def json(self, name: str) -> Any:
        """Read a file that is not an array."""
        with self._checked(name) as stream:
            content = stream.read()
        try:
            return parse_json(content)
        except ValueError as error:
            raise _damaged(f"the file cannot be read ({error})", self.path / name) from None


def _data_start(stream: BinaryIO, target: Path, expected: layout.ArrayFile) -> int:
    """Read the header of an array, which must be the expected one, and return where its data begins.

    Only the padding may differ. The header is not parsed as NumPy does it, which evaluates it as Python.
    """
    head = stream.read(10)
    rest = stream.read(int.from_bytes(head[8:], "little")) if head[:8] == b"\x93NUMPY\x01\x00" else b""
    found = _HEADER.fullmatch(rest)
    if not found:
        raise _damaged("not a NumPy array of one dimension", target)
    dtype, length = found[1].decode(), int(found[2])
    if (dtype, length) != (expected.dtype, expected.length):
        wanted = f"{expected.dtype}[{expected.length}]"
        raise _damaged(f"the array is {dtype}[{length}], expected {wanted}", target)
    start = len(head) + len(rest)
    n_bytes = start + length * np.dtype(dtype).itemsize
    if n_bytes != os.fstat(stream.fileno()).st_size or start % _ALIGNMENT:
        raise _damaged("the header is damaged", target)
    return start
