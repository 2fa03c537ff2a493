"""The estimator for scikit-learn: `LabelTreeClassifier`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from labeltree.errors import InputError
from labeltree.estimators.fitting import check_rows, join, plan_model, solver_settings
from labeltree.estimators.targets import read_target, restored_classes
from labeltree.estimators.unsaved import train_unsaved, write_model
from labeltree.limits import Constraint, GivenTree, Number, OneOf, OrNone, Size, Whole, checked
from labeltree.model import Model, load
from labeltree.plan import Plan
from labeltree.predict import SCORES, as_matrix, reach
from labeltree.train import LARGEST_VALUE, LOSSES, SMALLEST_COST

# Scores of so many (row, label) pairs are held before they become sparse.
_PAIRS_AT_ONCE = 1 << 23

# How X is looked at. That its values are finite is checked, and said in one sentence, by `Dataset`.
_X: dict[str, Any] = {"accept_sparse": "csr", "ensure_all_finite": False}

# What may be asked of a prediction.
_ASKED: dict[str, Constraint] = {
    "top": OrNone(Whole(1)),
    "threshold": OrNone(Number(0.0, 1.0)),
    "k": Whole(1),
}


class LabelTreeClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Extreme multi-label classification with linear label trees, as a scikit-learn estimator.

    The parameters are those of the command line, by the same names but one.

    Parameters
    ----------
    clusters : int, default 100
        Clusters that a node of the tree is split into (K).
    max_depth : int, default 6
        Largest depth of a label (d_max). 1 is one-vs-rest.
    trees : int, default 1
        Trees, each with its own seed; scores are averaged.
    tree : LabelTree or nested lists of labels, optional
        Take this tree and do not cluster. Labels in it are columns of Y, or classes by their names.
    seed : int, default 0
        The same seed gives the same model, on any number of threads.
    loss : {"squared_hinge", "hinge", "logistic"}
    cost : float, default 1
        Weight of the losses against w'w / 2 (C).
    tolerance : float, default 0.1
        When the solver stops: smaller is more exact.
    max_iterations : int, default 300
        Passes over a node's instances at most.
    bias : float, default 1
        Value of a constant feature added to every instance; 0 for none.
    beam : int, default 10
        Nodes kept at each depth when predicting.
    score_function : {"sigmoid", "hinge2", "hinge3"}
        How a margin becomes a score in (0, 1]: the command line's ``--score``, since ``score`` is a method.
    threads : int, optional
        All usable processors unless given. Give 1 where the work is spread already (``n_jobs``).
    memory_limit : int or str, optional
        Memory that training may take, such as "8GB"; by default what there is.
    force : bool, default False
        Train even if memory or disk look too small.

    Attributes
    ----------
    classes_ : ndarray
        What each column of Y stands for: 0, 1, ..., the names of a data frame's columns, or, where y had one
        dimension, the classes in it.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Names of the features; only where X was a data frame with names.
    model_ : labeltree.Model
        The trained model. Until it is saved it lives in a temporary file without a name, mapped into memory:
        it goes when the estimator goes. ``TMPDIR`` tells on which disk.

    See Also
    --------
    labeltree.estimators.scorers : P@k, nDCG@k and others for ``scoring=``.

    Notes
    -----
    With an indicator matrix for Y, ``predict``, ``predict_proba`` and ``decision_function`` return sparse
    matrices: beam search looks at a few of the labels only, and a table of all of them may fit no memory.

    Examples
    --------
    >>> import labeltree
    >>> train, test = labeltree.synthesize("eur-lex", scale=0.01)
    >>> classifier = LabelTreeClassifier(clusters=10).fit(train.X, train.Y)
    >>> labels, scores = classifier.predict_top(test.X, 5)
    >>> labels.shape == (test.n_instances, 5)
    True
    """

    _constraints: ClassVar[dict[str, Constraint]] = {
        "clusters": Whole(2),
        "max_depth": Whole(1),
        "trees": Whole(1, 10_000),
        "tree": OrNone(GivenTree()),
        "seed": Whole(0),
        "loss": OneOf(LOSSES),
        "cost": Number(SMALLEST_COST, LARGEST_VALUE),
        "tolerance": Number(0.0, LARGEST_VALUE, open=True),
        "max_iterations": Whole(1),
        "bias": Number(0.0, LARGEST_VALUE),
        "beam": Whole(1),
        "score_function": OneOf(SCORES),
        "threads": OrNone(Whole(1, 1024)),
        "memory_limit": OrNone(Size()),
        "force": OneOf((False, True)),
    }

    def __init__(
        self,
        *,
        clusters: int = 100,
        max_depth: int = 6,
        trees: int = 1,
        tree: Any = None,
        seed: int = 0,
        loss: str = "squared_hinge",
        cost: float = 1.0,
        tolerance: float = 0.1,
        max_iterations: int = 300,
        bias: float = 1.0,
        beam: int = 10,
        score_function: str = "sigmoid",
        threads: int | None = None,
        memory_limit: int | str | None = None,
        force: bool = False,
    ) -> None:
        self.clusters = clusters
        self.max_depth = max_depth
        self.trees = trees
        self.tree = tree
        self.seed = seed
        self.loss = loss
        self.cost = cost
        self.tolerance = tolerance
        self.max_iterations = max_iterations
        self.bias = bias
        self.beam = beam
        self.score_function = score_function
        self.threads = threads
        self.memory_limit = memory_limit
        self.force = force

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> LabelTreeClassifier:
        """Build the trees and train them.

        Parameters
        ----------
        X : sparse matrix, array-like or data frame, rows x features
            Finite numbers.
        y : sparse matrix, array-like or data frame, rows x labels; or array-like of one dimension
            An indicator matrix, 1 where the row has the label; a column may be empty. Or each row's class.
        sample_weight : array-like of float, optional
            A weight of each row's losses, at least 0. Rows of weight 0 are left out. The trees are clustered
            without weights.

        Returns
        -------
        LabelTreeClassifier
            This very estimator.
        """
        chosen = self._checked()
        target = read_target(y)
        rows = validate_data(self, X, **_X)
        dataset, costs = join(rows, target, sample_weight, chosen["cost"])
        plan = plan_model(chosen, dataset)
        self.model_: Model = train_unsaved(
            dataset,
            plan,
            solver_settings(chosen),
            memory_limit=chosen["memory_limit"],
            force=chosen["force"],
            costs=costs,
            notes={name: chosen[name] for name in ("clusters", "max_depth") if chosen["tree"] is None},
        )
        self.classes_: NDArray[Any] = target.classes
        self._single = target.single
        return self

    def estimate(self, X: Any, y: Any) -> Plan:
        """Plan the model without training it: ``fit`` with the same data would write just this.

        Parameters
        ----------
        X, y
            As of ``fit``.

        Returns
        -------
        Plan
            Its ``model_bytes`` is the size of the model, exact; ``report()`` tells the rest.
        """
        chosen = self._checked()
        dataset, _ = join(check_array(X, input_name="X", **_X), read_target(y), None, chosen["cost"])
        return plan_model(chosen, dataset)

    def predict(self, X: Any, *, top: int | None = None, threshold: float | None = None) -> Any:
        """Predict the labels of each row.

        Parameters
        ----------
        X : sparse matrix, array-like or data frame, rows x features
        top : int, optional
            The best labels of each row, so many.
        threshold : float, optional
            The labels whose score is at least this; with `top`, of those only. 0.5 if neither is given.

        Returns
        -------
        csr_matrix of int, rows x labels
            1 where the label is predicted. If y had one dimension: an ndarray, the best class of each row.
        """
        rows = self._rows(X)
        asked = checked("predict", {"top": top, "threshold": threshold}, _ASKED)
        if self._single:
            if top is not None or threshold is not None:
                raise InputError(
                    "got top or threshold, but y had one class a row, and so has the prediction; "
                    "use predict_top, or fit with an indicator matrix"
                )
            return self.classes_[self._search(rows, 1)[0][:, 0]]
        least = (0.5 if top is None else 0.0) if threshold is None else asked["threshold"]
        found = self._scores(rows, asked["top"], least)
        found.data = np.ones(found.nnz, np.int64)
        return found

    def predict_top(self, X: Any, k: int = 5) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Find the k best labels of each row.

        Parameters
        ----------
        X : sparse matrix, array-like or data frame, rows x features
        k : int, default 5

        Returns
        -------
        labels : ndarray of int32, rows x k (or as many labels as there are)
            Best first: places in ``classes_``, that is columns of Y; -1 where the beam reached fewer labels.
        scores : ndarray of float32, rows x k
            In (0, 1]; 0 where the label is -1.
        """
        return self._search(self._rows(X), checked("predict_top", {"k": k}, _ASKED)["k"])

    def predict_proba(self, X: Any) -> Any:
        """Score the labels that the beam reaches.

        Scores order the labels of a row well; they are not calibrated.

        Parameters
        ----------
        X : sparse matrix, array-like or data frame, rows x features

        Returns
        -------
        csr_matrix of float32, rows x labels
            Scores in (0, 1] of the labels that the beam reached, and of no others: a label without an entry
            was not looked at. If y had one dimension: an ndarray of float64 whose rows sum to 1, with 0 for
            classes that were not reached.
        """
        found = self._scores(self._rows(X))
        if not self._single:
            return found
        dense = found.toarray().astype(np.float64)
        return dense / dense.sum(axis=1, keepdims=True)

    def decision_function(self, X: Any) -> Any:
        """Score the labels that the beam reaches, larger for better.

        Parameters
        ----------
        X : sparse matrix, array-like or data frame, rows x features

        Returns
        -------
        csr_matrix of float32, rows x labels
            The same as ``predict_proba``: labels without an entry count as 0, less than any that was reached.
            If y had one dimension: an ndarray of float64 of the scores, with 0 for classes that were not
            reached; of two classes, the logarithm of their ratio alone, above 0 for the second.
        """
        found = self._scores(self._rows(X))
        if not self._single:
            return found
        dense = found.toarray().astype(np.float64)
        if dense.shape[1] != 2:
            return dense
        logs = np.log(np.maximum(dense, np.finfo(np.float32).tiny))
        return logs[:, 1] - logs[:, 0]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Compute P@1: how often the best label is a true one. Of one class a row, that is the accuracy.

        Parameters
        ----------
        X : sparse matrix, array-like or data frame, rows x features
        y : as of ``fit``
            The true labels.
        sample_weight : array-like of float, optional
            Weights of the rows.

        Returns
        -------
        float
        """
        best = self._search(self._rows(X), 1)[0][:, 0]
        target = read_target(y, self.classes_)
        if target.single != self._single:
            raise InputError(
                f"got {'one class a row' if target.single else 'an indicator matrix'} for y, expected "
                f"{'one class a row' if self._single else 'an indicator matrix'}, as in fit"
            )
        check_rows(len(best), target)
        hits = np.asarray(target.Y[np.arange(len(best)), best]).ravel() != 0
        hits &= best >= 0  # a text without a known word has no label
        return float(np.average(hits, weights=sample_weight))

    def save(self, path: Path | str, *, overwrite: bool = False) -> None:
        """Write a model directory, which ``load``, ``labeltree.load`` and the command line read.

        Parameters
        ----------
        path : path-like
            The directory; it appears when it is complete.
        overwrite : bool, default False
            Replace a model that is there.
        """
        check_is_fitted(self, "model_")
        names = getattr(self, "feature_names_in_", None)
        about = {
            "parameters": {name: value for name, value in self._checked().items() if name != "tree"},
            "given_tree": self.tree is not None,
            "single": self._single,
            "classes": "O" if self.classes_.dtype.kind in "OT" else self.classes_.dtype.str,
            "feature_names": None if names is None else list(names),
        }
        write_model(self.model_, path, overwrite=overwrite, manifest={"estimator": about})

    @classmethod
    def load(cls, path: Path | str, *, verify: bool | None = None) -> LabelTreeClassifier:
        """Open a model directory: what ``save`` wrote, or any other model of labeltree.

        The weights are mapped, not read. What a model of the command line does not tell, such as ``beam``,
        gets its default. If it was trained on texts, ``estimator.model_.text.transform(texts)`` makes X.

        Parameters
        ----------
        path : path-like
        verify : bool, optional
            As of :func:`labeltree.load`.

        Returns
        -------
        LabelTreeClassifier
            A fitted one.
        """
        model = load(path, verify=verify)
        settings, notes = model.manifest["settings"], model.manifest.get("notes", {})
        about = model.manifest.get("estimator") or {
            "parameters": {
                **{name: settings[name] for name in settings if name in cls._constraints},
                **{name: notes[name] for name in ("clusters", "max_depth") if name in notes},
                "trees": len(model.trees),
            },
            "given_tree": "tree" in notes,
        }
        try:
            estimator = cls(**about["parameters"])
            estimator._single = bool(about.get("single", False))
            estimator.classes_ = restored_classes(model.label_names, model.n_labels, about.get("classes"))
            names = about.get("feature_names")
            given = about["given_tree"]
        except (AttributeError, KeyError, TypeError, ValueError):
            raise InputError(
                f"{path}: manifest.json does not describe an estimator; save it again, or use labeltree.load."
            ) from None
        if given:
            estimator.tree = model.trees[0].tree
        if names is not None:
            estimator.feature_names_in_ = np.array(names, dtype=object)
        estimator.n_features_in_ = model.n_features
        estimator.model_ = model
        return estimator

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.classifier_tags.multi_label = True
        return tags

    def _checked(self) -> dict[str, Any]:
        return checked(type(self).__name__, self.get_params(deep=False), self._constraints)

    def _rows(self, X: Any) -> Any:
        check_is_fitted(self, "model_")
        return validate_data(self, X, reset=False, **_X)

    def _search(self, rows: Any, top: int) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        chosen = self._checked()
        return self.model_.predict(
            rows,
            top=top,
            beam=chosen["beam"],
            score=chosen["score_function"],
            threads=chosen["threads"],
        )

    def _scores(self, rows: Any, top: int | None = None, least: float = 0.0) -> sparse.csr_matrix:
        """Scores of the labels that the beam reaches, of the best `top` of them, from `least` up."""
        if top is None:
            reached = sum(reach(part.tree, self._checked()["beam"]) for part in self.model_.trees)
            top = min(reached, self.model_.n_labels)
        step = max(1, _PAIRS_AT_ONCE // min(top, self.model_.n_labels))
        parts = []
        for first in range(0, rows.shape[0], step):
            labels, scores = self._search(rows[first : first + step], top)
            labels = np.where(scores >= least, labels, -1)
            parts.append(as_matrix(labels, scores, self.model_.n_labels))
        found: sparse.csr_matrix = sparse.vstack(parts, format="csr")
        found.sort_indices()
        return found
