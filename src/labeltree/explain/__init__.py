"""Explanations: why a model predicts what it does, and what it has learned."""

from labeltree.explain.label import LabelProfile, describe_label, find_label
from labeltree.explain.prediction import Explanation, explain_labels, explain_prediction
from labeltree.explain.shape import DepthShape, tree_shape
from labeltree.explain.summary import describe_model

__all__ = [
    "DepthShape",
    "Explanation",
    "LabelProfile",
    "describe_label",
    "describe_model",
    "explain_labels",
    "explain_prediction",
    "find_label",
    "tree_shape",
]
