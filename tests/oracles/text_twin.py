"""Slow and simple twins of the native analysis of text: terms, counts and weights, in plain Python."""

import html
import re
import unicodedata
from collections import Counter
from string import ascii_letters, whitespace

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


def clean(document, settings):
    """Return a document without HTML and with normalized characters, as the settings say."""
    if settings.strip_html:
        document = html.unescape(strip_markup(document))
    return document if settings.unicode is None else unicodedata.normalize("NFKC", document)


def strip_markup(text):
    """Replace markup by spaces, one character at a time."""
    found, i = [], 0
    while i < len(text):
        end = _end_of_markup(text, i) if text[i] == "<" else None
        found.append(text[i] if end is None else " ")
        i = i + 1 if end is None else end
    return "".join(found)


def _end_of_markup(text, start):
    """Return where the markup that begins here ends; None if it is not markup."""
    rest = text[start:]
    if rest.startswith("<!--"):
        return (text.find("-->", start + 4) + 3) if "-->" in rest[4:] else len(text)
    for name in ("script", "style"):
        after = rest[len(name) + 1 :]
        if rest[1 : len(name) + 1].lower() == name and after and after[0] in f"{whitespace}/>":
            for i in range(start, len(text)):
                if text[i : i + len(name) + 2].lower() == f"</{name}":
                    tail = text[i + len(name) + 2 :]
                    if tail.lstrip(whitespace).startswith(">"):
                        return len(text) - len(tail.lstrip(whitespace)) + 1
            return len(text)
    body = start + (2 if rest.startswith("</") else 1)
    if rest[1:2] not in ("!", "?") and text[body : body + 1] not in (*ascii_letters,):
        return None
    quote, ends = None, []
    for i in range(body, len(text)):  # up to a ">" outside of quotes, or to any if a quote is not closed
        if text[i] == "<":
            break
        if text[i] == ">":
            ends.append(i + 1)
            if quote is None or rest[1] in "!?":
                return i + 1
        elif text[i] in "\"'" and quote in (None, text[i]):
            quote = None if quote else text[i]
    return ends[0] if ends else None


def _substrings(text, shortest, longest):
    """Return the substrings of each length, shorter ones first."""
    lengths = range(shortest, min(longest, len(text)) + 1)
    return [text[i : i + n] for n in lengths for i in range(len(text) - n + 1)]


def learn(documents, settings):
    """Return the terms, their weights, and the matrix; no terms at all if none is left."""
    settings = settings.resolved()
    analyze = make_analyzer(settings.analyzer, settings.ngrams, settings.lowercase, settings.stop_words)
    numbers = {}
    rows = [
        Counter(numbers.setdefault(term, len(numbers)) for term in analyze(clean(text, settings)))
        for text in documents
    ]
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
    rows = [
        Counter(numbers[term] for term in analyze(clean(text, settings)) if term in numbers)
        for text in documents
    ]
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
