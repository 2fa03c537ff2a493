"""Explanations: why a model predicts what it does, and what it knows about a label."""

from labeltree.explain.label import LabelProfile, describe_label, find_label
from labeltree.explain.prediction import Explanation, explain_prediction

__all__ = ["Explanation", "LabelProfile", "describe_label", "explain_prediction", "find_label"]
