"""The scikit-learn estimator `LabelTreeClassifier`: its parameters, fitted, saved and loaded."""

from __future__ import annotations

import sys
import tempfile
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from labeltree.base import limits
from labeltree.base.files import temporary_directory
from labeltree.base.limits import AUTO, Limit, Optional, checked
from labeltree.errors import InputError
from labeltree.estimators.inputs import CHECKS_OF_X, make_dataset, read_target, restore_classes
from labeltree.estimators.predictor import TreePredictor
from labeltree.estimators.state import model_state, restore_model
from labeltree.hub.loading import load
from labeltree.model.manifest import storage_of
from labeltree.settings import (
    DEFAULT_BEAM,
    TRAINING_LIMITS,
    ModelSettings,
    SolverSettings,
    StorageSettings,
    TreeSettings,
    stored_score,
)
from labeltree.training.plan import Plan
from labeltree.training.train import build_plan, train_dataset


class LabelTreeClassifier(TreePredictor):
    """Extreme multi-label classification with linear label trees, as a scikit-learn estimator.

    The parameters have the same names as the command-line options, except for ``score_function``.

    Parameters
    ----------
    clusters : int, default 100
        Number of clusters that a node is split into (K).
    max_depth : int, default 6
        Maximum depth of a label (d_max). 1 is one-vs-rest.
    trees : int, default 1
        Number of trees, built with the seeds ``seed``, ``seed + 1``, ...
    tree : LabelTree or nested lists, optional
        A tree to use instead of clustering. Its labels are columns of Y, or names of classes.
    seed : int, default 0
        Random seed. The same seed gives the same model with any number of threads.
    loss : {"squared_hinge", "hinge", "logistic"}
        Loss function.
    cost : float, optional
        Weight of the losses (C). Default: chosen for the data, see `SolverSettings`.
    max_cost : float, optional
        Largest cost in smaller nodes. Default: ``cost`` if it is given, otherwise at least 1.
    positive_cost : float or sequence of float, default 1
        Factor of the cost of positive instances; or one per depth of the node.
    tolerance : float, default 0.005
        Relative duality gap at which a problem is solved.
    max_iterations : int, default 1000
        Maximum number of passes over the instances of a node.
    bias : float, default 1
        Value of a constant feature added to every instance; 0 for none.
    hard_negatives : int, default 0
        How many of the best nodes of an instance train on it as a negative, at each depth.
    foreign_cost : float, default 0.2
        Factor of the cost of these instances.
    normalize : bool, default True
        Scale every row of X to length 1, in ``fit`` and in predictions.
    weights : {"float32", "float16", "int8"}, optional
        Type of the stored weights. Default: "float32", or "int8" with ``prune``.
    prune : float, optional
        Drop weights with a smaller absolute value. Default: store all weights.
    beam : int, default 10
        Number of nodes kept at each depth during prediction.
    score_function : {"auto", "sigmoid", "hinge2", "hinge3"}
        How margins become scores, see `ScoreSettings`; ``--score`` on the command line, because ``score`` is
        a method. Default: "auto", chosen by ``fit`` and stored in the model.
    score_scale : float, optional
        Scale of the sigmoid.
    sparse_output : bool, default True
        Whether predictions for several labels per row are sparse matrices, as needed for many labels. With
        False, they are arrays, as scikit-learn's ranking metrics require.
    threads : int, optional
        Default: all CPUs. Use 1 if scikit-learn starts several processes (``n_jobs``).
    memory_limit : int or str, optional
        Memory that training may use, such as "8GB". Default: the available memory.
    force : bool, default False
        Train, and return arrays, even if memory or disk space appears insufficient.

    Attributes
    ----------
    classes_ : ndarray
        The label of each column of Y: the names in y, sorted; the column names of a frame; 0, 1, ...; or the
        classes in y if it had one dimension.
    n_features_in_ : int
        For texts, the number of terms.
    feature_names_in_ : ndarray of str
        Names of the features; only if X was a data frame with names.
    model_ : labeltree.Model
        The trained model. Until it is saved, it is kept in an unnamed temporary file that is mapped into
        memory and disappears with the estimator. The environment variable ``TMPDIR`` selects the disk.

    See Also
    --------
    labeltree.estimators.scorers : P@k, nDCG@k and others for ``scoring=``.

    Examples
    --------
    >>> import labeltree
    >>> train, test = labeltree.synthesize("eur-lex", scale=0.01)
    >>> classifier = LabelTreeClassifier(clusters=10).fit(train.X, train.Y)
    >>> labels, scores = classifier.predict_top(test.X, 5)
    >>> labels.shape == (test.n_instances, 5)
    True
    >>> classifier.fit(["red apples", "a blue whale"], [["fruit"], ["sea", "animal"]]).classes_.tolist()
    ['animal', 'fruit', 'sea']
    """

    _limits: ClassVar[dict[str, Limit]] = {
        **TRAINING_LIMITS,
        "normalize": limits.FLAG,
        "beam": limits.BEAM,
        "score_function": limits.STORED_SCORE,
        "score_scale": Optional(limits.SCORE_SCALE),
        "sparse_output": limits.FLAG,
        "threads": Optional(limits.THREADS),
        "memory_limit": Optional(limits.MEMORY),
        "force": limits.FLAG,
    }

    def __init__(
        self,
        *,
        clusters: int = TreeSettings.clusters,
        max_depth: int = TreeSettings.max_depth,
        trees: int = TreeSettings.trees,
        tree: Any = None,
        seed: int = TreeSettings.seed,
        loss: str = SolverSettings.loss,
        cost: float | None = SolverSettings.cost,
        max_cost: float | None = SolverSettings.max_cost,
        positive_cost: float | tuple[float, ...] = SolverSettings.positive_cost,
        tolerance: float = SolverSettings.tolerance,
        max_iterations: int = SolverSettings.max_iterations,
        bias: float = SolverSettings.bias,
        hard_negatives: int = SolverSettings.hard_negatives,
        foreign_cost: float = SolverSettings.foreign_cost,
        normalize: bool = True,
        weights: str | None = StorageSettings.weights,
        prune: float | None = StorageSettings.prune,
        beam: int = DEFAULT_BEAM,
        score_function: str = AUTO,
        score_scale: float | None = None,
        sparse_output: bool = True,
        threads: int | None = None,
        memory_limit: int | str | None = None,
        force: bool = False,
    ) -> None:
        given = locals()
        for name in self._limits:
            setattr(self, name, given[name])

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> LabelTreeClassifier:
        """Build the trees and train the model.

        Parameters
        ----------
        X : texts; or sparse matrix, array-like or frame, rows x features
            Strings in a list, an array or a column of pandas, polars or Arrow, whose TF-IDF is computed with
            the defaults of `TextSettings`; those that are missing are skipped. Or finite numbers.
        y : lists of names; or sparse matrix, array-like or frame, rows x labels; or the class of each row
            Names are strings, in a list or a column of lists, tuples, sets or arrays. Numbers are an
            indicator matrix, 1 where the row has the label; a column may be empty.
        sample_weight : array-like of float, optional
            Weight of each row's loss, at least 0: a weight of 2 counts like the same row twice, also in the
            default cost. Rows with weight 0 are left out. Clustering ignores the weights.

        Returns
        -------
        LabelTreeClassifier
            The estimator itself.
        """
        parameters = self._checked()
        settings, target = _settings(parameters), read_target(y)
        check = partial(validate_data, self, **CHECKS_OF_X)
        dataset, weights = make_dataset(X, target, check, sample_weight, parameters["threads"])
        # The operating system keeps the mapped files of the model as long as this process, or one forked from
        # it, uses them: nothing has to be cleaned up, even after a crash, nor reach the disk.
        with temporary_directory(Path(tempfile.gettempdir()), "labeltree-fit-") as directory:
            machine = {name: parameters[name] for name in ("threads", "memory_limit", "force")}
            _, self.model_ = train_dataset(
                dataset, directory / "model", settings, costs=weights, sync=False, **machine
            )
        self.model_.path = None
        self.classes_ = target.classes
        self._single = target.single
        return self

    def estimate(self, X: Any, y: Any) -> Plan:
        """Plan the model that ``fit`` would train, without training it.

        Parameters
        ----------
        X, y
            As in ``fit``.

        Returns
        -------
        Plan
            Its ``model_bytes`` is the exact size of the model, or with ``prune`` an upper bound;
            ``report()`` returns all figures.
        """
        parameters = self._checked()
        settings = _settings(parameters)
        check = partial(check_array, input_name="X", **CHECKS_OF_X)
        return build_plan(
            make_dataset(X, read_target(y), check, threads=parameters["threads"])[0],
            settings.tree,
            settings.solver,
            settings.storage,
            normalize=settings.normalize,
            threads=parameters["threads"],
            memory_limit=sys.maxsize if parameters["force"] else parameters["memory_limit"],
        )

    def save(self, path: Path | str, *, overwrite: bool = False) -> None:
        """Write a model directory for ``load``, ``labeltree.load`` and the command line.

        Parameters
        ----------
        path : path-like
            The directory to write. It appears only once it is complete.
        overwrite : bool, default False
            Replace an existing model.
        """
        check_is_fitted(self, "model_")
        names = getattr(self, "feature_names_in_", None)
        parameters = self._checked()
        tree = parameters.pop("tree")
        about: dict[str, Any] = {
            "parameters": parameters,
            "given_tree": tree is not None,
            "single": self._single,
            "classes": "O" if self.classes_.dtype.kind in "OT" else self.classes_.dtype.str,
            "feature_names": None if names is None else list(names),
        }
        self.model_.save(path, overwrite=overwrite, extra={"estimator": about})

    @classmethod
    def load(cls, path: Path | str, *, verify: bool | None = None) -> LabelTreeClassifier:
        """Open a model directory, written by ``save`` or by any other part of labeltree.

        The weights are memory-mapped, not read. Parameters that a model trained on the command line does not
        contain, such as ``beam``, get their defaults. An estimator of a model that was trained on text takes
        texts.

        Parameters
        ----------
        path : path-like
            A directory, or an address such as ``hf://user/name``.
        verify : bool, optional
            As in :func:`labeltree.load`.

        Returns
        -------
        LabelTreeClassifier
            The fitted estimator.
        """
        model = load(path, verify=verify)
        settings, notes = model.manifest["settings"], model.manifest.get("notes", {})
        about: dict[str, Any] = model.manifest.get("estimator") or {
            "parameters": {
                **{name: settings[name] for name in settings if name in cls._limits},
                **{name: notes[name] for name in ("clusters", "max_depth") if name in notes},
                "trees": len(model.trees),
                **asdict(storage_of(model.manifest)),
            },
            "given_tree": "tree" in notes,
        }
        try:
            normalize = model.normalized or model.text is not None  # TF-IDF has rows of length 1
            estimator = cls(**{"normalize": normalize, **about["parameters"]})
            estimator._single = bool(about.get("single", False))
            estimator.classes_ = restore_classes(model.label_names, model.n_labels, about.get("classes"))
            names = about.get("feature_names")
            given = about["given_tree"]
        except (AttributeError, KeyError, OverflowError, TypeError, ValueError):
            what, hint = (
                "manifest.json does not describe an estimator",
                "save it again, or use labeltree.load",
            )
            raise InputError(what, file=path, hint=hint) from None
        if given:
            estimator.tree = model.trees[0].tree
        if names is not None:
            estimator.feature_names_in_ = np.array(names, dtype=object)
        estimator.n_features_in_ = model.n_features
        estimator.model_ = model
        return estimator

    def __getstate__(self) -> dict[str, Any]:
        """Return what pickle, joblib and skops keep: plain arrays, strings and numbers."""
        state = dict(super().__getstate__())
        if "model_" in state:
            state["model_"] = model_state(state["model_"])
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if "model_" in state:
            self.model_ = restore_model(state["model_"])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = tags.input_tags.string = True
        tags.classifier_tags.multi_label = True
        return tags

    def _checked(self) -> dict[str, Any]:
        given = self.get_params(deep=False)
        return {name: checked(name, value, self._limits[name]) for name, value in given.items()}


def _settings(parameters: dict[str, Any]) -> ModelSettings:
    """Return the settings of a model among the parameters of an estimator."""
    names = ("score_function", "score_scale", "hard_negatives")
    score = stored_score(*(parameters[name] for name in names))
    return ModelSettings.of(parameters, score, parameters["normalize"])
