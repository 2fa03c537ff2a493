"""Split documents into terms as scikit-learn's TfidfVectorizer does: the same terms, in the same order."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection

WORD_PATTERN = r"\b\w\w+\b"  # two or more letters, digits or underscores

Analyze = Callable[[str], list[str]]

_find_words = re.compile(WORD_PATTERN).findall
_whitespace = re.compile(r"\s\s+")


def make_analyzer(
    analyzer: str, ngrams: tuple[int, int], lowercase: bool, stop_words: Collection[str] | None = None
) -> Analyze:
    """Return a function that splits a document into its terms.

    The analyzer of scikit-learn is not used because importing it takes far longer than answering a query.

    Parameters
    ----------
    analyzer : {"word", "char", "char_wb"}
        What terms are made of: words, characters, or characters within a word.
    ngrams : tuple of int
        Minimum and maximum number of words or characters in a term.
    lowercase : bool
        Lowercase the document first.
    stop_words : collection of str, optional
        Words to leave out; only for the analyzer "word".

    Examples
    --------
    >>> make_analyzer("word", (1, 2), True)("To be or not")
    ['to', 'be', 'or', 'not', 'to be', 'be or', 'or not']
    """
    shortest, longest = ngrams
    ignored = frozenset(stop_words or ())

    def words(document: str) -> list[str]:
        found: list[str] = _find_words(document)
        if ignored:
            found = [word for word in found if word not in ignored]
        if longest == 1:
            return found
        lengths = range(shortest, min(longest, len(found)) + 1)
        return [" ".join(found[i : i + n]) for n in lengths for i in range(len(found) - n + 1)]

    def characters(document: str) -> list[str]:
        return _substrings(_whitespace.sub(" ", document), shortest, longest)

    def characters_in_words(document: str) -> list[str]:
        terms: list[str] = []
        for word in document.split():
            padded = f" {word} "
            # A word shorter than the minimum is one term.
            terms += _substrings(padded, min(shortest, len(padded)), longest)
        return terms

    split = {"word": words, "char": characters, "char_wb": characters_in_words}[analyzer]
    return (lambda document: split(document.lower())) if lowercase else split


def _substrings(text: str, shortest: int, longest: int) -> list[str]:
    """Return the substrings of each length, shorter ones first."""
    lengths = range(shortest, min(longest, len(text)) + 1)
    return [text[i : i + n] for n in lengths for i in range(len(text) - n + 1)]
