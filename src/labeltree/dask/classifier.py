"""The estimator `DaskLabelTreeClassifier`: its parameters, fitted on a Dask cluster."""

from __future__ import annotations

import shutil
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from labeltree.base.extras import optional
from labeltree.base.limits import AUTO
from labeltree.dask import cluster, tasks
from labeltree.dask.partitions import Written, is_lazy, paired_partitions, write_partition
from labeltree.dask.predictor import LazyPredictor
from labeltree.data.text_settings import TextSettings
from labeltree.errors import InputError
from labeltree.estimators.classifier import LabelTreeClassifier
from labeltree.model.model import load
from labeltree.settings import DEFAULT_BEAM, SolverSettings, StorageSettings, TreeSettings


class DaskLabelTreeClassifier(LazyPredictor):
    """`LabelTreeClassifier` on a Dask cluster: the same model, trained by all workers.

    Workers exchange no data: they share a directory, in which each trains a part of the model at a time.
    Tasks carry only paths. Workers may join or leave at any time; the model has the same bytes as on one
    machine.

    Parameters
    ----------
    client : distributed.Client, optional
        Default: the current client.
    work_dir : path-like, optional
        A directory that the client and all workers see under this name. ``fit`` makes a subdirectory for
        data and model in it. Default: the directory for temporary files, which is right for workers on this
        machine.
    text : TextSettings, optional
        How documents become features, if X contains documents.
    clusters, max_depth, trees, tree, seed, loss, cost, max_cost, positive_cost, tolerance,
    max_iterations, bias
        As in `LabelTreeClassifier`, and so are all others.
    threads : int, optional
        For predictions from data in memory. Workers use the threads that they were started with.

    Attributes
    ----------
    client_ : distributed.Client
        The client that is used.
    classes_, n_features_in_, feature_names_in_, model_
        As in `LabelTreeClassifier`. The model is mapped from a subdirectory of ``work_dir``, which is removed
        with the estimator and the results that need it; ``save`` makes a copy that stays.

    See Also
    --------
    LabelTreeClassifier : The same on one machine.

    Examples
    --------
    >>> from dask.bag import from_sequence
    >>> from distributed import Client
    >>> texts = from_sequence(["red apple", "green apple", "red car", "blue car"], npartitions=2)
    >>> labels = from_sequence([["fruit"], ["fruit"], ["vehicle"], ["vehicle"]], npartitions=2)
    >>> with Client(processes=False, dashboard_address=":0") as client:
    ...     classifier = DaskLabelTreeClassifier(client).fit(texts, labels)
    ...     best, scores = classifier.predict_top(texts, 1)
    ...     classifier.classes_[best.compute()[:, 0]].tolist()
    ['fruit', 'fruit', 'vehicle', 'vehicle']
    """

    def __init__(
        self,
        client: Any = None,
        *,
        work_dir: Path | str | None = None,
        text: TextSettings | None = None,
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
        normalize: bool = True,
        weights: str | None = StorageSettings.weights,
        prune: float | None = StorageSettings.prune,
        beam: int = DEFAULT_BEAM,
        score_function: str = AUTO,
        score_scale: float | None = None,
        threads: int | None = None,
        memory_limit: int | str | None = None,
        force: bool = False,
    ) -> None:
        super().__init__(
            clusters=clusters,
            max_depth=max_depth,
            trees=trees,
            tree=tree,
            seed=seed,
            loss=loss,
            cost=cost,
            max_cost=max_cost,
            positive_cost=positive_cost,
            tolerance=tolerance,
            max_iterations=max_iterations,
            bias=bias,
            normalize=normalize,
            weights=weights,
            prune=prune,
            beam=beam,
            score_function=score_function,
            score_scale=score_scale,
            threads=threads,
            memory_limit=memory_limit,
            force=force,
        )
        self.client = client
        self.work_dir = work_dir
        self.text = text

    @property
    def client_(self) -> Any:
        """The client that is used: ``client``, or the current one."""
        if self.client is not None:
            return self.client
        try:
            return optional("distributed").get_client()
        except ValueError:
            raise InputError(
                "there is no Dask client",
                hint="create a distributed.Client, or pass one as {client}",
                parameters={"client": None},
            ) from None

    def fit(self, X: Any, y: Any) -> DaskLabelTreeClassifier:  # type: ignore[override]
        """Build the trees and train the model on the cluster.

        Parameters
        ----------
        X : dask array, data frame, series or bag
            Rows of numbers (an array of dense or sparse blocks, a data frame), or documents (a series, a bag,
            or a data frame with one column of text). Or the same in memory.
        y : dask array, data frame, series or bag
            With as many partitions as X, and as many rows in each: an indicator matrix, the class of each
            row, or the list of the names of each row's labels. Or the same in memory, if X is.

        Returns
        -------
        DaskLabelTreeClassifier
            The estimator itself.
        """
        client, parameters = self.client_, self._checked()
        directory = cluster.SharedDirectory(self.work_dir)
        try:
            planned = self._train(client, Path(str(directory)), X, y, parameters)
        except BaseException:
            directory.remove()
            raise
        self.model_ = load(Path(str(directory)) / self._model_name, verify=False)
        self._place = directory
        self.classes_ = planned["classes"]
        self._single = planned["single"]
        self.n_features_in_ = self.model_.n_features
        self.__dict__.pop("feature_names_in_", None)
        if planned["feature_names"] is not None:
            self.feature_names_in_ = np.array(planned["feature_names"], dtype=object)
        if n_not_converged := self.model_.manifest["not_converged"]:
            warnings.warn(
                f"{n_not_converged:,} binary problems did not converge to the tolerance of "
                f"{self.tolerance:g}; scale the features, lower the cost or raise max_iterations.",
                stacklevel=2,
            )
        return self

    def _train(self, client: Any, place: Path, X: Any, y: Any, parameters: dict[str, Any]) -> dict[str, Any]:
        """Train the model in a directory; return what is known about the data."""
        data, work, model = (str(place / name) for name in ("data", "work", self._model_name))
        Path(data).mkdir()
        written = self._write(client, data, X, y)
        planned: dict[str, Any] = self._submit(client, tasks.plan, data, written, work, parameters, self.text)
        shutil.rmtree(data)
        n_parts = cluster.choose_parts(client, *planned["amount"])
        cluster.fill_on_cluster(client, Path(work), n_parts)
        self._submit(client, tasks.join, work, model)
        return planned

    def _write(self, client: Any, directory: str, X: Any, y: Any) -> list[Written]:
        """Write the rows to a directory, each partition by a task."""
        if not is_lazy(X) and not is_lazy(y):
            return [write_partition(directory, 0, X, y)]
        write = optional("dask").delayed(write_partition, pure=False)
        pairs = enumerate(paired_partitions(X, y))
        return cluster.wait_for(client.compute([write(directory, number, *pair) for number, pair in pairs]))

    @staticmethod
    def _submit(client: Any, task: Any, *arguments: Any) -> Any:
        future = client.submit(task, *arguments, pure=False)
        return cluster.wait_for([future])[0]

    def to_local(self) -> LabelTreeClassifier:
        """Return the fitted estimator as one that uses no cluster.

        Returns
        -------
        LabelTreeClassifier
            It shares the model, whose files stay mapped when the directory is removed.
        """
        check_is_fitted(self, "model_")
        local = LabelTreeClassifier(**self._local_parameters())
        for name in ("model_", "classes_", "_single", "n_features_in_", "feature_names_in_"):
            if name in vars(self):
                setattr(local, name, getattr(self, name))
        return local

    @classmethod
    def load(cls, path: Path | str, *, verify: bool | None = None) -> DaskLabelTreeClassifier:
        """Open a model directory, which must be visible to all workers under this name.

        Parameters
        ----------
        path : path-like
        verify : bool, optional
            As in :func:`labeltree.load`.

        Returns
        -------
        DaskLabelTreeClassifier
            The fitted estimator.
        """
        local = LabelTreeClassifier.load(path, verify=verify)
        estimator = cls(**local.get_params(deep=False))
        for name, value in vars(local).items():
            setattr(estimator, name, value)
        estimator._place = Path(path).absolute().parent
        estimator._model_name = Path(path).absolute().name
        return estimator

    def __sklearn_clone__(self) -> DaskLabelTreeClassifier:
        """Return an unfitted copy that uses the same client."""
        return type(self)(**self.get_params(deep=False))

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = dict(super().__getstate__())
        state["client"] = None
        for name in ("_place", "_model_name"):
            state.pop(name, None)
        return state
