"""Explanations: why a model predicts what it does, and what it has learned."""

from labeltree.explain.label import LabelProfile, describe_label, find_label
from labeltree.explain.prediction import Explanation, explain_prediction
from labeltree.explain.shape import DepthShape, tree_shape

__all__ = [
    "DepthShape",
    "Explanation",
    "LabelProfile",
    "describe_label",
    "explain_prediction",
    "find_label",
    "tree_shape",
]
