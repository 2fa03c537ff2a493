"""TF-IDF: documents in, a sparse matrix out; stored as plain arrays and JSON.

The numbers are those of scikit-learn's TfidfVectorizer, bit for bit after a cast to float32, without
importing it: `analyzer.py` splits documents into terms, `term_counts.py` counts and weights them.
"""

from __future__ import annotations

import io
import json
import warnings
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from labeltree.errors import InputError, NoTermError
from labeltree.store import RESTORE, ModelReader
from labeltree.text.analyzer import Analyze, make_analyzer
from labeltree.text.formats import Columns
from labeltree.text.settings import TextSettings
from labeltree.text.term_counts import Known, TermCounts

if TYPE_CHECKING:
    from sklearn.feature_extraction.text import TfidfVectorizer

SETTINGS_FILE, TERMS_FILE, IDF_FILE = "text/settings.json", "text/terms.json", "text/idf.npy"

_SCIKIT_LEARN_BYTES = 100 << 20  # once imported, for its list of English stop words
_TERM_BYTES = 90  # a Python string and its pointer in a tuple


@dataclass(frozen=True, eq=False, repr=False)
class TextFeatures:
    """Terms and their weights, learned from documents, to compute the features of other documents.

    Created by :func:`learn_features` and :func:`labeltree.read_documents`; a model trained on documents has
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

    def transform(self, documents: Iterable[str]) -> sparse.csr_matrix:
        """Compute the features of documents.

        Parameters
        ----------
        documents : iterable of str
            Read one at a time and not kept.

        Returns
        -------
        scipy.sparse.csr_matrix of float32, shape (documents, terms)
            Rows have an L2 norm of 1, or 0 if a document has no known term.
        """
        counts = TermCounts(documents, self._vocabulary, self._analyze)
        return counts.weighted(np.arange(len(self.names), dtype=np.int32), self.idf, self.settings.sublinear)

    def vectorizer(self) -> TfidfVectorizer:
        """Return a fitted TfidfVectorizer of scikit-learn that computes the same features in float64."""
        made = self.settings.vectorizer().set_params(vocabulary=dict(self._vocabulary))
        made.idf_ = self.idf
        return made

    @cached_property
    def _vocabulary(self) -> Known:
        return Known((term, column) for column, term in enumerate(self.names))

    @cached_property
    def _analyze(self) -> Analyze:
        return self.settings.resolved().make_analyzer()

    @cached_property
    def contents(self) -> dict[str, bytes]:
        """dict of str to bytes: The files to store, by their names in the model directory."""
        settings = {"tfidf": asdict(self.settings), "columns": asdict(self.columns)}
        idf = io.BytesIO()
        np.save(idf, self.idf.astype("<f8"), allow_pickle=False)
        return {
            SETTINGS_FILE: json.dumps(settings, ensure_ascii=False, indent=1).encode(),
            TERMS_FILE: json.dumps(self.names, ensure_ascii=False, indent=0).encode(),
            IDF_FILE: idf.getvalue(),
        }

    @classmethod
    def load(cls, reader: ModelReader, n_features: int) -> TextFeatures:
        """Read and check the files in a model directory."""
        idf = reader.array(IDF_FILE, "<f8", n_features)
        terms, content = reader.text(TERMS_FILE), reader.text(SETTINGS_FILE)
        if not (np.isfinite(idf) & (idf > 0)).all():
            raise _damaged(reader, IDF_FILE, "the file contains invalid weights")
        try:
            names = json.loads(terms)
        except (ValueError, RecursionError):
            names = None
        if not (
            isinstance(names, list)
            and all(isinstance(name, str) for name in names)
            and len(names) == len(set(names)) == n_features
        ):
            what = f"expected {n_features:,} distinct terms, one per feature"
            raise _damaged(reader, TERMS_FILE, what)
        try:
            stored = json.loads(content)
            settings, columns = stored["tfidf"], stored["columns"]
            if columns["separators"] is not None:
                columns["separators"] = tuple(map(str, columns["separators"]))
            expected = {item.name for item in fields(TextSettings)}
            if set(settings) != expected or {type(columns["text"]), type(columns["labels"])} != {str}:
                raise ValueError(stored)
            return cls(TextSettings(**settings), tuple(names), idf, Columns(**columns))
        except (KeyError, TypeError, ValueError, RecursionError):  # an InputError is a ValueError
            raise _damaged(reader, SETTINGS_FILE, "the settings of TF-IDF are invalid") from None


def _damaged(reader: ModelReader, name: str, what: str) -> InputError:
    return InputError(what, file=reader.path / name, hint=RESTORE)


def learn_features(
    documents: Iterable[str], settings: TextSettings | None = None, columns: Columns | None = None
) -> tuple[TextFeatures, sparse.csr_matrix]:
    """Learn terms and their weights from documents, and compute the features of the same documents.

    Only the matrix, the vocabulary and one document at a time are in memory.

    Parameters
    ----------
    documents : iterable of str
        Read one at a time and not kept.
    settings : TextSettings, optional
    columns : Columns, optional
        Where the text was found, to be stored with the terms.

    Returns
    -------
    features : TextFeatures
    X : scipy.sparse.csr_matrix of float32, shape (documents, terms)
        As from ``TfidfVectorizer.fit_transform``.

    Raises
    ------
    NoTermError
        If no term is left. It is an InputError.
    """
    settings = (settings or TextSettings()).resolved()
    _warn_about_stop_words(settings)
    vocabulary: defaultdict[str, int] = defaultdict()
    vocabulary.default_factory = vocabulary.__len__  # a new term gets the next number
    counts = TermCounts(documents, vocabulary, settings.make_analyzer())
    df, occurrences = counts.totals(len(vocabulary))
    terms = sorted(vocabulary)
    order = np.fromiter((vocabulary[term] for term in terms), np.int64, len(terms))
    del vocabulary
    kept = df[order] >= settings.min_df
    limit = settings.max_features
    if limit is not None and kept.sum() > limit:
        places = np.flatnonzero(kept)
        # Sorted as by scikit-learn, so that ties are broken in the same way.
        by_frequency = (-occurrences[order[places]].astype(np.float64)).argsort()
        kept[:] = False
        kept[places[by_frequency[:limit]]] = True
    if not kept.any():
        raise _no_term(counts.n_documents, len(terms), settings)
    names = tuple(term for term, stays in zip(terms, kept.tolist(), strict=True) if stays)
    try:
        "".join(names).encode()
    except UnicodeEncodeError:
        what = "a document contains an unpaired surrogate"
        raise InputError(what, hint="use valid Unicode text") from None
    order = order[kept]
    target = np.full(len(terms), -1, np.int32)
    target[order] = np.arange(len(names))
    idf = np.log((counts.n_documents + 1) / (df[order] + 1.0)) + 1.0
    X = counts.weighted(target, idf, settings.sublinear)
    return TextFeatures(settings, names, idf, columns or Columns()), X


def _no_term(n_documents: int, n_terms: int, settings: TextSettings) -> NoTermError:
    if not n_documents:
        return NoTermError("there are no documents to learn from")
    if n_terms:
        what = f"no term occurs in {settings.min_df:,} or more documents"
        return NoTermError(what, hint="lower {min_df}", parameters={"min_df": None})
    if settings.analyzer == "word" and settings.ngrams[0] == 1 and not settings.stop_words:
        what = "the documents contain no words of two or more characters"
        return NoTermError(what, hint="choose another {analyzer}", parameters={"analyzer": None})
    return NoTermError(
        "the documents contain no terms",
        hint="check {analyzer}, {ngrams} and {stop_words}",
        parameters={"analyzer": None, "ngrams": None, "stop_words": None},
    )


def _warn_about_stop_words(settings: TextSettings) -> None:
    """Warn about stop words that have no effect because the analyzer splits or lowercases them."""
    ignored = frozenset(settings.stop_words or ())
    split = make_analyzer("word", (1, 1), settings.lowercase)
    kept = sorted({word for stop_word in ignored for word in split(stop_word)} - ignored)
    if kept:
        warnings.warn(
            "After tokenization, some stop words become terms that are not in the stop-word list: "
            f"{', '.join(kept[:20])}; add them to stop_words.",
            stacklevel=3,
        )
