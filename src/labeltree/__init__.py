"""Extreme multi-label classification with linear label trees whose size is known before training."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from labeltree._version import __version__
from labeltree.errors import InputError

if TYPE_CHECKING:
    from labeltree import paper as paper
    from labeltree import trees as trees
    from labeltree.data.dataset import Dataset
    from labeltree.data.inputs import read_data
    from labeltree.data.published import fetch_data
    from labeltree.data.summary import describe_data
    from labeltree.data.svm import read_svm, write_svm
    from labeltree.data.synthetic import synthesize
    from labeltree.data.tfidf import TextFeatures
    from labeltree.estimators import scorers as scorers
    from labeltree.estimators.classifier import LabelTreeClassifier
    from labeltree.evaluation import metrics as metrics
    from labeltree.hub.card import model_card
    from labeltree.hub.loading import load
    from labeltree.hub.push import push
    from labeltree.model.model import Model
    from labeltree.settings import ScoreSettings, SolverSettings, StorageSettings, TextSettings, TreeSettings
    from labeltree.training.fill import train_model
    from labeltree.training.plan import Plan, make_plan
    from labeltree.training.train import build_plan
    from labeltree.trees.kmeans import build_tree
    from labeltree.trees.tree import LabelTree
    from labeltree.tuning.tune import tune
    from labeltree.verbs import compare, estimate, split, train

# Where each public name is defined. Imported on first use, so that `import labeltree` stays fast.
_HOMES = {
    "Dataset": "data.dataset",
    "LabelTree": "trees.tree",
    "LabelTreeClassifier": "estimators.classifier",
    "Model": "model.model",
    "Plan": "training.plan",
    "ScoreSettings": "settings",
    "SolverSettings": "settings",
    "StorageSettings": "settings",
    "TextFeatures": "data.tfidf",
    "TextSettings": "settings",
    "TreeSettings": "settings",
    "build_plan": "training.train",
    "build_tree": "trees.kmeans",
    "compare": "verbs",
    "describe_data": "data.summary",
    "estimate": "verbs",
    "fetch_data": "data.published",
    "load": "hub.loading",
    "make_plan": "training.plan",
    "model_card": "hub.card",
    "push": "hub.push",
    "read_data": "data.inputs",
    "read_svm": "data.svm",
    "split": "verbs",
    "synthesize": "data.synthetic",
    "train": "verbs",
    "train_model": "training.fill",
    "tune": "tuning.tune",
    "write_svm": "data.svm",
}
_MODULES = {
    "metrics": "evaluation.metrics",
    "paper": "paper",
    "scorers": "estimators.scorers",
    "trees": "trees",
}

__all__ = [
    "Dataset",
    "InputError",
    "LabelTree",
    "LabelTreeClassifier",
    "Model",
    "Plan",
    "ScoreSettings",
    "SolverSettings",
    "StorageSettings",
    "TextFeatures",
    "TextSettings",
    "TreeSettings",
    "__version__",
    "build_plan",
    "build_tree",
    "compare",
    "describe_data",
    "estimate",
    "fetch_data",
    "load",
    "make_plan",
    "metrics",
    "model_card",
    "paper",
    "push",
    "read_data",
    "read_svm",
    "scorers",
    "split",
    "synthesize",
    "train",
    "train_model",
    "trees",
    "tune",
    "write_svm",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"labeltree.{_MODULES[name]}")
    if name not in _HOMES:
        raise AttributeError(f"module 'labeltree' has no attribute {name!r}")
    value = getattr(import_module(f"labeltree.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
