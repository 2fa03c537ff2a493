"""TF-IDF: documents in, a sparse matrix out; stored as plain arrays and JSON.

The numbers are those of scikit-learn's TfidfVectorizer, bit for bit after a cast to float32, without
importing it: terms are counted and weighted by native code.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from labeltree import _native
from labeltree.base.display import warn
from labeltree.base.system import threads_to_use
from labeltree.data.columns import Columns
from labeltree.data.dataset import wrap_csr
from labeltree.errors import InputError, NoTermError
from labeltree.settings import TextSettings

if TYPE_CHECKING:
    from sklearn.feature_extraction.text import TfidfVectorizer

SETTINGS_FILE, TERMS_FILE, IDF_FILE = "text/settings.json", "text/terms.json", "text/idf.npy"

_SCIKIT_LEARN_BYTES = 100 << 20  # once imported, for its list of English stop words
_TERM_BYTES = 90  # a Python string and its pointer in a tuple


@dataclass(frozen=True, eq=False, repr=False)
class TextFeatures:
    """Terms and their weights, learned from documents, to compute the features of other documents.

    Created by `learn_features`; a model trained on documents has
    one as ``model.text``.

    Attributes
    ----------
    settings : TextSettings
    names : tuple of str
        The terms in the order of the columns, sorted.
    idf : ndarray of float64
        The inverse document frequency of each term: log((1 + n) / (1 + df)) + 1.
    columns : Columns
        Where the text was found in the training file; the default for other files.
    """

    settings: TextSettings
    names: tuple[str, ...]
    idf: NDArray[np.float64]
    columns: Columns = field(default_factory=Columns)

    def __repr__(self) -> str:
        return f"TextFeatures({len(self.names)} terms, {self.settings})"

    @property
    def memory(self) -> int:
        """int: Approximate bytes of memory, including scikit-learn if it was imported to learn."""
        imported = 0 if self.settings.stop_words is None else _SCIKIT_LEARN_BYTES
        return imported + (_TERM_BYTES + 8) * len(self.names)

    def transform(self, documents: Iterable[str], *, threads: int | None = None) -> sparse.csr_matrix:
        """Compute the features of documents.

        Parameters
        ----------
        documents : iterable of str
            Read one at a time and not kept.
        threads : int, optional
            Threads to use; the result does not depend on it. Default: all CPUs.

        Returns
        -------
        scipy.sparse.csr_matrix of float32, shape (documents, terms)
            Rows have an L2 norm of 1, or 0 if a document has no known term.
        """
        # A document is analyzed by one thread. Counting CPUs would take as long as analyzing it.
        single = threads is None and isinstance(documents, Sequence) and len(documents) == 1
        threads = 1 if single else threads_to_use(threads)
        counts = _count(documents, self.settings, self._analyzer, threads, self._vocabulary)
        return _weigh(counts, None, self.idf, self.settings, threads)

    def vectorizer(self) -> TfidfVectorizer:
        """Return a fitted TfidfVectorizer of scikit-learn that computes the same features in float64."""
        made = self.settings.vectorizer().set_params(
            vocabulary={term: i for i, term in enumerate(self.names)}
        )
        made.idf_ = self.idf
        return made

    @cached_property
    def _vocabulary(self) -> _native.Vocabulary:
        return _native.Vocabulary(self.names)

    @cached_property
    def _analyzer(self) -> _native.Analyzer:
        return make_analyzer(self.settings)

    @cached_property
    def contents(self) -> dict[str, bytes]:
        """dict of str to bytes: The files to store, by their names in the model directory."""
        settings = {"tfidf": self.settings.stored(), "columns": self.columns.stored()}
        idf = io.BytesIO()
        np.save(idf, self.idf.astype("<f8"), allow_pickle=False)
        return {
            SETTINGS_FILE: json.dumps(settings, ensure_ascii=False, indent=1).encode(),
            TERMS_FILE: json.dumps(self.names, ensure_ascii=False, indent=0).encode(),
            IDF_FILE: idf.getvalue(),
        }

    def __getstate__(self) -> dict[str, Any]:
        """Return what pickle keeps: the fields, without what is computed from them."""
        return {item.name: getattr(self, item.name) for item in fields(self)}


def learn_features(
    documents: Iterable[str],
    settings: TextSettings | None = None,
    columns: Columns | None = None,
    *,
    threads: int | None = None,
) -> tuple[TextFeatures, sparse.csr_matrix]:
    """Learn terms and their weights from documents, and compute the features of the same documents.

    Only the matrix, the vocabulary and a few documents at a time are in memory. X is as from
    ``TfidfVectorizer.fit_transform``, on any number of threads; `columns`, where the text was found, is
    stored with the terms. If no term is left, the error is a NoTermError.
    """
    settings, threads = (settings or TextSettings()).resolved(), threads_to_use(threads)
    _warn_about_stop_words(settings)
    counts = _count(documents, settings, make_analyzer(settings), threads)
    df, occurrences = counts.totals()
    order = counts.sorted_terms()
    kept = df[order] >= settings.min_df
    limit = settings.max_features
    if limit is not None and kept.sum() > limit:
        places = np.flatnonzero(kept)
        # Sorted as by scikit-learn, so that ties are broken in the same way.
        by_frequency = (-occurrences[order[places]].astype(np.float64)).argsort()
        kept[:] = False
        kept[places[by_frequency[:limit]]] = True
    if not kept.any():
        raise _no_term(counts.n_documents, len(order), settings)
    target = np.full(len(order), -1, np.int32)
    order = order[kept]
    target[order] = np.arange(len(order))
    names = counts.names(order)
    try:
        "".join(names).encode()
    except UnicodeEncodeError:
        what = "a document contains an unpaired surrogate"
        raise InputError(what, hint="use valid Unicode text") from None
    idf = np.log((counts.n_documents + 1) / (df[order] + 1.0)) + 1.0
    X = _weigh(counts, target, idf, settings, threads)
    return TextFeatures(settings, names, idf, columns or Columns()), X


def _no_term(n_documents: int, n_terms: int, settings: TextSettings) -> NoTermError:
    if not n_documents:
        return NoTermError("there are no documents to learn from")
    if n_terms:
        what = f"no term occurs in {settings.min_df:,} or more documents"
        return NoTermError(what, hint="lower {min_df}")
    if settings.analyzer == "word" and settings.ngrams[0] == 1 and not settings.stop_words:
        what = "the documents contain no words of two or more characters"
        return NoTermError(what, hint="choose another {analyzer}")
    return NoTermError("the documents contain no terms", hint="check {analyzer}, {ngrams} and {stop_words}")


def _warn_about_stop_words(settings: TextSettings) -> None:
    """Warn about stop words that have no effect because the analyzer splits or lowercases them."""
    ignored = frozenset(settings.stop_words or ())
    split = make_analyzer(TextSettings(lowercase=settings.lowercase))
    kept = sorted({word for stop_word in ignored for word in split(stop_word)} - ignored)
    if kept:
        warn(
            "After tokenization, some stop words become terms that are not in the stop-word list: "
            f"{', '.join(kept[:20])}; add them to stop_words."
        )


CHUNK_BYTES = 1 << 19  # text that a thread analyzes at a time
_MOST_LENGTHS = 16


def make_analyzer(settings: TextSettings) -> _native.Analyzer:
    """Return a function that splits a document into its terms."""
    ignored = settings.resolved().stop_words or ()
    return _native.Analyzer(settings.analyzer, *settings.ngrams, settings.lowercase, ignored)


def _count(
    documents: Iterable[str],
    settings: TextSettings,
    analyzer: _native.Analyzer,
    threads: int,
    known: _native.Vocabulary | None = None,
) -> _native.TermCounts:
    """Count the terms of documents: the known ones, or all, numbered in the order of their appearance."""
    shortest, longest = settings.ngrams
    n_lengths = min(longest - shortest + 1, _MOST_LENGTHS)  # each adds terms to those of a chunk
    counts = _native.TermCounts(analyzer, known, threads, max(1, CHUNK_BYTES // n_lengths))
    clean = settings.cleaner()
    for document in documents if clean is None else map(clean, documents):
        counts.append(document)
    counts.flush()
    return counts


def _weigh(
    counts: _native.TermCounts,
    target: NDArray[np.int32] | None,
    idf: NDArray[np.float64],
    settings: TextSettings,
    threads: int,
) -> sparse.csr_matrix:
    """Turn counts into features in place; the counts are lost.

    `target` is the column of each term, -1 to leave it out; None if the terms are the columns.
    """
    levels = counts.distinct_counts()
    frequency = levels.astype(np.float64)
    if settings.sublinear:  # by NumPy, as in scikit-learn: other logarithms round differently
        frequency = np.log(frequency) + 1.0
    ptr, columns, values = counts.arrays()
    _native.weight_terms(ptr, columns, values, target, idf, levels, frequency, threads)
    n_rows, filled = len(ptr) - 1, int(ptr[-1])
    X = wrap_csr(values[:filled].view(np.float32), columns[:filled], ptr, (n_rows, len(idf)))
    X.has_canonical_format = True
    return X
