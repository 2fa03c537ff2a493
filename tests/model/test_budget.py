"""Budgets and reports: the choice is the best allowed, sizes are exact, and bad data is refused."""

import csv
import json
import math
import sys
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from helpers import disk_bytes, make_data, random_data, train_small

from labeltree import Dataset, InputError, load
from labeltree.model.compress import list_forms, threshold_grid
from labeltree.model.labeled_data import validation_data
from labeltree.model.pack import dense_bytes
from labeltree.settings import SolverSettings
from labeltree.tuning.folds import train_on_folds

PRECISIONS = ("P@1", "P@3", "P@5")
REPORT_FILES = ("frontier.csv", "frontier.png", "frontier.svg")


def test_forms_shrink_and_have_exact_sizes(trained, tmp_path):
    model = load(trained)
    forms = list_forms(model, 1)
    sizes = [form.model_bytes for form in forms]
    assert sizes == sorted(set(sizes), reverse=True)
    assert sizes[0] == model.bytes
    thresholds = [form.storage.prune for form in forms if form.storage.prune is not None]
    assert thresholds == sorted(thresholds)
    assert forms[-1].n_nonzeros == 0
    for number, form in enumerate(forms[1::5]):
        weights = form.storage.weights if form.storage.prune is None else None
        small = model.compress(tmp_path / str(number), weights=weights, prune=form.storage.prune)
        assert disk_bytes(small.path) == form.model_bytes
        assert form.n_nonzeros in (None, small.manifest["weights"])


@pytest.mark.parametrize("factor", [1e-4, 1, 1e3])
def test_thresholds_follow_the_weights(tmp_path, factor):
    data = random_data()
    scaled = Dataset.from_matrices(data.X * factor, data.Y)
    model = train_small(tmp_path / "model", scaled, settings=SolverSettings(tolerance=1))
    grid = threshold_grid(model.trees)
    largest = max(np.abs(part.weights).max() for part in model.trees)
    assert grid == sorted(set(grid))
    assert grid[-1] > largest > grid[-4]
    assert grid[0] == pytest.approx(grid[-1] * 1e-4, rel=0.02)
    assert all(float(f"{threshold:.2g}") == threshold for threshold in grid)


def test_the_papers_threshold_is_tried():
    part = SimpleNamespace(weights=np.array([0.5, -1.7], np.float32))
    for per_decade in (12, 24):
        assert 0.1 in threshold_grid([part], per_decade)
    assert threshold_grid([SimpleNamespace(weights=np.zeros(3, np.float32))]) == []


# With models


@pytest.fixture(scope="module")
def validation():
    return make_data(150, seed=1)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return train_small(tmp_path_factory.mktemp("budget") / "model", make_data(400))


@pytest.mark.parametrize("source", ["validation", "training"])
def test_a_loss_budget(model, validation, tmp_path, source):
    """A larger budget gives a smaller model; what was measured is exact; nothing else is left."""
    sizes, data = [], {"validation": validation, "training": make_data(400)}[source]
    for number, max_loss in enumerate([0, 0.001, "5%", 0.1]):
        tried, place = [], tmp_path / str(number)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            small = model.compress(place, max_loss=max_loss, **{source: data}, report=tried.append, threads=1)
        (chosen,) = [trial for trial in tried if trial.model_bytes == small.bytes]
        allowed = 0.05 if max_loss == "5%" else max_loss
        assert chosen is tried[0] or chosen.storage.prune is None or chosen.at_most <= allowed
        assert tried[0].storage.codec == "float32"
        undecided = chosen is not tried[0] and max(chosen.errors) > allowed
        assert [str(each.message)[:12] for each in caught] == ["too few rows"] * int(undecided)
        if source == "validation":
            before, after = model.evaluate(validation), small.evaluate(validation)
            found = [before[name] for name in PRECISIONS], [after[name] for name in PRECISIONS]
            np.testing.assert_allclose([tried[0].precision, chosen.precision], found)
        assert load(place, verify=True).bytes == disk_bytes(place)
        sizes.append(small.bytes)
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] == model.bytes > 3 * sizes[-1]
    assert sorted(path.name for path in tmp_path.iterdir()) == list("0123")


def test_training_data_is_compared_out_of_fold(model, tmp_path):
    """The rows of a fold are predicted by a model like this one that is trained on the other folds."""
    data = make_data(400)
    found = [*train_on_folds(validation_data(data, model, is_training=True), 1)]
    assert sum(unseen.X.shape[0] for unseen in found) == 400
    for unseen in found:
        manifest = unseen.model.manifest
        assert manifest["settings"] == model.manifest["settings"]
        assert unseen.model.score == model.score
        assert manifest["instances"] == 400 - unseen.X.shape[0]
        for mine, others in zip(unseen.model.trees, model.trees, strict=True):
            np.testing.assert_array_equal(mine.tree.children, others.tree.children)
    again = model.compress(tmp_path / "a", prune=0.1, training=data, report=(tried := []).append)
    assert [trial.storage.prune for trial in tried] == [None, 0.1]
    assert again.bytes == tried[1].model_bytes


def test_a_byte_budget(model, validation, tmp_path):
    sizes = {}
    for codec in ("float32", "float16", "int8"):
        sizes[codec] = model.bytes - dense_bytes(model.trees, "float32") + dense_bytes(model.trees, codec)
        small = model.compress(tmp_path / codec, max_size=sizes[codec])
        assert (small.codec, small.bytes) == (codec, sizes[codec])
    np.testing.assert_array_equal(
        load(tmp_path / "float32").predict(validation.X)[1], model.predict(validation.X)[1]
    )
    limit, tried = sizes["int8"] // 2, []
    small = model.compress(tmp_path / "sparse", max_size=limit, validation=validation, report=tried.append)
    assert small.bytes <= limit
    assert len(tried) <= 8
    fitting = [trial for trial in tried if trial.model_bytes <= limit]
    gained = {trial.model_bytes: sum(trial.precision) - sum(trial.errors) for trial in fitting[1:]}
    best = max(gained, key=gained.get)  # unless the first is as good, as far as these rows show
    assert small.bytes == (best if gained[best] > sum(fitting[0].precision) else fitting[0].model_bytes)
    unaided = model.compress(tmp_path / "unaided", max_size=limit)
    assert unaided.bytes == fitting[0].model_bytes
    least = model.compress(tmp_path / "least", prune=1e6).bytes
    with pytest.raises(InputError, match=rf"the smallest possible size is .*\({least:,} bytes\)"):
        model.compress(tmp_path / "no", max_size=least - 1)
    assert not (tmp_path / "no").exists()


@pytest.mark.parametrize("broken", ["predict", "write_copy"])
def test_an_error_leaves_nothing_behind(model, validation, tmp_path, monkeypatch, broken):
    calls, original = [], getattr(type(model), broken)

    def fail(self, *arguments, **options):
        calls.append([path.name for path in tmp_path.iterdir()])
        if len(calls) > 3:
            raise RuntimeError("broken")
        return original(self, *arguments, **options)

    monkeypatch.setattr(f"labeltree.model.model.Model.{broken}", fail)
    with pytest.raises(RuntimeError, match="broken"):
        model.compress(tmp_path / "small", max_loss=0.01, validation=validation)
    assert list(tmp_path.iterdir()) == []
    for (name,) in calls:
        assert name.startswith(".small.")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        *(
            ({"max_loss": x}, "max_loss is .*, expected None or a loss such as 0.1%")
            for x in (-0.1, math.nan, 1.1, "x", "1")
        ),
        *(({"max_size": x}, "max_size is .*, expected None or a number") for x in (-1, 0, math.nan, "much")),
        *(
            ({"prune": x}, "prune is .*, expected None or a number from 0")
            for x in (-1, math.nan, math.inf, "x")
        ),
        ({"max_loss": 0.001}, "needs labeled data to measure the loss on; add training or validation"),
        ({"max_loss": 0.001, "max_size": 10}, "remove max_loss or max_size"),
        ({"prune": 0.1, "max_size": "1MB"}, "remove prune or max_size"),
        ({"weights": "int8", "max_size": 10}, "remove weights or max_size"),
        ({"weights": "float32"}, "weights is 'float32', expected None or float16 or int8"),
        ({"weights": "float16", "prune": 0.1}, "pruned weights are stored as int8, not as float16"),
        ({"threads": 0}, "threads is 0"),
    ],
)
def test_bad_options(model, tmp_path, options, message):
    with pytest.raises(InputError, match=message):
        model.compress(tmp_path / "small", **options)
    assert list(tmp_path.iterdir()) == []


def test_validation_data_that_shows_nothing_is_refused(model, tmp_path):
    data = make_data(30, seed=1)

    def refused(dataset, match):
        with pytest.raises(InputError, match=match):
            model.compress(tmp_path / "small", max_loss=0.01, validation=dataset)
        assert list(tmp_path.iterdir()) == []

    wide = make_data(30, features=61, seed=1)
    refused(wide, "the data has 61 features, but the model has 60")
    refused(Dataset.from_matrices(data.X, data.Y * 0), "the data has no labels")
    names = [f"other {j}" for j in range(data.n_labels)]
    refused(Dataset.from_matrices(data.X, data.Y, names), "no label of the validation data is known")


def test_text_features_must_be_the_models(model):
    data = make_data(30, seed=1)
    other = Dataset(data.X, data.Y, text=SimpleNamespace(contents={"terms": b"a"}))
    with pytest.raises(InputError, match="text features that are not the model's"):
        validation_data(other, model)


@pytest.mark.filterwarnings("ignore:too few rows")
def test_a_model_with_fewer_labels_than_ranks(tmp_path):
    X, Y = make_data(80).X, make_data(80).Y[:, :3]
    few = train_small(tmp_path / "model", Dataset.from_matrices(X, Y), trees=1)
    other = make_data(40, seed=1)
    test = Dataset.from_matrices(other.X, other.Y[:, :3])
    assert few.compress(tmp_path / "small", max_loss=0.01, validation=test).bytes < few.bytes


# Reports


def test_every_form_is_measured_as_compress_and_evaluate_do(model, validation, tmp_path):
    seen = []
    found = model.frontier(validation, progress=seen.append)
    assert seen == sorted(seen)
    assert seen[-1] == pytest.approx(1)
    forms = list(found)
    assert found["weights"][:4] == ["float32", "float16", "int8", "int8"]
    assert found["threshold"][:4] == [None, None, None, 0]
    assert all(found["nonzeros"][4:])
    assert found["model_bytes"][0] == model.bytes
    for form in (forms[2], forms[-1]):
        copy = model.compress(tmp_path / f"copy-{form['threshold']}", prune=form["threshold"])
        assert copy.bytes == form["model_bytes"]
        expected = copy.evaluate(validation)
        for name in PRECISIONS:
            assert form[name] == pytest.approx(expected[name], abs=1e-6)
    assert [form["chosen"] for form in forms].count(True) == 1


def test_the_report_of_the_command(run, folder, tmp_path, monkeypatch):
    command = ("compress", folder / "model", "--validation", folder / "test.svm", "--report", tmp_path / "o")
    code, out, err = run(*command, "--json", "--max-loss", "1%")
    assert (code, err) == (0, "")
    points = json.loads(out)["points"]
    assert sorted(path.name for path in (tmp_path / "o").iterdir()) == sorted(REPORT_FILES)
    assert [point["chosen"] for point in points].count(True) == 1
    assert all(0 <= point[name] <= 1 for point in points for name in PRECISIONS)
    assert points[0]["model_bytes"] == disk_bytes(folder / "model")
    with open(tmp_path / "o/frontier.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == list(points[0])
    assert [int(row["model_bytes"]) for row in rows] == [point["model_bytes"] for point in points]
    code, out, err = run(*command, "--overwrite")
    assert code == 0
    assert out.count("*") == 2  # the chosen row, and what it means
    assert err.splitlines()[-1].startswith("evaluating")
    figure = (tmp_path / "o/frontier.svg").read_bytes()
    assert run(*command, "--overwrite", "-q") == (0, "", "")
    assert (tmp_path / "o/frontier.svg").read_bytes() == figure
    # Without matplotlib, the table is written, and no figure of an earlier one stays.
    table = (tmp_path / "o/frontier.csv").read_bytes()
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    code, out, err = run(*command, "--overwrite")
    assert code == 0
    assert f"report {tmp_path / 'o' / 'frontier.csv'}" in out
    assert "note: Tables are written without figures: this needs matplotlib, which is not installed;" in err
    assert (tmp_path / "o/frontier.csv").read_bytes() == table
    assert [path.name for path in (tmp_path / "o").iterdir()] == ["frontier.csv"]


def test_refused_reports(run, refused, folder, tmp_path, monkeypatch):
    model, test, out = folder / "model", folder / "test.svm", tmp_path / "o"
    assert "no output is given" in refused("compress", model)
    assert "--report needs validation data" in refused("compress", model, "--report", out)
    assert "no such directory" in refused(
        "compress", model, "--validation", test, "--report", tmp_path / "no" / "o"
    )
    assert run("compress", model, tmp_path / "small", "-q")[0] == 0
    assert "already compact" in refused("compress", tmp_path / "small", "--validation", test, "--report", out)
    assert not out.exists()
    out.mkdir()
    (out / "frontier.png").write_bytes(b"mine")
    assert "already exists" in refused("compress", model, "--validation", test, "--report", out)
    assert (out / "frontier.png").read_bytes() == b"mine"

    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("labeltree.model.model.Model.predict", stop)
    code, _, err = run("compress", model, "--validation", test, "--report", tmp_path / "new")
    assert (code, err.splitlines()[-1]) == (130, "stopped")
    assert not (tmp_path / "new").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["o", "small"]
