"""Extreme multi-label classification with linear label trees, whose size is known before they are trained."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from labeltree._version import __version__
from labeltree.errors import InputError

if TYPE_CHECKING:
    from labeltree import datasets, experiments, metrics, scorers, theory
    from labeltree.clustering import build_tree
    from labeltree.data import Dataset
    from labeltree.documents import read_documents
    from labeltree.estimator import LabelTreeClassifier
    from labeltree.model import Model, load
    from labeltree.plan import Plan, make_plan
    from labeltree.svm import read_svm, write_svm
    from labeltree.synth import synthesize
    from labeltree.text import Columns, read_text
    from labeltree.tfidf import TextFeatures, TextSettings
    from labeltree.train import SolverSettings, train_model
    from labeltree.tree import LabelTree

# Imported when first asked for: `import labeltree`, and with it the command line, stays quick.
_MODULES = {
    "Columns": "text",
    "Dataset": "data",
    "LabelTree": "tree",
    "LabelTreeClassifier": "estimator",
    "Model": "model",
    "Plan": "plan",
    "SolverSettings": "train",
    "TextFeatures": "tfidf",
    "TextSettings": "tfidf",
    "build_tree": "clustering",
    "load": "model",
    "make_plan": "plan",
    "read_documents": "documents",
    "read_svm": "svm",
    "read_text": "text",
    "synthesize": "synth",
    "train_model": "train",
    "write_svm": "svm",
}

__all__ = [
    "Columns",
    "Dataset",
    "InputError",
    "LabelTree",
    "LabelTreeClassifier",
    "Model",
    "Plan",
    "SolverSettings",
    "TextFeatures",
    "TextSettings",
    "__version__",
    "build_tree",
    "datasets",
    "experiments",
    "load",
    "make_plan",
    "metrics",
    "read_documents",
    "read_svm",
    "read_text",
    "scorers",
    "synthesize",
    "theory",
    "train_model",
    "write_svm",
]


def __getattr__(name: str) -> Any:
    if name in ("datasets", "experiments", "metrics", "scorers", "theory"):
        return import_module(f"labeltree.{name}")
    if name not in _MODULES:
        raise AttributeError(f"module 'labeltree' has no attribute {name!r}")
    value = getattr(import_module(f"labeltree.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
