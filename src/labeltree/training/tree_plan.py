"""The plan of one tree: what its nodes use, and therefore where their blocks are in the files."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from labeltree import _native
from labeltree.model.layout import ArrayFile, Layout
from labeltree.training.memory import solver_bytes
from labeltree.trees.tree import LabelTree


@dataclass(frozen=True, eq=False, repr=False)
class TreePlan:
    """What the nodes of one tree use, and therefore where their blocks are in the files.

    Attributes
    ----------
    tree : LabelTree
    instances : ndarray of int64
        Instances that each node trains on: those with one of its labels; all instances at the root.
    nonzeros : ndarray of int64
        Non-zero feature values of those instances.
    used_features : ndarray of int64
        Features that occur in those instances (F_u), without the bias.
    bias : bool
        Whether there is a weight for the bias.
    codec : str
        How the weights are stored.
    n_features : int
        Features of the data.
    """

    tree: LabelTree
    instances: NDArray[np.int64]
    nonzeros: NDArray[np.int64]
    used_features: NDArray[np.int64]
    bias: bool
    codec: str
    n_features: int

    def __repr__(self) -> str:
        return f"TreePlan({self.tree!r}, n_weights={self.n_weights})"

    @property
    def n_weights(self) -> int:
        """Weights as the paper counts them, without bias (its equation 18)."""
        return int(self.used_features @ self.tree.child_count)

    @cached_property
    def layout(self) -> Layout:
        """Where the blocks will be in the files of the tree."""
        return Layout.of(self.tree, self.codec, self.used_features, self.bias, self.n_features)

    def files(self) -> dict[str, ArrayFile]:
        """Return the arrays that this tree will be stored in; if blocks are sparse, bounds of them."""
        return self.layout.files()

    def clip(self, max_depth: int) -> TreePlan:
        """Return the plan of the tree cut at a depth (d_max); the remaining nodes use the same instances."""
        tree = self.tree.clip(max_depth)
        left = slice(tree.n_nodes)
        counts = self.instances[left], self.nonzeros[left], self.used_features[left]
        return TreePlan(tree, *counts, self.bias, self.codec, self.n_features)

    def training_bytes(self, threads: int, precise: bool) -> int:
        """Return an upper bound on the memory that the solver needs in addition to the data."""
        counts = self.tree.child_count, self.instances, self.nonzeros, self.used_features
        return solver_bytes(*counts, self.codec, self.n_features, threads, precise)

    def building_bytes(self, threads: int) -> int:
        """Return an upper bound on the memory for building the tree, in addition to the data.

        Before it is built, any node may have all features. Now it is known how many they have.
        """
        at_once = min(threads, _native.MOST_MATRICES)
        held = centroids_held(self.used_features, at_once)
        not_held = self.tree.centroid_bytes * max(0, at_once * self.n_features - held)
        return max(self.tree.build_bytes - not_held, self.tree.centroid_bytes * held)


def centroids_held(used_features: NDArray[np.int64], n_matrices: int) -> int:
    """Return the largest number of features that have centroids in memory while a tree is built.

    Parameters
    ----------
    used_features : ndarray of int64
        Of each node; the first one is the root, which is clustered alone.
    n_matrices : int
        Nodes whose centroids are in memory at the same time, at most; their memory is kept from depth to
        depth.
    """
    below = np.sort(used_features[1:])[-n_matrices:]
    return max(int(used_features[0]), int(below.sum()))
