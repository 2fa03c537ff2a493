"""Features of documents equal those of scikit-learn bit for bit, also after they were stored and loaded."""

import json
import pickle
import warnings
import weakref

import numpy as np
import pytest
import text_twin
from helpers import examples
from hypothesis import given
from hypothesis import strategies as st
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

from labeltree import InputError, TextSettings
from labeltree.data import tfidf
from labeltree.data.tfidf import learn_features
from labeltree.errors import NoTermError
from labeltree.model.directory import ModelDirectory
from labeltree.model.open import ModelReader, read_text_features

MARKUP = [
    "<p>",
    "</P >",
    "<br/>a",
    "&eacute;",
    "&amp;lt;",
    "<!-- the",
    "-->",
    "<script>",
    "</script>",
    "<a b='>'>",
]
WORDS = st.sampled_from(
    [
        *MARKUP,
        "ﬁ",
        "\uff21",
        "the",
        "The",
        "a",
        "über",
        "Straße",
        "ΣΊΣΥΦΟΣ",
        "東京",
        "don't",
        "42",
        "x1",
        "_",
        "été",
        "e\u0301te",
    ]
)
DOCUMENTS = st.lists(
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
    strip_html=st.booleans(),
    unicode=st.sampled_from([None, "nfkc"]),
) | st.builds(
    TextSettings,
    analyzer=st.sampled_from(["char", "char_wb"]),
    ngrams=st.sampled_from([(1, 1), (2, 4)]),
    min_df=st.integers(1, 2),
    max_features=st.sampled_from([None, 20]),
    sublinear=st.booleans(),
    lowercase=st.booleans(),
    strip_html=st.booleans(),
    unicode=st.sampled_from([None, "nfkc"]),
)


def assert_same(ours, theirs):
    theirs = theirs.astype(np.float32)
    theirs.sort_indices()
    assert ours.dtype == np.float32
    assert ours.shape == theirs.shape
    assert ours.indptr.tolist() == theirs.indptr.tolist()
    assert ours.indices.tolist() == theirs.indices.tolist()
    assert ours.data.tobytes() == theirs.data.tobytes()


def stored(features, place):
    """Write the files of a model directory and load them."""
    (place / "text").mkdir(exist_ok=True)
    for name, content in features.contents.items():
        (place / name).write_bytes(content)
    files = {name: {"bytes": len(content)} for name, content in features.contents.items()}
    with ModelDirectory(place) as directory:
        return read_text_features(ModelReader(directory, {"files": files}), len(features.names))


@examples(150)
@given(DOCUMENTS, DOCUMENTS, SETTINGS)
def test_features_equal_those_of_scikit_learn(tmp_path_factory, documents, others, chosen):
    theirs = chosen.vectorizer()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about stop words that cannot occur
        try:
            expected = theirs.fit_transform(documents)
        except ValueError:  # no term is left
            with pytest.raises(NoTermError):
                learn_features(iter(documents), chosen)
            return
        features, X = learn_features(iter(documents), chosen)
    assert_same(X, expected)
    assert list(features.names) == theirs.get_feature_names_out().tolist()
    assert features.idf.tobytes() == theirs.idf_.tobytes()
    loaded = stored(features, tmp_path_factory.mktemp("stored"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for one in (features, loaded):
            assert_same(one.transform(iter(others)), theirs.transform(others))
            assert_same(one.transform(others), one.vectorizer().transform(others))
    assert (loaded.settings, loaded.names, loaded.columns) == (
        features.settings,
        features.names,
        features.columns,
    )


@examples(150)
@given(
    st.lists(st.one_of(st.lists(WORDS, max_size=30).map(" ".join), st.text(st.characters(codec=None)))),
    SETTINGS,
    st.integers(1, 200),
    st.integers(1, 4),
)
def test_features_equal_those_of_the_twin_on_any_number_of_threads(documents, chosen, chunk_bytes, threads):
    """Also with unpaired surrogates, and however the documents are cut into batches and chunks."""
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        patch.setattr(tfidf, "CHUNK_BYTES", chunk_bytes)
        names, idf, expected = text_twin.learn(documents, chosen)
        if not names or any("\ud800" <= character <= "\udfff" for character in "".join(names)):
            with pytest.raises(InputError, match="surrogate" if names else ""):
                learn_features(documents, chosen, threads=threads)
            return
        features, X = learn_features(documents, chosen, threads=threads)
        assert list(features.names) == names
        assert features.idf.tobytes() == idf.tobytes()
        assert_same(X, expected)
        others = documents[::-1]
        again = text_twin.transform(others, names, idf, chosen)
        assert_same(features.transform(others, threads=threads), again)


def test_an_error_between_batches_is_raised(monkeypatch):
    """The batch that is being analyzed, with the help of Python, does not block its caller."""
    monkeypatch.setattr(tfidf, "CHUNK_BYTES", 10)

    def texts():
        for _ in range(100):
            yield "ΣΑΣ " * 1000
        raise InputError("stop")

    with pytest.raises(InputError, match="stop"):
        learn_features(texts(), threads=2)
    with pytest.raises(TypeError):
        learn_features(["one", 2])


def test_documents_are_read_one_at_a_time():
    """No document is kept when the next is requested."""

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


def test_unknown_terms_give_no_features():
    features, _ = learn_features(["one two", "two three"])
    X = features.transform(["something else", "", "two", "?!"])
    assert X.shape == (4, 3)
    assert X.toarray().tolist() == [[0, 0, 0], [0, 0, 0], [0, 0, 1], [0, 0, 0]]
    assert features.transform([]).shape == (0, 3)


def test_stop_words_are_stored():
    features, _ = learn_features(["the end of all"], TextSettings(stop_words="english"))
    assert features.names == ("end",)
    content = json.loads(features.contents[tfidf.SETTINGS_FILE])
    assert content["tfidf"]["stop_words"] == sorted(ENGLISH_STOP_WORDS)


def test_settings_of_cleaning_are_stored_only_if_they_are_used(tmp_path):
    """Other models keep the bytes that they had before there were these settings."""
    plain = json.loads(learn_features(["one two"])[0].contents[tfidf.SETTINGS_FILE])
    assert list(plain["tfidf"]) == [
        *("analyzer", "ngrams", "min_df", "max_features", "sublinear", "stop_words", "lowercase")
    ]
    settings = TextSettings(strip_html=True, unicode="nfkc")
    features, _ = learn_features(["<p>Th&eacute;</p>", "<p>The\u0301, p &lt; q</p>"], settings)
    assert features.names == ("th\xe9",)
    assert stored(features, tmp_path).settings == settings
    again = pickle.loads(pickle.dumps(features.vectorizer()))
    assert_same(features.transform(["<b>TH\xc9</b>"]), again.transform(["<b>TH\xc9</b>"]))


def test_stop_words_that_the_analyzer_changes_are_reported():
    with pytest.warns(UserWarning, match="terms that are not in the stop-word list: don, the"):
        learn_features(["the end"], TextSettings(stop_words=["The", "don't", "end"]))


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"analyzer": "letters"}, "analyzer is 'letters', expected one of word, char, char_wb"),
        ({"ngrams": (2, 1)}, r"ngrams is \(2, 1\), expected a minimum and a maximum"),
        ({"ngrams": (0, 1)}, r"ngrams is \(0, 1\)"),
        ({"ngrams": (1, 2.5)}, r"ngrams is \(1, 2.5\)"),
        ({"ngrams": 1}, "ngrams is 1,"),
        ({"min_df": 0}, "min_df is 0, expected an integer of at least 1"),
        ({"min_df": None}, "min_df is None"),
        ({"max_features": 0}, "max_features is 0, expected None or an integer of at least 1"),
        ({"sublinear": 1}, "sublinear is 1, expected True or False"),
        ({"lowercase": None}, "lowercase is None"),
        ({"strip_html": "yes"}, "strip_html is 'yes', expected True or False"),
        ({"unicode": "nfc"}, "unicode is 'nfc', expected None or one of nfkc"),
        ({"stop_words": "klingon"}, "stop_words is 'klingon', expected None or 'english' or a list of words"),
        ({"stop_words": [1]}, r"stop_words is \[1\]"),
        ({"stop_words": "english", "analyzer": "char"}, "stop words require the word analyzer"),
    ],
)
def test_invalid_settings(option, message):
    with pytest.raises(InputError, match=message):
        TextSettings(**option)


def test_nothing_left_to_learn():
    with pytest.raises(InputError, match="no term occurs in 3 or more documents; lower min_df"):
        learn_features(["one two", "one"], TextSettings(min_df=3))
    with pytest.raises(InputError, match="an unpaired surrogate"):
        learn_features(["one\ud800"], TextSettings(analyzer="char"))
