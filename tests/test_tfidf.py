"""Features of text are scikit-learn's to the last bit, when they are learned, and after they were stored."""

import json
import warnings
import weakref

import numpy as np
import pytest
from helpers import examples
from hypothesis import given
from hypothesis import strategies as st
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS, TfidfVectorizer

from labeltree import InputError, TextSettings
from labeltree.store import ModelReader
from labeltree.text import term_counts, tfidf
from labeltree.text.tfidf import TextFeatures, learn_features

WORDS = st.sampled_from(
    ["the", "The", "a", "über", "Straße", "ΣΊΣΥΦΟΣ", "東京", "don't", "42", "x1", "_", "été", "e\u0301te"]
)
TEXTS = st.lists(
    st.one_of(st.lists(WORDS, max_size=30).map(" ".join), st.text(st.characters(exclude_categories=["Cs"]))),
    min_size=1,
    max_size=12,
)
SETTINGS = st.builds(
    TextSettings,
    analyzer=st.just("word"),
    ngrams=st.sampled_from([(1, 1), (1, 2), (2, 3)]),
    min_df=st.integers(1, 2),
    max_features=st.sampled_from([None, 3, 50]),
    sublinear=st.booleans(),
    stop_words=st.sampled_from([None, "english", ("the", "東京")]),
    lowercase=st.booleans(),
) | st.builds(
    TextSettings,
    analyzer=st.sampled_from(["char", "char_wb"]),
    ngrams=st.sampled_from([(1, 1), (2, 4)]),
    min_df=st.integers(1, 2),
    max_features=st.sampled_from([None, 20]),
    sublinear=st.booleans(),
    lowercase=st.booleans(),
)


def sklearns(chosen):
    """What a user of scikit-learn would write for the same options."""
    return TfidfVectorizer(
        analyzer=chosen.analyzer,
        ngram_range=chosen.ngrams,
        min_df=chosen.min_df,
        max_features=chosen.max_features,
        sublinear_tf=chosen.sublinear,
        stop_words=list(chosen.stop_words) if isinstance(chosen.stop_words, tuple) else chosen.stop_words,
        lowercase=chosen.lowercase,
    )


def same(ours, theirs):
    theirs = theirs.astype(np.float32)
    theirs.sort_indices()
    assert ours.dtype == np.float32
    assert ours.shape == theirs.shape
    assert ours.indptr.tolist() == theirs.indptr.tolist()
    assert ours.indices.tolist() == theirs.indices.tolist()
    assert ours.data.tobytes() == theirs.data.tobytes()


def stored(features, place):
    """Write what a model directory would hold, and read it back."""
    (place / "text").mkdir(exist_ok=True)
    for name, content in features.contents.items():
        (place / name).write_bytes(content)
    files = {name: {"bytes": len(content)} for name, content in features.contents.items()}
    return TextFeatures.load(ModelReader(place, {"files": files}), len(features.names))


@examples(150)
@given(TEXTS, TEXTS, SETTINGS)
def test_features_are_scikit_learns_to_the_bit(tmp_path_factory, texts, others, chosen):
    theirs = sklearns(chosen)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of stop words that no text can hold
        try:
            expected = theirs.fit_transform(texts)
        except ValueError:  # no term is left
            with pytest.raises(InputError, match="expected some to learn from"):
                learn_features(iter(texts), chosen)
            return
        features, X = learn_features(iter(texts), chosen)
    same(X, expected)
    assert list(features.names) == theirs.get_feature_names_out().tolist()
    assert features.idf.tobytes() == theirs.idf_.tobytes()
    loaded = stored(features, tmp_path_factory.mktemp("stored"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for one in (features, loaded):
            same(one.transform(iter(others)), theirs.transform(others))
            same(one.transform(others), one.vectorizer().transform(others))
    assert (loaded.settings, loaded.names, loaded.columns) == (
        features.settings,
        features.names,
        features.columns,
    )


@pytest.mark.parametrize("entries", [1, 7, 100])
def test_batches_do_not_matter(monkeypatch, entries):
    random = np.random.default_rng(0)
    texts = [
        " ".join(f"w{n}" for n in random.zipf(1.3, size) if n < 500) for size in random.integers(0, 60, 80)
    ]
    chosen = TextSettings(min_df=2, sublinear=True)
    expected = sklearns(chosen).fit_transform(texts)
    monkeypatch.setattr(term_counts, "_BATCH_ENTRIES", entries)
    features, X = learn_features(texts, chosen)
    same(X, expected)
    same(features.transform(texts), sklearns(chosen).fit(texts).transform(texts))


def test_texts_are_taken_one_at_a_time():
    """Nobody may hold a text when the next is asked for."""

    class Text(str):
        pass

    alive = []

    def texts():
        for n in range(50):
            text = Text(f"word{n} more")
            alive.append(weakref.ref(text))
            yield text
            del text
            assert sum(ref() is not None for ref in alive) <= 1

    features, _ = learn_features(texts())
    features.transform(texts())


def test_what_is_unknown_gives_no_features():
    features, _ = learn_features(["one two", "two three"])
    X = features.transform(["unheard of", "", "two", "?!"])
    assert X.shape == (4, 3)
    assert X.toarray().tolist() == [[0, 0, 0], [0, 0, 0], [0, 0, 1], [0, 0, 0]]
    assert features.transform([]).shape == (0, 3)


def test_stop_words_are_stored_as_they_were():
    features, _ = learn_features(["the end of all"], TextSettings(stop_words="english"))
    assert features.names == ("end",)
    content = json.loads(features.contents[tfidf.SETTINGS_FILE])
    assert content["tfidf"]["stop_words"] == sorted(ENGLISH_STOP_WORDS)


def test_stop_words_that_the_analyzer_changes_are_reported():
    with pytest.warns(UserWarning, match="words that are not left out: don, the; add these"):
        learn_features(["the end"], TextSettings(stop_words=["The", "don't", "end"]))


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ({"analyzer": "letters"}, "analyzer must be one of word, char, char_wb, but got 'letters'"),
        ({"ngrams": (2, 1)}, "ngrams must be"),
        ({"ngrams": (0, 1)}, "ngrams must be"),
        ({"ngrams": (1, 2.5)}, "ngrams must be"),
        ({"min_df": 0}, "min_df must be a whole number of at least 1, but got 0"),
        ({"min_df": None}, "min_df must be"),
        ({"max_features": 0}, "max_features must be"),
        ({"sublinear": 1}, "sublinear must be true or false"),
        ({"stop_words": "klingon"}, "stop_words must be 'english' or a list of words, but got 'klingon'"),
        ({"stop_words": [1]}, "stop_words must be a list of words"),
        ({"stop_words": "english", "analyzer": "char"}, "stop_words are words, but the analyzer is 'char'"),
    ],
)
def test_settings_that_cannot_be(option, said):
    with pytest.raises(InputError, match=said):
        TextSettings(**option)


def test_nothing_left_to_learn():
    with pytest.raises(InputError, match=r"got no term in 3 texts, .* lower min_df"):
        learn_features(["one two", "one"], TextSettings(min_df=3))
    with pytest.raises(InputError, match="half of a surrogate pair"):
        learn_features(["one\ud800"], TextSettings(analyzer="char"))
