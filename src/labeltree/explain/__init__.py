"""Explanations: why a model predicts what it does, and what it has learned."""

from labeltree.explain.label import LabelProfile, describe_label, find_label
from labeltree.explain.overview import DepthShape, describe_model, tree_shape
from labeltree.explain.prediction import Explanation, explain_prediction

__all__ = [
    "DepthShape",
    "Explanation",
    "LabelProfile",
    "describe_label",
    "describe_model",
    "explain_prediction",
    "find_label",
    "tree_shape",
]
