"""Slow and simple twins of the native analysis of text: terms, counts and weights, in plain Python."""

import re
from collections import Counter

import numpy as np
from scipy import sparse

_find_words = re.compile(r"\b\w\w+\b").findall
_whitespace = re.compile(r"\s\s+")


def make_analyzer(analyzer, ngrams, lowercase, stop_words=()):
    """Return a function that splits a document into its terms, as scikit-learn does."""
    shortest, longest = ngrams
    ignored = frozenset(stop_words or ())

    def words(document):
        found = [word for word in _find_words(document) if word not in ignored]
        lengths = range(shortest, min(longest, len(found)) + 1)
        return [" ".join(found[i : i + n]) for n in lengths for i in range(len(found) - n + 1)]

    def characters(document):
        return _substrings(_whitespace.sub(" ", document), shortest, longest)

    def characters_in_words(document):
        terms = []
        for word in document.split():
            padded = f" {word} "
            # A word shorter than the minimum is one term.
            terms += _substrings(padded, min(shortest, len(padded)), longest)
        return terms

    split = {"word": words, "char": characters, "char_wb": characters_in_words}[analyzer]
    return (lambda document: split(document.lower())) if lowercase else split


def _substrings(text, shortest, longest):
    """Return the substrings of each length, shorter ones first."""
    lengths = range(shortest, min(longest, len(text)) + 1)
    return [text[i : i + n] for n in lengths for i in range(len(text) - n + 1)]


def learn(documents, settings):
    """Return the terms, their weights, and the matrix; no terms at all if none is left."""
    settings = settings.resolved()
    analyze = make_analyzer(settings.analyzer, settings.ngrams, settings.lowercase, settings.stop_words)
    numbers = {}
    rows = [Counter(numbers.setdefault(term, len(numbers)) for term in analyze(text)) for text in documents]
    df, occurrences = Counter(), Counter()
    for row in rows:
        df.update(row.keys())
        occurrences.update(row)
    names = [term for term in sorted(numbers) if df[numbers[term]] >= settings.min_df]
    if settings.max_features is not None and len(names) > settings.max_features:
        order = (-np.array([occurrences[numbers[term]] for term in names], np.float64)).argsort()
        names = sorted(names[i] for i in order[: settings.max_features])
    target = {numbers[term]: column for column, term in enumerate(names)}
    idf = np.log((len(rows) + 1) / (np.array([df[numbers[term]] for term in names]) + 1.0)) + 1.0
    return names, idf, weighted(rows, target, idf, settings.sublinear)


def transform(documents, names, idf, settings):
    """Return the matrix of other documents."""
    settings = settings.resolved()
    analyze = make_analyzer(settings.analyzer, settings.ngrams, settings.lowercase, settings.stop_words)
    numbers = {term: column for column, term in enumerate(names)}
    rows = [Counter(numbers[term] for term in analyze(text) if term in numbers) for text in documents]
    return weighted(rows, {column: column for column in range(len(names))}, idf, settings.sublinear)


def weighted(rows, target, idf, sublinear):
    """Return the features of rows of counts, each a dict: squares are added in the order of the terms."""
    ptr, columns, values = [0], [], []
    for row in rows:
        kept = [(target[term], count) for term, count in sorted(row.items()) if term in target]
        frequency = np.array([count for _, count in kept], np.float64)
        if sublinear:
            frequency = np.log(frequency) + 1.0
        weights = frequency * idf[[column for column, _ in kept]]
        squares = 0.0
        for weight in weights.tolist():
            squares += weight * weight
        weights /= np.sqrt(squares) or 1.0
        entries = sorted(zip((column for column, _ in kept), weights.astype(np.float32), strict=True))
        columns += [column for column, _ in entries]
        values += [value for _, value in entries]
        ptr.append(len(columns))
    return sparse.csr_matrix(
        (np.array(values, np.float32), np.array(columns, np.int32), np.array(ptr)), (len(rows), len(idf))
    )
