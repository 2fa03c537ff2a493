"""Rows of length 1: which are scaled and by how much, and every way to train scales them by default."""

import json
import math
import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from helpers import (
    contents,
    disk_bytes,
    killed_after,
    make_data,
    random_data,
    read_documents,
    topic_data,
    train_small,
)
from hypothesis import assume, example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import labeltree
from labeltree import Dataset, InputError, LabelTreeClassifier, TreeSettings, _native, load, write_svm
from labeltree.data.dataset import TOLERANCE, unit_rows, unit_values
from labeltree.hub.card import model_card
from labeltree.serve.model_quality import Measurements
from labeltree.serve.page import overview
from labeltree.training.default_cost import default_costs
from labeltree.training.parts import open_parts
from labeltree.training.work import work_path
from labeltree.tuning.rows import DataSource, TuningRows

TINY, HUGE = np.float32(1e-45), np.finfo(np.float32).max
finite = st.floats(width=32, allow_nan=False, allow_infinity=False)
matrices = arrays.arrays(
    np.float32,
    arrays.array_shapes(min_dims=2, max_dims=2, max_side=7),
    elements=st.one_of(st.just(0.0), finite, st.floats(-1, 1, width=32)),
)


def square_of(row):
    return math.fsum(float(value) ** 2 for value in row)


def contents_of(X):
    return X.data.tobytes(), X.indices.tobytes(), X.indptr.tobytes()


def same(one, other):
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


# Rows


@given(matrices)
@example(np.array([[TINY, 0], [HUGE, HUGE], [0, 0], [TINY, HUGE]], np.float32))
@example(np.array([[0.6, 0.8], [3, 4]], np.float32))
def test_twin(dense):
    squares = [square_of(row) for row in dense]
    assume(all(abs(abs(square - 1) - TOLERANCE) > 1e-9 for square in squares))  # sums are rounded
    X = sp.csr_matrix(dense)
    before = contents_of(X)
    scaled = unit_rows(X)
    assert contents_of(X) == before
    is_unit = [not square or abs(square - 1) <= TOLERANCE for square in squares]
    assert (scaled is X) == all(is_unit)
    assert scaled.dtype == np.float32
    assert scaled.data.all() or not X.data.all()
    found = scaled.toarray()
    for row, result, square, unit in zip(dense, found, squares, is_unit, strict=True):
        if unit:
            assert np.array_equal(result, row)
            continue
        exact = row.astype(np.float64) / math.sqrt(square)
        # One rounding to float32; those of float64 are far smaller.
        assert (np.abs(result - exact) <= 1.0001 * 2.0**-24 * np.abs(exact) + 2.0**-149).all()
        assert abs(square_of(result) - 1) < 1e-6
    assert unit_rows(scaled) is scaled


@given(matrices)
@example(np.array([[TINY, HUGE, 1, 0]], np.float32))
def test_a_row_is_scaled_to_the_same_bits_alone(dense):
    X = sp.csr_matrix(dense)
    whole = unit_values(X.indptr, X.data)
    for start, end in zip(X.indptr[:-1], X.indptr[1:], strict=True):
        row = X.data[start:end].copy()
        scaled = unit_values(np.array([0, end - start]), row)
        assert scaled.tobytes() == whole[start:end].tobytes()
        assert (scaled is row) == (scaled.tobytes() == X.data[start:end].tobytes())


@pytest.mark.parametrize("length", [1, 7, 8, 9, 15, 16, 17, 100, 1000])
def test_rows_of_many_lengths(length):
    row = np.random.default_rng(length).normal(size=length).astype(np.float32)
    scaled = unit_values(np.array([0, length]), row)
    exact = row.astype(np.float64) / math.sqrt(square_of(row))
    assert (np.abs(scaled - exact) <= 1.0001 * 2.0**-24 * np.abs(exact)).all()


@pytest.mark.parametrize(("indptr", "what"), [([0, 3], "end"), ([1, 2], "start"), ([0, 3, 2], "decrease")])
def test_the_kernel_checks_the_pointers(indptr, what):
    with pytest.raises(ValueError, match=f"indptr must (not )?{what}"):
        _native.unit_rows(np.array(indptr), np.ones(2, np.float32))


def test_a_dataset_is_scaled_once():
    data = random_data(names=True)
    scaled = data.normalize()
    assert (data.normalized, scaled.normalized) == (False, True)
    assert data.normalize() is scaled
    assert scaled.normalize() is scaled
    assert scaled.by_label is data.by_label
    assert (scaled.Y, scaled.label_names) == (data.Y, data.label_names)
    assert np.shares_memory(scaled.X.indices, data.X.indices)
    assert data.bytes == random_data(names=True).bytes + data.X.data.nbytes
    assert scaled.bytes == random_data(names=True).bytes
    assert "_scaled" not in vars(pickle.loads(pickle.dumps(data)))
    assert pickle.loads(pickle.dumps(scaled)).normalized
    assert scaled.widen(100).normalized
    assert scaled.align([*data.label_names, "other"], 13).normalized
    plain = Dataset(scaled.X, scaled.Y)
    again = plain.normalize()
    assert (plain.normalized, again.normalized) == (False, True)
    assert again.X is plain.X
    assert again.native is plain.native
    assert again.bytes == plain.bytes


def test_tf_idf_is_not_changed(tmp_path):
    (tmp_path / "train.tsv").write_text("0\ta\tred apples\n1\tb\ta blue whale\n")
    data = read_documents(tmp_path / "train.tsv")
    assert data.normalize() is data
    assert not data.normalized
    rounded = Dataset.from_matrices(data.X.toarray().round(4), data.Y)
    write_svm(tmp_path / "train.svm", rounded)
    read = labeltree.read_svm(tmp_path / "train.svm")
    assert read.normalize().X is read.X
    assert read.normalize().normalized  # its model scales queries


# Training

OPTIONS = ["--clusters", "4", "--trees", "2", "--threads", "1"]
SETTINGS = {"clusters": 4, "trees": 2}
NOTE = "note: rows are scaled to length 1; --no-normalize keeps their lengths\n"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Rows that do not have length 1, and the model of one call."""
    folder = tmp_path_factory.mktemp("normalize")
    write_svm(folder / "train.svm", make_data(200))
    labeltree.train(folder / "train.svm", path=folder / "model", **SETTINGS)
    labeltree.train(folder / "train.svm", path=folder / "raw", normalize=False, **SETTINGS)
    return folder


@pytest.fixture
def data(place):
    return labeltree.read_svm(place / "train.svm")


def blocks(model):
    """The files of a model without its manifest, which may have notes."""
    return {name: content for name, content in contents(model).items() if name.name != "manifest.json"}


@pytest.mark.parametrize("normalize", [True, False])
def test_every_way_gives_the_planned_bytes_and_the_same_model(place, data, tmp_path, run, normalize):
    from distributed import Client

    expected, other = place / ("model" if normalize else "raw"), place / ("raw" if normalize else "model")
    switch = [] if normalize else ["--no-normalize"]
    size = disk_bytes(expected)
    assert blocks(expected) != blocks(other)
    assert (load(expected).manifest["settings"]["max_cost"] == 1) == normalize

    # In Python
    plan = labeltree.build_plan(data, TreeSettings(**SETTINGS), normalize=normalize)
    assert (plan.normalized, plan.model_bytes) == (normalize, size)
    labeltree.train_model(data, plan, tmp_path / "train-model")
    rows = data.normalize() if normalize else data
    same_plan = labeltree.make_plan(rows, [part.tree for part in plan.trees])
    assert (same_plan.normalized, same_plan.model_bytes, same_plan.cost) == (normalize, size, plan.cost)
    labeltree.train_model(rows, same_plan, tmp_path / "make-plan")
    labeltree.train(data, path=tmp_path / "dataset", normalize=normalize, **SETTINGS)
    with Client(processes=False, dashboard_address=":0", local_directory=str(tmp_path)) as client:
        labeltree.train(data, path=tmp_path / "dask", normalize=normalize, dask=client, **SETTINGS)

    # On the command line
    figures = json.loads(run("estimate", place / "train.svm", *OPTIONS, *switch, "--json")[1])
    assert (figures["model_bytes"], figures["normalized"]) == (size, normalize)
    code, out, _ = run("train", place / "train.svm", tmp_path / "command", *OPTIONS, *switch, "--json")
    assert code == 0
    assert (json.loads(out)["planned_bytes"], json.loads(out)["normalized"]) == (size, normalize)
    settings = {"normalize": normalize, "clusters": 4, "trees": 2}
    (tmp_path / "settings.json").write_text(json.dumps(settings))
    file = ("--settings", tmp_path / "settings.json")
    assert run("train", place / "train.svm", tmp_path / "settings", *file, "--quiet")[0] == 0
    work = tmp_path / "parts.w"
    assert run("plan", place / "train.svm", work, *OPTIONS, *switch, "--quiet")[0] == 0
    dataset, opened = open_parts(work)
    assert (dataset.normalized, opened.normalized, opened.model_bytes) == (normalize, normalize, size)
    for part in ("2/2", "1/2"):
        assert run("fill", work, "--part", part, "--quiet")[0] == 0
    assert run("join", work, tmp_path / "parts", "--quiet")[0] == 0

    # The estimator
    classifier = LabelTreeClassifier(**SETTINGS, normalize=normalize)
    planned = classifier.estimate(data.X, data.Y)
    assert (planned.normalized, planned.model_bytes) == (normalize, size)
    classifier.fit(data.X, data.Y).save(tmp_path / "estimator")
    assert LabelTreeClassifier.load(tmp_path / "estimator").normalize == normalize
    assert LabelTreeClassifier.load(expected).normalize == normalize

    names = ("train-model", "make-plan", "estimator", "dask", "dataset", "command", "settings", "parts")
    for number, name in enumerate(names):
        assert load(tmp_path / name).normalized == normalize
        assert blocks(tmp_path / name) == blocks(expected), name
        assert number < 4 or contents(tmp_path / name) == contents(expected), name


def test_rows_of_length_1_give_the_same_files_either_way(data, tmp_path):
    rows = Dataset(data.normalize().X, data.Y)
    for name, normalize in (("yes", True), ("no", False)):
        labeltree.train(rows, path=tmp_path / name, normalize=normalize, **SETTINGS)
    yes, no = contents(tmp_path / "yes"), contents(tmp_path / "no")
    assert {name for name in yes if yes[name] != no[name]} == {Path("manifest.json")}
    assert [load(tmp_path / name).normalized for name in ("yes", "no")] == [True, False]


@pytest.mark.parametrize("command", ["train", "estimate", "plan"])
def test_commands_note_that_rows_are_scaled(place, data, tmp_path, run, command):
    write_svm(tmp_path / "unit.svm", data.normalize())

    def notes(name, *more):
        target = [] if command == "estimate" else [tmp_path / "out"]
        code, _, err = run(command, name, *target, "--clusters", "4", *more)
        assert code == 0
        shutil.rmtree(tmp_path / "out", ignore_errors=True)
        return [line for line in err.splitlines(keepends=True) if line.startswith("note: ")]

    assert notes(place / "train.svm") == [NOTE]
    assert notes(place / "train.svm", "--quiet") == notes(place / "train.svm", "--json") == []
    assert notes(tmp_path / "unit.svm") == []
    (raw,) = notes(place / "train.svm", "--no-normalize")
    assert "the cost is 0." in raw


def test_an_interrupted_run_continues_with_the_same_rows(place, tmp_path, monkeypatch):
    with killed_after(monkeypatch, 1):
        labeltree.train(place / "train.svm", path=tmp_path / "m", **SETTINGS)
    assert work_path(tmp_path / "m").exists()
    with pytest.raises(InputError, match=r"has other data \(normalized: True before, False now"):
        labeltree.train(place / "train.svm", path=tmp_path / "m", resume=True, normalize=False, **SETTINGS)
    labeltree.train(place / "train.svm", path=tmp_path / "m", resume=True, **SETTINGS)
    assert contents(tmp_path / "m") == contents(place / "model")


def test_an_estimator_does_not_depend_on_the_length_of_rows(data):
    factors = np.ldexp(1.0, np.random.default_rng(0).integers(-8, 9, 200))
    longer = sp.csr_matrix(sp.diags(factors) @ data.X).astype(np.float32)
    classifier = LabelTreeClassifier(clusters=5)
    first, *others = (classifier.fit(X, data.Y).predict_top(data.X) for X in (data.X, longer, 4 * data.X))
    assert all(same(first, other) for other in others)
    raw = LabelTreeClassifier(clusters=5, normalize=False).fit(data.X, data.Y)
    assert (raw.predict_top(data.X)[1] != first[1]).any()
    # Nor does the cost depend on the weights of rows.
    weights = np.random.default_rng(0).random(data.n_instances) + 0.5
    fitted = LabelTreeClassifier(clusters=4).fit(data.X, data.Y, weights)
    assert fitted.model_.manifest["settings"]["cost"] == default_costs(data.normalize().X)[0]


def test_very_large_values_can_be_trained_on(data, tmp_path):
    large = Dataset.from_matrices(data.X * np.float32(2.0**100), data.Y)
    plan = labeltree.build_plan(large, TreeSettings(clusters=4), normalize=False)
    with pytest.raises(InputError, match="too large to be squared"):
        labeltree.train_model(large, plan, tmp_path / "raw")
    one, two = (labeltree.train(rows, path=tmp_path / f"{rows.X.data[0]}") for rows in (data, large))
    assert blocks(one.path) == blocks(two.path)


def test_memory_of_the_rows_that_the_caller_keeps_is_planned_for(data):
    raw, values = data.bytes, data.X.data.nbytes
    assert labeltree.build_plan(data, normalize=False).data_bytes == raw
    assert labeltree.build_plan(data).data_bytes == raw + values
    assert labeltree.build_plan(data.normalize()).data_bytes == raw


@pytest.mark.parametrize("share", [0.2, None])
def test_trials_train_on_scaled_rows(share, data):
    other = make_data(50, seed=3)
    rows = TuningRows(DataSource(lambda _: data, share or (lambda _: other)), seed=0, threads=1)
    assert rows.defaults["cost"] == default_costs(rows.train.X)[0]
    sample, plan = rows.plan({}, 0.5)
    assert rows.train.normalized
    assert sample.normalized
    assert plan.normalized
    assert sample.n_instances < rows.train.n_instances
    assert rows.held_out.X.nnz
    unit = DataSource(lambda _: Dataset(data.normalize().X, data.Y), 0.2)
    assert TuningRows(unit, 0, 1).train.normalized


def test_what_is_refused(data, tmp_path):
    plan = labeltree.build_plan(data, normalize=False)
    with pytest.raises(InputError, match="the rows of the data are scaled, but the plan"):
        labeltree.train_model(data.normalize(), plan, tmp_path / "model")
    with pytest.raises(ValueError, match="normalize is 'l2', expected True or False"):
        LabelTreeClassifier(normalize="l2").fit(data.X, data.Y)
    with pytest.raises(InputError, match="normalize is 1, expected True or False"):
        labeltree.train(data, path=tmp_path / "model", normalize=1)
    assert not (tmp_path / "model").exists()


# Models


def test_a_model_shows_that_rows_are_scaled(place, run):
    for name, scaled in (("model", True), ("raw", False)):
        model = load(place / name)
        assert ("rows     scaled to length 1" in run("info", place / name)[1]) == scaled
        assert json.loads(run("info", place / name, "--json")[1])["normalized"] == scaled
        card = model_card(model)
        assert ("| Rows | scaled to length 1, for training and for prediction |" in card) == scaled
        assert ("scaled to length 1" in model._repr_html_()) == scaled
        assert overview(model, Measurements.read(model))["normalized"] == scaled


def test_scaled_rows_are_those_that_scikit_learn_makes(tmp_path):
    """A model of rows that were scaled beforehand has the same blocks, and no flag."""
    from sklearn.preprocessing import normalize

    data = topic_data()
    before = Dataset.from_matrices(normalize(data.X.astype(np.float64)), data.Y)
    scaled, other = (train_small(tmp_path / f"{i}", one) for i, one in enumerate((data.normalize(), before)))
    assert blocks(tmp_path / "0") == blocks(tmp_path / "1")
    assert (scaled.normalized, other.normalized) == (True, False)
    assert same(scaled.predict(before.X), other.predict(before.X))
