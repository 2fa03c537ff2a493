"""The backend for Annif: with the released package if it is installed, otherwise with a stand-in."""

from __future__ import annotations

import contextlib
import importlib
import shutil
import sys
from collections import namedtuple
from importlib.util import find_spec
from types import ModuleType, SimpleNamespace

import joblib
import numpy as np
import pytest
from annif_standin import standing_in

import labeltree
import labeltree.annif
from labeltree import InputError
from labeltree.annif import __main__ as command
from labeltree.annif import parameters, training_data
from labeltree.training.work import work_path

HAS_ANNIF = find_spec("annif") is not None
TOPICS = {
    "cats": "a cat purrs and sleeps",
    "dogs": "the dog barks and runs",
    "birds": "birds sing in the morning",
    "fish": "fish swim in cold water",
    "trees": "trees grow leaves in spring",
}
URIS = [f"http://example.org/{name}" for name in TOPICS]
Subject = namedtuple("Subject", "uri labels notation")
Document = namedtuple("Document", "text subject_set")


class Subjects(list):
    """A vocabulary; a subject without labels is deprecated."""

    def __init__(self, uris, deprecated=()):
        super().__init__(Subject(uri, None if uri in deprecated else {"en": uri}, None) for uri in uris)

    def __getitem__(self, number):
        subject = super().__getitem__(number)
        if subject.labels is None:
            raise IndexError("Subject is deprecated")
        return subject

    def by_uri(self, uri, warnings=True):
        return next((n for n, subject in enumerate(list(self)) if subject.uri == uri), None)


class Corpus:
    def __init__(self, documents):
        self._documents = documents
        self.n_reads = 0

    @property
    def documents(self):
        self.n_reads += 1
        return iter(self._documents)

    def is_empty(self):
        return not self._documents


def split_words(text):
    return text.lower().split()


def some_documents():
    texts = [(text, [number]) for number, text in enumerate(TOPICS.values())]
    both = [(f"{a} {b}", [m, n]) for n, (b, _) in enumerate(texts) for m, (a, _) in enumerate(texts) if m < n]
    return [Document(text, subjects) for text, subjects in 3 * texts + both]


@pytest.fixture
def kinds():
    """Annif's exceptions, and the backend class made from its base class."""
    with contextlib.nullcontext() if HAS_ANNIF else standing_in():
        labeltree.annif.register()
        yield SimpleNamespace(
            **vars(importlib.import_module("annif.exception")),
            registered=importlib.import_module("annif.backend")._backend_fns["labeltree"](),
        )


@pytest.fixture
def make(kinds, tmp_path):
    """Make a backend of the project in the test's directory."""

    def make(uris=URIS, deprecated=(), **config):
        project = SimpleNamespace(
            datadir=str(tmp_path),
            project_id="project",
            subjects=Subjects(uris, deprecated),
            analyzer=SimpleNamespace(tokenize_words=split_words),
        )
        config = {"language": "en", "backend": "labeltree", "clusters": "2", **config}
        return kinds.registered("labeltree", config, project)

    return make


def suggested(backend, text, **params):
    array = backend.suggest([Document(text, None)], params).array
    best = np.argsort(-array.toarray()[0], kind="stable")[: array.nnz]
    return [list(list.__iter__(backend.project.subjects))[n].uri.rpartition("/")[2] for n in best]


def test_it_trains_and_suggests(make, kinds, tmp_path):
    backend = make()
    assert kinds.registered.__name__ == "LabelTreeBackend"
    assert not backend.is_trained
    assert backend.modification_time is None
    with pytest.raises(kinds.NotInitializedException, match="no model in"):
        backend.suggest(some_documents()[:1])
    corpus = Corpus(some_documents())
    backend.train(corpus, jobs=1)
    assert corpus.n_reads == 1
    assert backend.is_trained
    assert backend.modification_time.tzinfo is not None
    for name, text in TOPICS.items():
        assert suggested(backend, text)[0] == name
        assert suggested(make(), text, limit="1") == [name]  # opened from disk
    assert suggested(backend, "a cat purrs and the dog barks", limit=2) == ["cats", "dogs"]
    assert labeltree.load(tmp_path / "labeltree-model").label_names == tuple(URIS)


def test_suggestions_are_a_sparse_matrix_of_subjects(make, tmp_path):
    backend = make(uris=["http://example.org/unused", *URIS])
    documents = [Document(text, [n + 1 for n in subjects]) for text, subjects in some_documents()]
    left_out = [Document("no subject at all", []), Document("", [0]), Document("", [])]
    backend.train(Corpus(documents + left_out))
    assert labeltree.read_svm(tmp_path / "labeltree-train.svm").n_instances == len(documents)
    array = backend.suggest([*documents[:3], Document("unknown words", None), Document("", None)]).array
    assert array.shape == (5, 6)
    assert array.dtype == np.float32
    assert np.diff(array.indptr).tolist() == [5, 5, 5, 0, 0]
    assert (array.data > 0).all()
    assert (array.data <= 1).all()
    assert array.toarray().argmax(axis=1).tolist()[:3] == [1, 2, 3]
    assert backend.suggest([]).array.shape == (0, 6)


def test_a_project_is_trained_again(make, tmp_path):
    make().train(Corpus(some_documents()))
    first = (tmp_path / "labeltree-model" / "manifest.json").read_bytes()
    backend = make()
    backend.train("cached", {"trees": "2", "weights": "int8"})
    assert len(labeltree.load(tmp_path / "labeltree-model").trees) == 2
    assert suggested(backend, TOPICS["fish"])[0] == "fish"
    backend.train("cached")
    assert (tmp_path / "labeltree-model" / "manifest.json").read_bytes() == first
    backend.train(Corpus([document for document in some_documents() if 4 not in document.subject_set]))
    assert "trees" not in suggested(backend, TOPICS["trees"])  # the new model is used


def test_the_vocabulary_may_change(make):
    make().train(Corpus(some_documents()))
    reordered = make(uris=[*reversed(URIS)], deprecated=[URIS[0]])
    assert suggested(reordered, TOPICS["dogs"])[0] == "dogs"
    assert "cats" not in suggested(reordered, TOPICS["cats"])
    without = make(uris=URIS[1:])
    assert "cats" not in suggested(without, TOPICS["cats"])
    reordered = make(deprecated=[URIS[0]])
    reordered.train("cached")
    assert labeltree.load(reordered._model_path).label_names == tuple(URIS[1:])


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"limit": "0"}, "limit is 0, expected an integer of at least 1"),
        ({"clusters": "many"}, "clusters is 'many', expected an integer of at least 2"),
        ({"sublinear": "perhaps"}, "sublinear is 'perhaps', expected True or False"),
        (
            {"prune": "0.1", "weights": "float16"},
            "pruned weights are stored as int8, not as float16; remove prune or weights",
        ),
        ({"weights": "int4"}, "weights is 'int4', expected None or one of float32, float16, int8"),
    ],
)
def test_a_wrong_parameter_is_a_configuration_error(make, kinds, params, message, tmp_path):
    with pytest.raises(kinds.ConfigurationException) as caught:
        make(**params).train(Corpus(some_documents()))
    assert caught.value.message == message
    assert not list(tmp_path.iterdir())
    backend = make()
    backend.train(Corpus(some_documents()))
    with pytest.raises(kinds.ConfigurationException) as caught:
        backend.suggest(some_documents()[:1], params)
    assert caught.value.message == message


@pytest.mark.parametrize(
    ("documents", "message"),
    [
        ([], "Cannot train labeltree project with no documents"),
        (
            [Document("", [0])],
            "the documents have no term to learn from; check the analyzer, and lower min_df",
        ),
        ([Document("a text", [])], "no document has both a subject of the vocabulary and a term"),
    ],
)
def test_documents_that_cannot_be_learned_from(make, kinds, documents, message, tmp_path):
    backend = make()
    with pytest.raises(kinds.NotSupportedException) as caught:
        backend.train(Corpus(documents))
    assert caught.value.message.startswith(message)
    assert not list(tmp_path.iterdir())
    with pytest.raises(kinds.NotSupportedException, match="there is no training data of a previous run"):
        backend.train("cached")


def test_an_error_of_reading_documents_is_raised(make):
    def documents():
        yield from some_documents()
        raise ValueError("line 7 is not UTF-8")

    with pytest.raises(ValueError, match="line 7"):
        make().train(Corpus(documents()))


def test_a_failed_run_keeps_the_trained_model(make, kinds, monkeypatch):
    def refuse(*arguments, **options):
        raise InputError("not enough memory", hint="use less")

    backend = make()
    backend.train(Corpus(some_documents()))
    other = [Document(text.replace("cat", "feline"), subjects) for text, subjects in some_documents()]
    monkeypatch.setattr(sys.modules["labeltree.annif.backend"], "train", refuse)
    with pytest.raises(kinds.OperationFailedException, match="not enough memory"):
        backend.train(Corpus(other))
    assert suggested(make(), "a cat purrs")[0] == "cats"


def test_an_interrupted_run_is_no_model_and_can_be_continued_or_replaced(make, tmp_path):
    def interrupt(*arguments, **options):
        raise KeyboardInterrupt

    make().train(Corpus(some_documents()))
    model = tmp_path / "labeltree-model"
    complete = (model / "manifest.json").read_bytes()
    data = training_data.read_training_data(tmp_path, URIS.__getitem__)
    for params in ({}, {"cost": "2"}):
        shutil.rmtree(model)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("labeltree.training.train.train_planned", interrupt)
            with pytest.raises(KeyboardInterrupt):
                labeltree.train(data, path=model, clusters=2)
        assert work_path(model).exists()
        assert not make().is_trained
        make().train("cached", params)
        assert make().is_trained
        assert not work_path(model).exists()
    make().train("cached")
    assert (model / "manifest.json").read_bytes() == complete


def test_a_damaged_model_and_a_foreign_vectorizer(make, kinds, tmp_path):
    make().train(Corpus(some_documents()))
    vectorizer = joblib.load(tmp_path / "vectorizer")
    vectorizer.vocabulary_ = {"cat": 0}
    joblib.dump(vectorizer, tmp_path / "vectorizer")
    with pytest.raises(kinds.OperationFailedException, match="the vectorizer does not belong to the model"):
        make().initialize()
    (tmp_path / "labeltree-model" / "manifest.json").write_text("{}")
    with pytest.raises(kinds.OperationFailedException, match=r"manifest\.json"):
        make().initialize()


def test_parallel_workers_use_one_thread_each(make, monkeypatch):
    backend = make()
    backend.train(Corpus(some_documents()))
    used = []
    predict = labeltree.Model.predict
    monkeypatch.setattr(
        labeltree.Model,
        "predict",
        lambda *a, **options: used.append(options["threads"]) or predict(*a, **options),
    )
    suggested(backend, "a cat")
    backend.initialize(parallel=True)
    suggested(backend, "a cat")  # initializes again, as Annif does
    assert used == [None, 1]


def test_a_misspelled_parameter_is_a_warning(make, monkeypatch):
    backend = make(cluster="3", transform="limit(5000)")
    found = []
    monkeypatch.setattr(backend, "warning", found.append)
    backend.train(Corpus(some_documents()))
    assert found[0] == "there is no parameter cluster, use clusters"
    assert len([message for message in found if "parameter" in message]) == 1


def test_parameters_have_the_defaults_of_labeltree():
    found = parameters.parse({})
    assert set(found) == set(parameters.LIMITS)
    some = {"clusters": 100, "max_depth": 6, "trees": 1, "weights": None, "prune": None, "sublinear": True}
    some |= {"limit": 100, "min_df": 1, "ngram": 1, "beam": 10}
    assert {name: found[name] for name in some} == some


def test_parameters_are_text_or_values():
    text = {"clusters": " 20", "cost": "1e-3", "positive_cost": "2, 1", "prune": "", "sublinear": "off"}
    values = {"clusters": 20, "cost": 0.001, "positive_cost": (2.0, 1.0), "prune": None, "sublinear": False}
    found = parameters.parse(text)
    assert {name: found[name] for name in values} == values
    assert parameters.parse({**values, "positive_cost": [2, 1]}) == found


@pytest.mark.parametrize("value", ["0", "1.5", "nan", "inf", "x", True])
def test_parameters_out_of_range(value):
    with pytest.raises(InputError, match=r"^trees is .*, expected an integer from 1 to 10,000$"):
        parameters.parse({"trees": value})


def test_without_annif(monkeypatch, capsys):
    for name in [name for name in sys.modules if name == "annif" or name.startswith("annif.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "annif", None)
    assert command.main() == 2
    assert capsys.readouterr().err == (
        "error: this needs annif, which is not installed; install it with: pip install annif\n"
    )


def test_a_version_with_another_registry(monkeypatch):
    for name in ("annif", "annif.backend"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    with pytest.raises(InputError, match=r"does not keep its backends in a table; install Annif 1\.4"):
        labeltree.annif.register()


def test_the_command_and_the_application_know_the_backend(monkeypatch):
    calls = []
    with standing_in():
        monkeypatch.setattr(
            sys.modules["annif"], "create_app", lambda *a: calls.append(a) or "app", raising=False
        )
        monkeypatch.setitem(sys.modules, "annif.cli", ModuleType("annif.cli"))
        sys.modules["annif.cli"].cli = lambda prog_name: calls.append(prog_name)
        assert labeltree.annif.create_app("config") == "app"
        assert command.main() == 0
        assert list(sys.modules["annif.backend"]._backend_fns) == ["labeltree"]
    assert calls == [("config",), "labeltree-annif"]


def test_a_project_of_the_released_annif(tmp_path):
    annif = pytest.importorskip("annif")
    corpus, registry, vocab = (
        importlib.import_module(f"annif.{name}") for name in ("corpus", "registry", "vocab")
    )
    labeltree.annif.register()
    (tmp_path / "projects.cfg").write_text(
        "[tree]\nname=tree\nlanguage=en\nbackend=labeltree\nanalyzer=simple\nvocab=animals\nclusters=2\nlimit=3\n"
    )
    (tmp_path / "vocab.tsv").write_text(
        "".join(f"<{uri}>\t{name}\n" for uri, name in zip(URIS, TOPICS, strict=True))
    )
    project = registry.AnnifRegistry(
        str(tmp_path / "projects.cfg"), str(tmp_path / "data"), False
    ).get_project("tree")
    project._analyzer = SimpleNamespace(tokenize_words=split_words)  # Annif's own downloads data
    project.vocab.load_vocabulary(vocab.VocabFileTSV(str(tmp_path / "vocab.tsv"), "en"))
    lines = (f"{text}\t{' '.join(f'<{URIS[n]}>' for n in subjects)}\n" for text, subjects in some_documents())
    (tmp_path / "train.tsv").write_text("".join(lines))
    project.train(corpus.DocumentFileTSV(str(tmp_path / "train.tsv"), project.subjects))
    assert project.is_trained
    assert project.backend.name == "labeltree"
    batch = project.suggest([annif.corpus.Document(text=text) for text in TOPICS.values()])
    assert [next(iter(found)).subject_id for found in batch] == list(range(5))
    assert [len(found) for found in batch] == [3] * 5
