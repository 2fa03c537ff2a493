"""Extreme multi-label classification with linear label trees whose size is known before training."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from labeltree._version import __version__
from labeltree.errors import InputError

if TYPE_CHECKING:
    from labeltree import datasets, metrics, paper, trees
    from labeltree.build import build_plan
    from labeltree.clustering import build_tree
    from labeltree.data import Dataset
    from labeltree.datasets.synthetic import synthesize
    from labeltree.estimators import scorers
    from labeltree.estimators.classifier import LabelTreeClassifier
    from labeltree.explain import describe_label, explain_prediction
    from labeltree.hub.card import model_card
    from labeltree.hub.loading import load
    from labeltree.hub.push import push
    from labeltree.model import Model
    from labeltree.pipeline import train
    from labeltree.plan import Plan, make_plan
    from labeltree.reading import read_data
    from labeltree.settings import ScoreSettings, SolverSettings, StorageSettings, TreeSettings
    from labeltree.sizing import SizeEstimate, estimate_size
    from labeltree.summary import describe_data
    from labeltree.svm import read_svm, write_svm
    from labeltree.text.documents import read_documents
    from labeltree.text.formats import Columns
    from labeltree.text.reader import read_text
    from labeltree.text.settings import TextSettings
    from labeltree.text.tfidf import TextFeatures
    from labeltree.training import train_model
    from labeltree.tree import LabelTree
    from labeltree.tuning.tune import tune

# Where each public name is defined. Imported on first use, so that `import labeltree` stays fast.
_HOMES = {
    "Columns": "text.formats",
    "Dataset": "data",
    "LabelTree": "tree",
    "LabelTreeClassifier": "estimators.classifier",
    "Model": "model",
    "Plan": "plan",
    "ScoreSettings": "settings",
    "SizeEstimate": "sizing",
    "SolverSettings": "settings",
    "StorageSettings": "settings",
    "TextFeatures": "text.tfidf",
    "TextSettings": "text.settings",
    "TreeSettings": "settings",
    "build_plan": "build",
    "build_tree": "clustering",
    "describe_data": "summary",
    "describe_label": "explain",
    "estimate_size": "sizing",
    "explain_prediction": "explain",
    "load": "hub.loading",
    "make_plan": "plan",
    "model_card": "hub.card",
    "push": "hub.push",
    "read_data": "reading",
    "read_documents": "text.documents",
    "read_svm": "svm",
    "read_text": "text.reader",
    "synthesize": "datasets.synthetic",
    "train": "pipeline",
    "train_model": "training",
    "tune": "tuning.tune",
    "write_svm": "svm",
}
_MODULES = {
    "datasets": "datasets",
    "metrics": "metrics",
    "paper": "paper",
    "scorers": "estimators.scorers",
    "trees": "trees",
}

__all__ = [
    "Columns",
    "Dataset",
    "InputError",
    "LabelTree",
    "LabelTreeClassifier",
    "Model",
    "Plan",
    "ScoreSettings",
    "SizeEstimate",
    "SolverSettings",
    "StorageSettings",
    "TextFeatures",
    "TextSettings",
    "TreeSettings",
    "__version__",
    "build_plan",
    "build_tree",
    "datasets",
    "describe_data",
    "describe_label",
    "estimate_size",
    "explain_prediction",
    "load",
    "make_plan",
    "metrics",
    "model_card",
    "paper",
    "push",
    "read_data",
    "read_documents",
    "read_svm",
    "read_text",
    "scorers",
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
    return sorted({*globals(), *__all__})
