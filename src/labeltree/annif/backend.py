"""The backend class: trains a model from Annif's documents, and suggests subjects."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from annif.backend.backend import AnnifBackend
from annif.exception import (
    ConfigurationException,
    NotInitializedException,
    NotSupportedException,
    OperationFailedException,
)
from annif.suggestion import SuggestionBatch
from scipy import sparse

from labeltree.annif import parameters
from labeltree.annif.training_data import FITTED, VECTORIZER, read_training_data, write_training_data
from labeltree.base.files import write_whole
from labeltree.base.system import human_bytes
from labeltree.data.dataset import Dataset
from labeltree.errors import InputError
from labeltree.model.layout import MANIFEST
from labeltree.model.model import Model, load
from labeltree.training.work import WorkDirectory, work_path
from labeltree.trees.tree import pointers
from labeltree.verbs import train


class LabelTreeBackend(AnnifBackend):  # type: ignore[misc]  # Annif has no type hints
    """Annif's interface to labeltree; see `labeltree.annif.register`.

    Texts are split by the project's analyzer, and weighted by TF-IDF. The parameters are those of
    `labeltree.annif.parameters`.
    """

    name = "labeltree"
    DEFAULT_PARAMETERS = parameters.DEFAULTS
    MODEL = "labeltree-model"

    _model: Model | None = None
    _parallel = False

    @property
    def _model_path(self) -> Path:
        return Path(self.datadir, self.MODEL)

    @property
    def is_trained(self) -> bool:
        """Whether there is a complete model, not only an interrupted run."""
        return (self._model_path / MANIFEST).is_file() and Path(self.datadir, VECTORIZER).is_file()

    @property
    def modification_time(self) -> datetime | None:
        """When the model was trained."""
        if not self.is_trained:
            return None
        return datetime.fromtimestamp((self._model_path / MANIFEST).stat().st_mtime, tz=timezone.utc)

    def initialize(self, parallel: bool = False) -> None:
        """Open the model, unless it is open; if several processes work in parallel, each uses one thread."""
        self._parallel |= parallel
        if self._model is not None:
            return
        if not self.is_trained:
            raise NotInitializedException(f"no model in {self.datadir}", backend_id=self.backend_id)
        self.debug(f"loading model from {self._model_path}")
        with self._reporting(OperationFailedException):
            model = load(self._model_path)
        # A pickle, as all of Annif's are: trust the data directory.
        vectorizer = joblib.load(Path(self.datadir, VECTORIZER))
        if len(vectorizer.vocabulary_) != model.n_features:
            message = "the vectorizer does not belong to the model; train the project again"
            raise OperationFailedException(message, backend_id=self.backend_id)
        self._vectorizer = vectorizer
        subjects = self.project.subjects
        found = [subjects.by_uri(uri, warnings=False) for uri in model.label_names or ()]
        ids = [-1 if number is None or self._uri_of(number) is None else number for number in found]
        # The number of the subject of each label; -1 if it is no longer in the vocabulary.
        self._subject_ids = np.array(ids, np.int64)
        self._model = model

    def _uri_of(self, subject_id: int) -> str | None:
        """Return the URI of a subject; None if it is deprecated or excluded."""
        try:
            return str(self.project.subjects[subject_id].uri)
        except IndexError:
            return None

    def _train(self, corpus: Any, params: dict[str, Any], jobs: int = 0) -> None:
        directory = Path(self.datadir)
        with self._reporting(ConfigurationException):
            settings = parameters.parse(params)
        for name, meant in parameters.misspelled(params).items():
            self.warning(f"there is no parameter {name}, use {meant}")
        if isinstance(corpus, str) and corpus == "cached":
            self.info("Reusing cached training data from previous run.")
        elif corpus.is_empty():
            message = "Cannot train labeltree project with no documents"
            raise NotSupportedException(message, backend_id=self.backend_id)
        else:
            self.info("creating training data")
            documents = ((document.text, list(document.subject_set)) for document in corpus.documents)
            subjects, tokenize = self.project.subjects, self.project.analyzer.tokenize_words
            with self._reporting(NotSupportedException):
                write_training_data(directory, documents, len(subjects), tokenize, settings)
        threads = jobs or None
        with self._reporting(NotSupportedException):
            data = read_training_data(directory, self._uri_of, threads)
        self.info(
            f"training on {data.n_instances:,} documents with {data.n_features:,} terms "
            f"and {data.n_labels:,} subjects"
        )
        with self._reporting(OperationFailedException), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = self._train_model(data, settings, threads)
        for warning in caught:
            self.warning(str(warning.message))
        # The vectorizer of the training data becomes that of the model.
        with open(directory / FITTED, "rb") as fitted, write_whole(directory / VECTORIZER) as file:
            shutil.copyfileobj(fitted, file)
        self._model = None  # that of the previous run
        self.info(f"the model takes {human_bytes(model.bytes)}")

    def _train_model(self, data: Dataset, settings: dict[str, Any], threads: int | None) -> Model:
        """Train, and replace an old model; continue an interrupted run of the same data and settings."""
        options = {name: settings[name] for name in parameters.TRAINING}
        try:
            return train(data, path=self._model_path, threads=threads, overwrite=True, resume=True, **options)
        except InputError as error:
            work = work_path(self._model_path)
            if error.file != str(work):
                raise
            with WorkDirectory(work):  # an error if another process uses it
                shutil.rmtree(work)
        return train(data, path=self._model_path, threads=threads, overwrite=True, **options)

    def _suggest_batch(self, documents: list[Any], params: dict[str, Any]) -> SuggestionBatch:
        assert self._model is not None
        with self._reporting(ConfigurationException):
            settings = parameters.parse(params)
        n_subjects = len(self.project.subjects)
        if not documents:
            return SuggestionBatch(sparse.csr_array((0, n_subjects), dtype=np.float32))
        rows = self._vectorizer.transform([document.text for document in documents])
        labels, scores = self._model.predict(
            rows, top=settings["limit"], beam=settings["beam"], threads=1 if self._parallel else None
        )
        subjects = self._subject_ids[labels]
        # A document without a known term would get the labels that are frequent.
        found = (labels >= 0) & (subjects >= 0) & (np.diff(rows.indptr) > 0)[:, np.newaxis]
        suggested = sparse.csr_array(
            (scores[found], subjects[found], pointers(found.sum(axis=1))), shape=(len(documents), n_subjects)
        )
        suggested.sort_indices()
        return SuggestionBatch(suggested)

    @contextmanager
    def _reporting(self, kind: type[Any]) -> Iterator[None]:
        """Turn errors that the user can fix into Annif's, which its command line and its service show."""
        try:
            yield
        except InputError as error:
            raise kind(str(error), backend_id=self.backend_id) from None
