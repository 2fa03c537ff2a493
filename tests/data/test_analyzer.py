"""Documents are split into scikit-learn's terms, in its order, and weighted to the same bits."""

import platform
import sys
from itertools import pairwise

import numpy as np
import pytest
import text_twin
from helpers import examples
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.feature_extraction.text import TfidfTransformer, TfidfVectorizer

from labeltree import TextSettings, _native
from labeltree.data.tfidf import make_analyzer

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


def ours(analyzer, ngrams, lowercase, stop_words=None):
    settings = TextSettings(
        analyzer=analyzer, ngrams=ngrams, lowercase=lowercase, stop_words=stop_words and tuple(stop_words)
    )
    return make_analyzer(settings)


def theirs(analyzer, ngrams, lowercase, stop_words=None):
    return TfidfVectorizer(
        analyzer=analyzer, ngram_range=ngrams, lowercase=lowercase, stop_words=stop_words
    ).build_analyzer()


@examples(300)
@given(DOCUMENTS, st.sampled_from(["word", "char", "char_wb"]), LENGTHS, st.booleans())
def test_terms_are_those_of_scikit_learn(document, analyzer, ngrams, lowercase):
    options = (analyzer, ngrams, lowercase)
    expected = theirs(*options)(document)
    assert ours(*options)(document) == expected
    assert text_twin.make_analyzer(*options)(document) == expected


@pytest.mark.parametrize("lowercase", [True, False])
@pytest.mark.parametrize("analyzer", ["word", "char", "char_wb"])
def test_every_character_is_a_letter_or_a_space_as_in_python(analyzer, lowercase):
    options = (analyzer, (1, 1), lowercase)
    split, twin = ours(*options), text_twin.make_analyzer(*options)
    # Of the planes that Unicode has not assigned, or left to private use, a sixteenth.
    for first in (*range(0, 0x40000, 64), *range(0x40000, sys.maxunicode + 1, 1024)):
        # Without the two characters for which the document is lowercased by Python.
        document = " ".join(f"B{c}" for c in map(chr, range(first, first + 64)) if c not in "İΣ")
        assert split(document) == twin(document)


@pytest.mark.parametrize("document", ["İB", "aΣ", "Σ", "ΑΣ.Σ ÄΣ", "\ud800Σ", "ΑΣ\u0301 Σ"])
def test_characters_that_python_lowercases(document):
    assert ours("char", (1, 1), True)(document) == list(document.lower())


@pytest.mark.filterwarnings("ignore:Your stop_words may be inconsistent")
@given(DOCUMENTS, LENGTHS, st.booleans(), st.sets(st.sampled_from(["the", "The", "été", "x1", "東京"])))
def test_stop_words_are_those_of_scikit_learn(document, ngrams, lowercase, stop_words):
    options = ("word", ngrams, lowercase, list(stop_words))
    expected = theirs(*options)(document)
    assert ours(*options)(document) == expected
    assert text_twin.make_analyzer(*options)(document) == expected


@pytest.mark.parametrize("analyzer", ["word", "char", "char_wb"])
def test_lengths_beyond_the_document(analyzer):
    for document in ("", " ", "one", "one two"):
        for ngrams in [(1, 1), (1, 10**9), (3, 50), (50, 60), (10**9, 10**9)]:
            options = (analyzer, ngrams, True)
            assert ours(*options)(document) == theirs(*options)(document)


@pytest.mark.parametrize("sublinear", [True, False])
@given(
    st.integers(0, 2**32 - 1),
    st.lists(st.sampled_from([0, 1, 2, 7, 8, 9, 128, 129, 1000, 5000]), min_size=1, max_size=6),
    st.sampled_from([2, 100, 2**31]),
)
def test_weights_are_those_of_scikit_learn(sublinear, seed, sizes, greatest):
    random = np.random.default_rng(seed)
    n_columns = 6000
    ptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    rows = [np.sort(random.permutation(n_columns)[:size]) for size in sizes]
    terms = np.concatenate(rows, dtype=np.int32)
    counts = random.integers(1, greatest, ptr[-1], dtype=np.int32)
    idf, target = random.uniform(1, 15, n_columns), random.permutation(n_columns).astype(np.int32)
    transformer = TfidfTransformer(sublinear_tf=sublinear)
    transformer.idf_ = idf
    matrix = sparse.csr_matrix((counts.astype(np.float64), target[terms], ptr), (len(sizes), n_columns))
    theirs = transformer.transform(matrix).astype(np.float32)
    theirs.sort_indices()
    parts = [slice(*pair) for pair in pairwise(ptr.tolist())]
    dicts = [dict(zip(terms[p].tolist(), counts[p].tolist(), strict=True)) for p in parts]
    twin = text_twin.weighted(dicts, dict(enumerate(target.tolist())), idf, sublinear)

    levels = np.unique(counts)
    frequency = np.log(levels.astype(np.float64)) + 1.0 if sublinear else levels.astype(np.float64)
    _native.weight_terms(ptr, terms, counts, target, idf, levels, frequency, 2)
    assert terms.tolist() == twin.indices.tolist() == theirs.indices.tolist()
    assert counts.tobytes() == twin.data.tobytes()
    if platform.machine() in ("x86_64", "AMD64"):
        assert counts.tobytes() == theirs.data.tobytes()
    else:  # where a compiler may fuse multiplications and additions, scikit-learn's sums round differently
        np.testing.assert_allclose(counts.view(np.float32), theirs.data, rtol=1e-6)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"ptr": np.array([0, 3])}, "ptr must end at the number of entries"),
        ({"counts": np.array([1], np.int32)}, "counts must have as many entries as terms"),
        ({"counts": np.array([1, 9], np.int32)}, "levels must hold every count"),
        ({"terms": np.array([0, 2], np.int32)}, "terms holds an index out of range"),
        ({"target": np.array([0, 3], np.int32)}, "target holds a column out of range"),
        ({"frequency": np.array([1.0])}, "frequency must have as many entries as levels"),
        ({"threads": 0}, "threads must be at least 1"),
    ],
)
def test_invalid_arrays_are_refused(wrong, message):
    right = {
        "ptr": np.array([0, 2]),
        "terms": np.array([0, 1], np.int32),
        "counts": np.array([1, 2], np.int32),
        "target": np.array([1, 0], np.int32),
        "idf": np.array([1.0, 2.0]),
        "levels": np.array([1, 2], np.int32),
        "frequency": np.array([1.0, 2.0]),
        "threads": 1,
    }
    with pytest.raises(ValueError, match=message):
        _native.weight_terms(**(right | wrong))
