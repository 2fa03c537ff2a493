"""The settings of TF-IDF: how documents become features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from labeltree.base import limits
from labeltree.errors import InputError

if TYPE_CHECKING:
    from sklearn.feature_extraction.text import TfidfVectorizer

_WORD_PATTERN = r"\b\w\w+\b"  # two or more letters, digits or underscores

TEXT_LIMITS: dict[str, limits.Limit] = {
    "analyzer": limits.ANALYZER,
    "ngrams": limits.NGRAMS,
    "min_df": limits.MIN_DF,
    "max_features": limits.Optional(limits.MAX_FEATURES),
    "sublinear": limits.FLAG,
    "stop_words": limits.Optional(limits.STOP_WORDS),
    "lowercase": limits.FLAG,
}


@dataclass(frozen=True)
class TextSettings:
    """How a document becomes features. The options mean the same as those of scikit-learn's TfidfVectorizer.

    Parameters
    ----------
    analyzer : {"word", "char", "char_wb"}
        Terms are words of two or more characters, substrings, or substrings within words.
    ngrams : tuple of int, default (1, 1)
        Minimum and maximum number of words or characters in a term.
    min_df : int, default 1
        Leave out terms that occur in fewer documents.
    max_features : int, optional
        Keep only this many terms, the most frequent ones.
    sublinear : bool, default True
        Count a term that occurs n times in a document as 1 + log(n) instead of n. Unlike in scikit-learn,
        this is the default, because it gives better rankings.
    stop_words : "english" or sequence of str, optional
        Words to leave out. "english" is the list of the installed scikit-learn; the words are stored.
    lowercase : bool, default True
        Lowercase the text.
    """

    analyzer: str = "word"
    ngrams: tuple[int, int] = (1, 1)
    min_df: int = 1
    max_features: int | None = None
    sublinear: bool = True
    stop_words: str | Sequence[str] | None = None
    lowercase: bool = True

    def __post_init__(self) -> None:
        limits.check_fields(self, TEXT_LIMITS)
        if self.stop_words is not None and self.analyzer != "word":
            raise InputError(
                "stop words require the word analyzer",
                hint="remove {stop_words}, or use {analyzer}",
                parameters={"stop_words": None, "analyzer": "word"},
            )

    def resolved(self) -> TextSettings:
        """Return the settings with the stop words themselves, which vary between versions of scikit-learn."""
        if self.stop_words != "english":
            return self
        from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

        return replace(self, stop_words=tuple(sorted(ENGLISH_STOP_WORDS)))

    def vectorizer(self) -> TfidfVectorizer:
        """Return an unfitted TfidfVectorizer with these options."""
        from sklearn.feature_extraction.text import TfidfVectorizer

        words = self.stop_words
        return TfidfVectorizer(
            analyzer=self.analyzer,
            ngram_range=self.ngrams,
            min_df=self.min_df,
            max_features=self.max_features,
            sublinear_tf=self.sublinear,
            stop_words=words if words is None or isinstance(words, str) else list(words),
            lowercase=self.lowercase,
            token_pattern=_WORD_PATTERN if self.analyzer == "word" else None,
        )
