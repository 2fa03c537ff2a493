"""A model as it is stored: what its directory contains, read, verified, saved and changed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeltree import _native
from labeltree.base import limits
from labeltree.base.display import html_table
from labeltree.base.system import free_disk, human_bytes, threads_to_use
from labeltree.data.tfidf import TextFeatures
from labeltree.errors import InputError, ResourceError
from labeltree.evaluation.accepted import Decision
from labeltree.evaluation.calibration import Calibration
from labeltree.evaluation.result import Evaluation
from labeltree.evaluation.sketch import RowSketch
from labeltree.model.blocks import TreeBlocks
from labeltree.model.directory import read_manifest
from labeltree.model.layout import tree_folder
from labeltree.model.manifest import Manifest
from labeltree.model.pack import write_model
from labeltree.model.ranker import Ranker
from labeltree.model.writer import amend_model, decided, new_model
from labeltree.settings import ScoreSettings, StorageSettings
from labeltree.trees.tree import DepthSummary, describe_depths


class StoredModel:
    """What a model contains.

    Attributes
    ----------
    path : Path or None
        Its directory; None for a model that was unpickled, or fitted by an estimator and not saved.
    address : str or None
        Where it was downloaded from.
    holdout : Evaluation or None
        How good it is on rows that `labeltree.train` held out; None after `labeltree.load`.
    manifest : dict
        The contents of ``manifest.json``: shapes, settings, versions, files.
    n_features, n_labels, n_instances : int
        The shape of the training data.
    label_names : tuple of str or None
        Names of the labels; None if labels are integers.
    one_based : bool or None
        Whether the training file numbers features from 1; None if it was not read from a file.
    normalized : bool
        Whether rows were scaled to length 1 for training; those to predict are scaled in the same way.
    label_counts : ndarray of int64
        Training instances of each label.
    score : ScoreSettings
        How margins become scores by default.
    decision : Decision or None
        Which labels to accept: a threshold, or one per label.
    calibration : Calibration or None
        A map from scores to probabilities that ``predict`` applies.
    row_sketch : RowSketch or None
        Tells how many rows of other data occur in the training data.
    trees : tuple of TreeBlocks
    text : TextFeatures or None
        Turns documents into features, if the model was trained on text: ``model.text.transform(documents)``.
    """

    def __init__(
        self,
        path: Path | None,
        manifest: Manifest,
        trees: tuple[TreeBlocks, ...],
        label_counts: NDArray[np.int64],
        label_names: tuple[str, ...] | None,
        text: TextFeatures | None = None,
        thresholds: NDArray[np.float32] | None = None,
    ) -> None:
        self.path = path
        self.address: str | None = None
        self.holdout: Evaluation | None = None
        self.manifest = manifest
        self.trees = trees
        self.label_counts = label_counts
        self.label_names = label_names
        self.text = text
        self.n_instances: int = manifest["instances"]
        self.n_features: int = manifest["features"]
        self.n_labels: int = manifest["labels"]
        self.one_based: bool | None = manifest["one_based"]
        self.normalized: bool = manifest["normalized"]
        self.bias: float = manifest["settings"]["bias"]
        self.score = ScoreSettings(**manifest["score"])
        self._decision = Decision.stored(manifest.get("decision"), thresholds)
        self.calibration = Calibration.stored(manifest.get("calibration"))
        self.row_sketch = RowSketch.stored(manifest.get("row_sketch"))

    def __repr__(self) -> str:
        where = "unsaved" if self.path is None else repr(str(self.path))
        shape = f"n_labels={self.n_labels}, n_features={self.n_features}, trees={len(self.trees)}"
        return f"{type(self).__name__}({where}, {shape}, bytes={self.bytes})"

    def _repr_html_(self) -> str:
        trees = f"{sum(part.tree.n_nodes for part in self.trees):,} nodes in {len(self.trees)} trees"
        rows = [
            ["training data", f"{self.n_instances:,} instances, {self.n_features:,} features"],
            *([["rows", "scaled to length 1"]] if self.normalized else []),
            ["labels", f"{self.n_labels:,}"],
            ["trees", trees if len(self.trees) > 1 else trees.removesuffix("s")],
            ["size", f"{human_bytes(self.bytes)} ({self.bytes:,} bytes)"],
            ["settings", ", ".join(f"{name} {value}" for name, value in self.manifest["settings"].items())],
        ]
        return html_table(f"Model {self.path or '(unsaved)'}", ["", ""], rows)

    def __getstate__(self) -> dict[str, Any]:
        """Return what pickle keeps: all arrays. The copy is in memory and has no directory."""
        return {**{key: value for key, value in vars(self).items() if key != "_search"}, "path": None}

    @property
    def decision(self) -> Decision | None:
        """Which labels to accept; set by `Model.choose_threshold`."""
        return self._decision

    @property
    def bytes(self) -> int:
        """Size of the model directory without its manifest."""
        return sum(entry["bytes"] for entry in self.manifest["files"].values())

    @property
    def codec(self) -> str:
        """How the weights are stored: "float32", "float16", "int8", or "sparse" if small ones are dropped."""
        return self.trees[0].codec

    @cached_property
    def _search(self) -> Ranker:
        blocks = [part.native for part in self.trees]
        search = _native.BeamSearch(blocks, self.n_features, self.n_labels, self.bias)
        return Ranker(search, self.n_features, self.normalized, self.text is not None)

    def depths(self, tree: int = 0) -> list[DepthSummary]:
        """Describe a tree depth by depth: nodes, children, mean used features, alpha, weights."""
        part = self.trees[tree]
        return describe_depths(part.tree, part.used_features)

    def block(self, node: int, tree: int = 0) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Return the features of a node, sorted, and its weights, features x children.

        Both are mapped from disk if weights are stored as float32. With a bias, the last feature is
        ``self.n_features``, the constant one.
        """
        part = self.trees[tree]
        limits.checked("node", node, limits.Whole(0, part.tree.n_nodes - 1))
        return part.block(node)

    def verify(self, threads: int | None = None) -> None:
        """Read every block, compare it with its checksum, and check that its contents are valid.

        Everything else was checked when the model was opened.

        Raises
        ------
        InputError
            If a block is damaged, or contains what no writer stores.
        """
        for t, part in enumerate(self.trees):
            folder = tree_folder(t)
            place = f"{folder} of an unsaved model" if self.path is None else str(self.path / folder)
            part.verify(place, threads_to_use(threads))

    def save(
        self, path: str | os.PathLike[str], *, overwrite: bool = False, extra: Mapping[str, Any] | None = None
    ) -> None:
        """Write the model to a directory, which appears once it is complete.

        A model without a directory has this one from then on.

        Parameters
        ----------
        path : path-like
            The directory to write.
        overwrite : bool, default False
            Replace an existing model, once the new one is complete.
        extra : mapping, optional
            More entries for the manifest (JSON).
        """
        path = Path(limits.checked("path", path, limits.PATH))
        with new_model(path, overwrite) as writer:
            free = free_disk(path.parent)
            if self.bytes > free:
                what = f"the model takes {human_bytes(self.bytes)}, but only {human_bytes(free)} are free"
                raise ResourceError(what, file=path.parent, hint="choose another directory")
            write_model(writer, self, StorageSettings(), extra=extra)
        if self.path is None:
            self.path, self.manifest = path, read_manifest(path)

    def store_decision(self, decision: Decision | None, calibration: Calibration | None) -> StoredModel:
        """Use a decision and a calibration, and store them in the directory of the model, if it has one.

        The directory is replaced by one that links to the same files: readers find the old model or the new
        one, and a process that is killed leaves one of them.
        """
        self._check_own()
        if self.path is not None:
            amend_model(self.path, self.manifest, decision, calibration)
            self.manifest = read_manifest(self.path)
        else:
            self.manifest = decided(self.manifest, decision, calibration)
        self._decision, self.calibration = decision, calibration
        return self

    def _check_own(self) -> None:
        """Refuse to change a model that was downloaded: the next download would replace it."""
        if self.address is not None:
            what = "a downloaded model cannot be changed"
            hint = "save a copy with `model.save(path)` and load that"
            raise InputError(what, file=self.address, hint=hint)
