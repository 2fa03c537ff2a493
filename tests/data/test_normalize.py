"""Every way to train scales rows by default: the planned bytes, the same bytes, and it is told."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from helpers import Killed, contents, cut_off, disk_bytes, make_data, random_data

import labeltree
from labeltree import InputError, LabelTreeClassifier, TreeSettings, _native, load, write_svm
from labeltree.hub.card import model_card
from labeltree.serve.measurements import Measurements
from labeltree.serve.page import overview
from labeltree.training.costs import default_cost
from labeltree.training.parts import fill_part, join_parts, open_parts, plan_parts
from labeltree.training.work import work_path
from labeltree.tuning.rows import DataSource, TuningRows
from labeltree.tuning.tune import data_source

OPTIONS = ["--clusters", "4", "--trees", "2", "--threads", "1"]
SETTINGS = {"clusters": 4, "trees": 2}
NOTE = "note: rows are scaled to length 1; --no-normalize keeps their lengths\n"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Rows that do not have length 1, and the model of one call."""
    folder = tmp_path_factory.mktemp("normalize")
    write_svm(folder / "train.svm", make_data(200))
    labeltree.train(folder / "train.svm", folder / "model", **SETTINGS)
    labeltree.train(folder / "train.svm", folder / "raw", normalize=False, **SETTINGS)
    return folder


@pytest.fixture
def data(place):
    return labeltree.read_svm(place / "train.svm")


def blocks(model):
    """The files of a model without its manifest, which may have notes."""
    return {name: content for name, content in contents(model).items() if name.name != "manifest.json"}


def test_the_default_scales_and_the_option_does_not(place):
    scaled, raw = load(place / "model"), load(place / "raw")
    assert (scaled.normalized, raw.normalized) == (True, False)
    assert scaled.manifest["settings"]["max_cost"] == 1
    assert raw.manifest["settings"]["max_cost"] != 1
    assert blocks(place / "model") != blocks(place / "raw")


@pytest.mark.parametrize("normalize", [True, False])
def test_every_way_gives_the_planned_bytes_and_the_same_model(place, data, tmp_path, run, normalize):
    expected = place / ("model" if normalize else "raw")
    switch = [] if normalize else ["--no-normalize"]
    size = disk_bytes(expected)

    # In Python
    plan = labeltree.build_plan(data, TreeSettings(**SETTINGS), normalize=normalize)
    assert (plan.normalized, plan.model_bytes) == (normalize, size)
    labeltree.train_model(data, plan, tmp_path / "train-model", notes={"clusters": 4, "max_depth": 6})
    rows = data.normalize() if normalize else data
    trees = [part.tree for part in plan.trees]
    same_plan = labeltree.make_plan(rows, trees)
    assert (same_plan.normalized, same_plan.model_bytes, same_plan.cost) == (normalize, size, plan.cost)
    labeltree.train_model(rows, same_plan, tmp_path / "make-plan", notes={"clusters": 4, "max_depth": 6})
    labeltree.train(data, tmp_path / "dataset", normalize=normalize, **SETTINGS)

    # On the command line
    out = run("estimate", place / "train.svm", *OPTIONS, *switch, "--json")[1]
    assert json.loads(out)["model_bytes"] == size
    assert json.loads(out)["normalized"] == normalize
    code, out, _ = run("train", place / "train.svm", tmp_path / "command", *OPTIONS, *switch, "--json")
    assert code == 0
    assert (json.loads(out)["planned_bytes"], json.loads(out)["normalized"]) == (size, normalize)
    work = tmp_path / "parts.w"
    assert run("plan", place / "train.svm", work, *OPTIONS, *switch, "--quiet")[0] == 0
    assert json.loads((work / "work.json").read_text())["described"]["data"]["normalized"] == normalize
    dataset, opened = open_parts(work)
    assert (dataset.normalized, opened.normalized, opened.model_bytes) == (normalize, normalize, size)
    for part in ("2/2", "1/2"):
        assert run("fill", work, "--part", part, "--quiet")[0] == 0
    assert run("join", work, tmp_path / "parts", "--quiet")[0] == 0
    for name in ("train-model", "make-plan", "dataset", "command", "parts"):
        assert blocks(tmp_path / name) == blocks(expected), name
        if name not in ("train-model", "make-plan", "dataset"):
            assert contents(tmp_path / name) == contents(expected), name
        assert load(tmp_path / name).normalized == normalize

    # The estimator
    classifier = LabelTreeClassifier(**SETTINGS, normalize=normalize)
    planned = classifier.estimate(data.X, data.Y)
    assert (planned.normalized, planned.model_bytes) == (normalize, size)
    classifier.fit(data.X, data.Y).save(tmp_path / "estimator")
    assert blocks(tmp_path / "estimator") == blocks(expected)
    assert (load(tmp_path / "estimator").normalized, classifier.model_.normalized) == (normalize, normalize)


def test_rows_of_length_1_give_the_same_files_either_way(data, tmp_path):
    rows = labeltree.Dataset(data.normalize().X, data.Y)
    for name, normalize in (("yes", True), ("no", False)):
        labeltree.train(rows, tmp_path / name, normalize=normalize, **SETTINGS)
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
    assert notes(place / "train.svm", "--quiet") == []
    assert notes(place / "train.svm", "--json") == []
    assert notes(tmp_path / "unit.svm") == []
    raw = notes(place / "train.svm", "--no-normalize")
    assert len(raw) == 1
    assert "the cost is 0." in raw[0]


def test_an_interrupted_run_continues_with_the_same_rows(place, data, tmp_path, monkeypatch):
    plan = labeltree.build_plan(data, TreeSettings(**SETTINGS), threads=2)
    cut_off(monkeypatch, plan, data, tmp_path / "m", 1, notes={"clusters": 4, "max_depth": 6})
    other = labeltree.build_plan(data, TreeSettings(**SETTINGS), normalize=False)
    with pytest.raises(InputError, match=r"has other data \(normalized: True before, False now"):
        labeltree.train_model(data, other, tmp_path / "m", resume=True)
    labeltree.train_model(data, plan, tmp_path / "m", resume=True, notes={"clusters": 4, "max_depth": 6})
    assert blocks(tmp_path / "m") == blocks(place / "model")
    assert load(tmp_path / "m").normalized


def test_train_resumes_with_scaled_rows(place, tmp_path, monkeypatch):
    train = _native.train_panels

    def stop(*arguments):
        *first, panels, finished = arguments
        train(*first, panels[:1], finished)
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr("labeltree.training.fill._native.train_panels", stop)
        with pytest.raises(Killed):
            labeltree.train(place / "train.svm", tmp_path / "m", **SETTINGS)
    assert work_path(tmp_path / "m").exists()
    with pytest.raises(InputError, match="normalized: True before, False now"):
        labeltree.train(place / "train.svm", tmp_path / "m", resume=True, normalize=False, **SETTINGS)
    labeltree.train(place / "train.svm", tmp_path / "m", resume=True, **SETTINGS)
    assert contents(tmp_path / "m") == contents(place / "model")


def test_parts_of_a_plan_scale_rows_that_are_given_as_they_are(place, data, tmp_path):
    plan = labeltree.build_plan(data, TreeSettings(**SETTINGS))
    for name, rows in (("raw", data), ("scaled", data.normalize())):
        plan_parts(rows, plan, tmp_path / "work")
        assert fill_part(tmp_path / "work") == 0
        join_parts(tmp_path / "work", tmp_path / name)
        assert blocks(tmp_path / name) == blocks(place / "model")
        assert load(tmp_path / name).normalized


def test_dask_gives_the_same_model(place, data, tmp_path):
    from distributed import Client

    with Client(processes=False, dashboard_address=":0", local_directory=str(tmp_path)) as client:
        for name, normalize in (("model", True), ("raw", False)):
            made = labeltree.train(data, tmp_path / name, **SETTINGS, normalize=normalize, dask=client)
            assert blocks(tmp_path / name) == blocks(place / name)
            assert made.normalized == normalize


def test_an_estimator_keeps_the_parameter(place, data, tmp_path):
    LabelTreeClassifier(clusters=4).fit(data.X, data.Y).save(tmp_path / "yes")
    LabelTreeClassifier(clusters=4, normalize=False).fit(data.X, data.Y).save(tmp_path / "no")
    for path, expected in (
        (tmp_path / "yes", True),
        (tmp_path / "no", False),
        (place / "model", True),
        (place / "raw", False),
    ):
        assert LabelTreeClassifier.load(path).normalize == expected
    with pytest.raises(ValueError, match="normalize is 'l2', expected True or False"):
        LabelTreeClassifier(normalize="l2").fit(data.X, data.Y)
    with pytest.raises(InputError, match="normalize is 1, expected True or False"):
        labeltree.train(data, tmp_path / "none", normalize=1)


def test_an_estimator_does_not_depend_on_the_length_of_rows():
    data = make_data(200)
    factors = np.ldexp(1.0, np.random.default_rng(0).integers(-8, 9, 200))
    longer = sp.csr_matrix(sp.diags(factors) @ data.X).astype(np.float32)
    classifier = LabelTreeClassifier(clusters=5)
    found = [classifier.fit(X, data.Y).predict_top(data.X) for X in (data.X, longer, 4 * data.X)]
    for other in found[1:]:
        np.testing.assert_array_equal(found[0], other)
    raw = LabelTreeClassifier(clusters=5, normalize=False).fit(data.X, data.Y)
    assert not raw.model_.normalized
    assert (raw.predict_top(data.X)[1] != found[0][1]).any()


def test_weights_of_rows_do_not_change_the_cost_of_scaled_rows(data):
    weights = np.random.default_rng(0).random(data.n_instances) + 0.5
    fitted = LabelTreeClassifier(clusters=4).fit(data.X, data.Y, weights)
    assert fitted.model_.manifest["settings"]["cost"] == default_cost(data.normalize().X)


def test_very_large_values_can_be_trained_on(data, tmp_path):
    large = labeltree.Dataset.from_matrices(data.X * np.float32(2.0**100), data.Y)
    plan = labeltree.build_plan(large, TreeSettings(clusters=4), normalize=False)
    with pytest.raises(InputError, match="too large to be squared"):
        labeltree.train_model(large, plan, tmp_path / "raw")
    one, two = (labeltree.train(rows, tmp_path / f"{rows.X.data[0]}") for rows in (data, large))
    assert blocks(one.path) == blocks(two.path)


def test_memory_of_the_rows_that_the_caller_keeps_is_planned_for(data):
    raw, values = data.bytes, data.X.data.nbytes
    assert labeltree.build_plan(data, normalize=False).data_bytes == raw
    assert labeltree.build_plan(data).data_bytes == raw + values
    assert labeltree.build_plan(data.normalize()).data_bytes == raw


# What a model tells


def test_a_model_tells_that_rows_are_scaled(place, run):
    for name, told in (("model", True), ("raw", False)):
        model = load(place / name)
        assert ("rows     scaled to length 1" in run("info", place / name)[1]) == told
        assert json.loads(run("info", place / name, "--json")[1])["normalized"] == told
        assert ("| Rows | scaled to length 1, for training and for prediction |" in model_card(model)) == told
        assert ("scaled to length 1" in model._repr_html_()) == told
        assert overview(model, Measurements.of(model))["normalized"] == told


# Tuning


@pytest.mark.parametrize("share", [0.2, None])
def test_trials_train_on_scaled_rows(share, data):
    other = make_data(50, seed=3)
    rows = TuningRows(data_source(data, share or other), seed=0, threads=1)
    assert rows.defaults["cost"] == default_cost(rows.train.X)
    sample, plan = rows.plan({}, 0.5)
    assert rows.train.normalized
    assert sample.normalized
    assert plan.normalized
    assert sample.n_instances < rows.train.n_instances
    assert rows.held_out.X.nnz
    unit = DataSource(lambda _: labeltree.Dataset(data.normalize().X, data.Y), 0.2)
    assert TuningRows(unit, 0, 1).train.normalized


def test_a_settings_file_can_switch_it_off(place, tmp_path, run):
    (tmp_path / "settings.json").write_text('{"normalize": false, "clusters": 4, "trees": 2}')
    code = run("train", place / "train.svm", tmp_path / "m", "--settings", tmp_path / "settings.json")[0]
    assert code == 0
    assert contents(tmp_path / "m") == contents(place / "raw")


def test_a_tree_of_the_user_is_planned_with_scaled_rows(tmp_path):
    data = random_data()
    nested = [list(range(6)), list(range(6, 12))]
    model = labeltree.train(data, tmp_path / "model", tree=nested)
    plan = labeltree.build_plan(data, TreeSettings(tree=nested))
    assert (model.normalized, model.bytes) == (True, plan.model_bytes)


def test_a_plan_and_data_whose_rows_differ_are_refused(data, tmp_path):
    plan = labeltree.build_plan(data, normalize=False)
    with pytest.raises(labeltree.InputError, match="the rows of the data are scaled, but the plan"):
        labeltree.train_model(data.normalize(), plan, tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_a_flag_that_is_none_is_refused(data):
    with pytest.raises(labeltree.InputError, match="normalize"):
        labeltree.build_plan(data, normalize="no")
