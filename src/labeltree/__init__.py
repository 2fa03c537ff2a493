"""Extreme multi-label classification with linear label trees whose size is known before training.

>>> import labeltree
>>> model = labeltree.train(["red apples", "a blue whale"], [["fruit"], ["sea", "animal"]])
>>> names, scores = model.predict(["an apple and red apples"], top=1)

Verbs: ``train``, ``load``, ``estimate`` (the size, without training), ``split``, ``compare``, ``tune`` and
``push``. Methods of a model: ``predict``, ``evaluate``, ``choose_threshold``, ``explain``, ``label``,
``compress``, ``frontier``, ``info``, ``save`` and ``verify``. ``LabelTreeClassifier`` is for scikit-learn.
``read_data`` and ``describe_data`` show what is read.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from labeltree._version import __version__
from labeltree.errors import InputError

if TYPE_CHECKING:
    from labeltree import paper as paper
    from labeltree import trees as trees
    from labeltree.data.dataset import Dataset as Dataset
    from labeltree.data.inputs import read_data as read_data
    from labeltree.data.published import fetch_data as fetch_data
    from labeltree.data.summary import describe_data as describe_data
    from labeltree.data.svm import read_svm as read_svm
    from labeltree.data.svm import write_svm as write_svm
    from labeltree.data.synthetic import synthesize as synthesize
    from labeltree.data.tfidf import TextFeatures as TextFeatures
    from labeltree.estimators import scorers as scorers
    from labeltree.estimators.classifier import LabelTreeClassifier as LabelTreeClassifier
    from labeltree.evaluation import metrics as metrics
    from labeltree.hub.card import model_card as model_card
    from labeltree.hub.loading import load as load
    from labeltree.hub.push import push as push
    from labeltree.model.model import Model as Model
    from labeltree.settings import ScoreSettings as ScoreSettings
    from labeltree.settings import SolverSettings as SolverSettings
    from labeltree.settings import StorageSettings as StorageSettings
    from labeltree.settings import TextSettings as TextSettings
    from labeltree.settings import TreeSettings as TreeSettings
    from labeltree.training.fill import train_model as train_model
    from labeltree.training.plan import Plan as Plan
    from labeltree.training.plan import make_plan as make_plan
    from labeltree.training.train import build_plan as build_plan
    from labeltree.trees.kmeans import build_tree as build_tree
    from labeltree.trees.tree import LabelTree as LabelTree
    from labeltree.tuning.tune import tune as tune
    from labeltree.verbs import compare as compare
    from labeltree.verbs import cross_predict as cross_predict
    from labeltree.verbs import estimate as estimate
    from labeltree.verbs import split as split
    from labeltree.verbs import train as train

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
    "cross_predict": "verbs",
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

__all__ = [*_HOMES, *_MODULES, "InputError", "__version__"]


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
