"""Documents are split into scikit-learn's terms, in its order, and weighed to the same bits."""

import platform
import sys

import numpy as np
import pytest
from helpers import examples
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.feature_extraction.text import TfidfTransformer, TfidfVectorizer

from labeltree.text.analyzer import make_analyzer
from labeltree.text.term_counts import tfidf_weights

SPACES = [c for c in map(chr, range(sys.maxunicode + 1)) if c.isspace()]
ODD = ["\u200b", "\ufeff", "\0", "_", "'", "-", "\u0301", "\u200d", "\ud800", "\udc00"]
WORDS = ["a", "I", "The", "x1", "42", "٤٢", "Straße", "İ", "ﬁ", "ΣΑΣ", "東京", "ไทย", "हिन्दी", "ǅ", "👩"]
PIECES = SPACES + ODD + WORDS
DOCUMENTS = st.one_of(
    st.lists(st.sampled_from(PIECES), max_size=40).map("".join),
    st.lists(st.sampled_from(["the", "The", "x", "of", "é", "été"]), max_size=12).map(" ".join),
    st.text(st.characters(codec=None)),  # with surrogates
)
LENGTHS = st.tuples(st.integers(1, 6), st.integers(0, 6)).map(lambda pair: (pair[0], sum(pair)))


def theirs(analyzer, ngrams, lowercase, stop_words=None):
    return TfidfVectorizer(
        analyzer=analyzer, ngram_range=ngrams, lowercase=lowercase, stop_words=stop_words
    ).build_analyzer()


@examples(300)
@given(DOCUMENTS, st.sampled_from(["word", "char", "char_wb"]), LENGTHS, st.booleans())
def test_terms_are_those_of_scikit_learn(document, analyzer, ngrams, lowercase):
    options = (analyzer, ngrams, lowercase)
    assert make_analyzer(*options)(document) == theirs(*options)(document)


@pytest.mark.filterwarnings("ignore:Your stop_words may be inconsistent")
@given(DOCUMENTS, LENGTHS, st.booleans(), st.sets(st.sampled_from(["the", "The", "été", "x1", "東京"])))
def test_stop_words_are_those_of_scikit_learn(document, ngrams, lowercase, stop_words):
    options = ("word", ngrams, lowercase, list(stop_words))
    assert make_analyzer(*options)(document) == theirs(*options)(document)


@pytest.mark.parametrize("analyzer", ["word", "char", "char_wb"])
def test_lengths_beyond_the_document(analyzer):
    for document in ("", " ", "one", "one two"):
        for ngrams in [(1, 1), (1, 10**9), (3, 50), (50, 60), (10**9, 10**9)]:
            options = (analyzer, ngrams, True)
            assert make_analyzer(*options)(document) == theirs(*options)(document)


@pytest.mark.parametrize("sublinear", [True, False])
@given(
    st.integers(0, 2**32 - 1),
    st.lists(st.sampled_from([0, 1, 2, 7, 8, 9, 128, 129, 1000, 5000]), min_size=1, max_size=6),
    st.sampled_from([2, 100, 2**31]),
)
def test_weights_are_those_of_scikit_learn(sublinear, seed, sizes, greatest):
    """In float64, where another order of summation shows: long rows would differ if added pairwise."""
    random = np.random.default_rng(seed)
    n_columns = 6000
    ptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    columns = np.concatenate([random.permutation(n_columns)[:size] for size in sizes], dtype=np.int32)
    counts = random.integers(1, greatest, ptr[-1], dtype=np.int32)
    idf = random.uniform(1, 15, n_columns)
    ours = tfidf_weights(counts, columns, ptr, idf, sublinear)
    transformer = TfidfTransformer(sublinear_tf=sublinear)
    transformer.idf_ = idf
    matrix = sparse.csr_matrix((counts.astype(np.float64), columns, ptr), (len(sizes), n_columns))
    expected = transformer.transform(matrix).data
    if platform.machine() in ("x86_64", "AMD64"):
        assert ours.tobytes() == expected.tobytes()
    else:  # where a compiler may fuse multiplications and additions, scikit-learn's sums round differently
        np.testing.assert_allclose(ours, expected, rtol=1e-12)
