"""A trained model: opened from its directory, mapped into memory, ready to predict and to be looked at."""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from labeltree import _native, metrics
from labeltree.data import Dataset
from labeltree.errors import InputError
from labeltree.plan import describe_depths, weight_pointers
from labeltree.predict import as_matrix, check_queries
from labeltree.progress import Progress
from labeltree.store import ModelReader, read_manifest
from labeltree.system import available_memory, threads_to_use
from labeltree.text.tfidf import SETTINGS_FILE, TextFeatures
from labeltree.tree import LabelTree


@dataclass(frozen=True, eq=False)
class TreeBlocks:
    """One tree of a model and its blocks, mapped from disk."""

    tree: LabelTree
    feature_ptr: NDArray[np.int64]
    features: NDArray[np.int32]
    weight_ptr: NDArray[np.int64]
    weights: NDArray[np.float32]
    checksums: NDArray[np.uint32]

    @property
    def arrays(
        self,
    ) -> tuple[
        NDArray[np.int64],
        NDArray[np.int32],
        NDArray[np.int64],
        NDArray[np.int32],
        NDArray[np.int64],
        NDArray[np.float32],
    ]:
        """The tree and its blocks as the search takes them."""
        shape = self.tree.child_ptr, self.tree.children
        return *shape, self.feature_ptr, self.features, self.weight_ptr, self.weights


class Model:
    """A trained model. Use ``labeltree.load`` to open one.

    Attributes
    ----------
    path : Path or None
        Its directory; None where it has none: fitted by an estimator and not saved, or unpickled.
    manifest : dict
        What ``manifest.json`` says: shapes, settings, versions, files.
    features, labels, instances : int
        The shape of what it was trained on.
    label_names : tuple of str or None
        Names of the labels; None where labels are integers.
    one_based : bool or None
        Whether the file it was trained on numbers features from 1; None where it was no file.
    label_counts : ndarray of int64
        Training instances of each label.
    trees : tuple of TreeBlocks
    text : TextFeatures or None
        How features are made of texts, if it was trained on texts: ``model.text.transform(texts)``.
    """

    def __init__(
        self,
        path: Path | None,
        manifest: dict[str, Any],
        trees: tuple[TreeBlocks, ...],
        label_counts: NDArray[np.int64],
        label_names: tuple[str, ...] | None,
        text: TextFeatures | None = None,
    ) -> None:
        self.path = path
        self.manifest = manifest
        self.trees = trees
        self.label_counts = label_counts
        self.label_names = label_names
        self.text = text
        self.n_instances: int = manifest["instances"]
        self.n_features: int = manifest["features"]
        self.n_labels: int = manifest["labels"]
        self.one_based: bool | None = manifest.get("one_based")
        self.bias: float = manifest["settings"]["bias"]

    def __repr__(self) -> str:
        shape = f"{self.n_features:,} features, {self.n_labels:,} labels, {len(self.trees)} tree(s)"
        return f"<labeltree.Model {self.path or '(unsaved)'}: {shape}>"

    def __getstate__(self) -> dict[str, Any]:
        """What pickle keeps: the arrays, in full. The copy is held in memory and has no directory."""
        return {**{key: value for key, value in vars(self).items() if key != "_search"}, "path": None}

    @property
    def bytes(self) -> int:
        """Size of the model directory without its manifest."""
        return sum(entry["bytes"] for entry in self.manifest["files"].values())

    def file(self, name: str) -> str:
        """How messages call a file of this model, or a folder."""
        return f"{name} of an unsaved model" if self.path is None else str(self.path / name)

    @cached_property
    def _search(self) -> _native.BeamSearch:
        return _native.BeamSearch(
            [part.arrays for part in self.trees], self.n_features, self.n_labels, self.bias
        )

    def predict(
        self, X: Any, *, top: int = 5, beam: int = 10, score: str = "sigmoid", threads: int | None = None
    ) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """The best labels of each row by beam search.

        Parameters
        ----------
        X : sparse matrix or array, rows x features
            Features beyond those of the model are ignored, with a warning. A row without features, which is
            predicted from the bias, gets no label if the model is of texts: no word of it is known.
        top : int, default 5
            Labels to return for a row (k).
        beam : int, default 10
            Nodes kept at each depth; as wide as the tree, it gives the exhaustive ranking.
        score : {"sigmoid", "hinge2", "hinge3"}
            How a margin s becomes a score: sigmoid(3 s), or exp(-max(0, 1 - s)^p) with p = 2 or 3.
        threads : int, optional
            All usable processors unless given.

        Returns
        -------
        labels : ndarray of int32, rows x top
            Best first; -1 where fewer labels were reached.
        scores : ndarray of float32, rows x top
            In (0, 1], the mean over the model's trees; 0 where the label is -1.
        """
        queries = check_queries(X, top=top, beam=beam, score=score, threads=threads)
        if queries.n_features > self.n_features:
            warnings.warn(
                f"The data has {queries.n_features:,} features, the model {self.n_features:,}; "
                "the others are ignored.",
                stacklevel=2,
            )
        top = min(top, self.n_labels)
        # One row needs no second thread, and to ask how many there are would take longer than to answer it.
        workers = 1 if queries.n_rows == 1 else threads_to_use(threads)
        labels, scores = self._search.search(*queries.arrays, beam, top, score, workers)
        labels, scores = labels.reshape(queries.n_rows, top), scores.reshape(queries.n_rows, top)
        if self.text is not None:
            unknown = np.diff(queries.arrays[0]) == 0
            labels[unknown], scores[unknown] = -1, 0
        return labels, scores

    def predict_matrix(self, X: Any, **options: Any) -> sp.csr_matrix:
        """Like ``predict``, as a sparse matrix of scores, rows x labels."""
        return as_matrix(*self.predict(X, **options), self.n_labels)

    def judge(
        self, dataset: Dataset, predicted: NDArray[np.int32], ks: Sequence[int] = (1, 3, 5)
    ) -> dict[str, float]:
        """Compare predicted labels with the true ones, by every metric.

        Parameters
        ----------
        dataset : Dataset
            The true labels. Those that the model does not know are missed.
        predicted : ndarray of int32, rows x top
            What ``predict`` returned for ``dataset.X``.
        ks : sequence of int
            The ranks at which to cut.

        Returns
        -------
        dict of str to float
            As from `labeltree.metrics.evaluate`: fractions, the propensities from the training labels.
        """
        truth = dataset.align(self.label_names, self.n_labels).Y
        missing = max(0, max(ks) - predicted.shape[1])  # fewer labels in the model than ranks asked for
        ranked = np.pad(predicted, ((0, 0), (0, missing)), constant_values=-1)
        return metrics.evaluate(truth, ranked, ks, metrics.propensities(self.label_counts, self.n_instances))

    def depths(self, tree: int = 0) -> list[dict[str, Any]]:
        """Describe a tree depth by depth: nodes, children, mean used features, alpha, weights."""
        part = self.trees[tree]
        return describe_depths(part.tree, np.diff(part.feature_ptr) - (self.bias != 0))

    def block(self, node: int, tree: int = 0) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Look at one node: its features, sorted, and its weights, features x children.

        Both are mapped from disk. With a bias, the last feature is ``self.features``: the constant one.
        """
        part = self.trees[tree]
        if not 0 <= node < part.tree.n_nodes:
            raise InputError(f"Tree {tree} has nodes 0 to {part.tree.n_nodes - 1}, but got {node}.")
        features = part.features[part.feature_ptr[node] : part.feature_ptr[node + 1]]
        weights = part.weights[part.weight_ptr[node] : part.weight_ptr[node + 1]]
        return features, weights.reshape(features.size, part.tree.child_count[node])

    def prune(
        self,
        threshold: float,
        path: Path | str,
        *,
        overwrite: bool = False,
        progress: Progress | None = None,
    ) -> Model:
        """Write a copy of the model in which every weight smaller than a threshold is zero.

        The weights of the bias are pruned like all others, as PECOS and omikuji do. A feature whose weights
        in a node all became zero is dropped from that node, so the copy is smaller; the rest of a block
        stays dense. Memory does not grow with the model, and the copy appears when it is complete.

        Parameters
        ----------
        threshold : float
            Weights w with abs(w) < threshold become zero; greater than 0.
        path : str or path-like
            The model directory to write.
        overwrite : bool, default False
            Replace another model that is there, once the new one is complete.
        progress : callable, optional
            Called now and then with the fraction that is done.

        Returns
        -------
        Model
            The pruned model, opened from disk. Its manifest says what was pruned, and
            `labeltree.prune.pruning_report` what that saved.
        """
        from labeltree.prune import prune_model

        return prune_model(self, threshold, path, overwrite=overwrite, progress=progress)

    def verify(self, threads: int | None = None) -> None:
        """Read every block and compare it with its checksum."""
        for t, part in enumerate(self.trees):
            damaged = _native.damaged_blocks(
                part.feature_ptr,
                part.features,
                part.weight_ptr,
                part.weights,
                part.checksums,
                threads_to_use(threads),
            )
            if damaged.size:
                raise InputError(
                    f"{self.file(f'tree-{t}')} has a wrong checksum in {damaged.size} of its "
                    f"{part.tree.n_nodes} blocks (the first is node {damaged[0]}): it is damaged; "
                    "copy or train the model again."
                )


def load(path: Path | str, *, verify: bool | None = None) -> Model:
    """Open a model directory.

    The blocks are mapped, not read: the memory that a model takes is what its pages take, so one that is
    larger than memory can serve.

    Parameters
    ----------
    path : str or path-like
    verify : bool, optional
        Whether to read all blocks and compare their checksums. By default, if they fit in the available
        memory. Everything else is always checked.

    Raises
    ------
    InputError
        If the directory is not a model, or not whole.
    """
    path = Path(path)
    manifest = read_manifest(path)
    try:
        reader = ModelReader(path, manifest)
        labels, features, _ = (_count(manifest[key]) for key in ("labels", "features", "instances"))
        nodes_of_trees = [_count(entry["nodes"]) for entry in manifest["trees"]]
        for entry in manifest["files"].values():
            _count(entry["bytes"])
        if not manifest["settings"]["bias"] >= 0:
            raise ValueError("negative bias")
    except (AttributeError, KeyError, TypeError, ValueError):
        raise InputError(f"{path}: manifest.json is damaged; copy or train the model again.") from None
    trees = tuple(_load_tree(reader, f"tree-{t}", nodes, labels) for t, nodes in enumerate(nodes_of_trees))
    names = _load_names(reader, labels) if "label_names.json" in manifest["files"] else None
    text = TextFeatures.load(reader, features) if SETTINGS_FILE in manifest["files"] else None
    model = Model(path, manifest, trees, reader.array("label_counts.npy", "<i8", labels), names, text)
    try:
        _ = model._search
    except ValueError as error:
        raise InputError(f"{path} is damaged: {error}; copy or train the model again.") from None
    if verify or (verify is None and model.bytes <= available_memory()):
        model.verify()
    return model


def _count(value: Any) -> int:
    """Check a number in the manifest, before anything is sized by it."""
    if not isinstance(value, int) or value < 0:
        raise ValueError(value)
    return value


def _load_tree(reader: ModelReader, folder: str, nodes: int, labels: int) -> TreeBlocks:
    child_ptr = reader.array(f"{folder}/child_ptr.npy", "<i8", nodes + 1)
    children = reader.array(f"{folder}/children.npy", "<i4", nodes - 1 + labels)
    feature_ptr = reader.array(f"{folder}/feature_ptr.npy", "<i8", nodes + 1)
    checksums = reader.array(f"{folder}/checksums.npy", "<u4", nodes)
    tree = LabelTree(child_ptr, children)
    if child_ptr[-1] != children.size or (np.diff(child_ptr) < 0).any() or (np.diff(feature_ptr) < 0).any():
        raise InputError(
            f"{reader.path / folder} is damaged: its pointers fall; copy or train the model again."
        )
    weight_ptr = weight_pointers(tree, feature_ptr)
    features = reader.array(f"{folder}/features.npy", "<i4", int(feature_ptr[-1]), mapped=True)
    weights = reader.array(f"{folder}/weights.npy", "<f4", int(weight_ptr[-1]), mapped=True)
    return TreeBlocks(tree, feature_ptr, features, weight_ptr, weights, checksums)


def _load_names(reader: ModelReader, labels: int) -> tuple[str, ...]:
    content = reader.text("label_names.json")
    try:
        names = json.loads(content)
    except (ValueError, RecursionError):
        names = None
    if not (
        isinstance(names, list) and len(names) == labels and all(isinstance(name, str) for name in names)
    ):
        raise InputError(
            f"{reader.path / 'label_names.json'} does not hold a name for each of the {labels:,} labels; "
            "copy or train the model again."
        )
    return tuple(names)
