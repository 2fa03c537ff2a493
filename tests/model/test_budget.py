"""Budgets and reports: the choice is the best allowed, sizes are exact, and bad data is refused."""

import csv
import json
import math
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from helpers import disk_bytes, examples, make_data, random_data, train_small
from hypothesis import given
from hypothesis import strategies as st

from labeltree import Dataset, InputError, load
from labeltree.model.compress import (
    Budget,
    Form,
    Trial,
    choose,
    list_forms,
    loss,
    threshold_grid,
)
from labeltree.model.labeled_data import validation_data
from labeltree.model.pack import dense_bytes
from labeltree.settings import SolverSettings, StorageSettings

PRECISIONS = ("P@1", "P@3", "P@5")
REPORT_FILES = ("frontier.csv", "frontier.png", "frontier.svg")


class FakeTrials:
    """Trials with given precisions; records what is measured, and what is kept."""

    def __init__(self, precision):
        self.precision = self.validation = precision
        self.measured, self.kept = [], None

    def measure(self, form):
        self.measured.append(form)
        return Trial(form, self.precision and self.precision[form])

    def keep(self, form):
        self.kept = form


def made_forms(sizes):
    first = Form(StorageSettings(), sizes[0])
    return [first, *(Form(StorageSettings(prune=0.01 * k), n, n) for k, n in enumerate(sizes[1:], 1))]


@given(st.integers(1, 120), st.integers(0, 119), st.floats(0, 0.02), st.integers(0, 2))
@examples(50)
def test_the_smallest_that_loses_little_is_found(n_forms, last, max_loss, worst):
    """Up to `last` all forms lose at most the budget, in one of three precisions; later ones lose more."""
    forms = made_forms([1000 - k for k in range(n_forms)])
    last = min(last, n_forms - 1)
    precision = {}
    for k, form in enumerate(forms):
        values = [0.8, 0.6, 0.4]
        values[worst] -= 0 if k == 0 else max_loss * k / max(last, 1) if k <= last else max_loss + 1e-4
        precision[form] = tuple(values)
    trials = FakeTrials(precision)
    found = choose(forms, Budget(max_loss=max_loss), trials)
    assert found.form == forms[last]
    assert loss(Trial(forms[0], precision[forms[0]]), found) <= max_loss + 1e-9
    assert len(trials.measured) <= trials.total == 1 + math.ceil(math.log2(n_forms)) + 6
    assert len(set(trials.measured)) == len(trials.measured)
    assert trials.kept == (found.form if n_forms > 1 else None)


def test_the_best_that_fits():
    forms = made_forms([1000, 900, 800, 700, 600, 500])
    precision = {form: (0.8, 0.6, 0.4 - 0.01 * k) for k, form in enumerate(forms)}
    assert choose(forms, Budget(max_size=850), FakeTrials(None)).form == forms[2]
    trials = FakeTrials(precision)
    assert choose(forms, Budget(max_size=850), trials).form == forms[2]
    assert trials.measured == [forms[0], forms[2], forms[3], forms[4]]  # the original, to compare with
    precision[forms[4]] = (0.85, 0.6, 0.4)
    trials = FakeTrials(precision)
    assert choose(forms, Budget(max_size=850), trials).form == trials.kept == forms[4]
    assert choose(forms, Budget(max_size=1000), FakeTrials(None)).form == forms[0]
    with pytest.raises(InputError, match=r"499 bytes\), the smallest possible size is .*500 bytes"):
        choose(forms, Budget(max_size=499), FakeTrials(None))


def test_forms_shrink_and_have_exact_sizes(trained, tmp_path):
    model = load(trained)
    other = model.bytes - dense_bytes(model.trees, "float32")
    forms = list_forms(model.trees, other, 1)
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
    for per_decade in (8, 24):
        assert 0.1 in threshold_grid([part], per_decade)
    assert threshold_grid([SimpleNamespace(weights=np.zeros(3, np.float32))]) == []


# With models


@pytest.fixture(scope="module")
def validation():
    return make_data(150, seed=1)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return train_small(tmp_path_factory.mktemp("budget") / "model", make_data(400))


@pytest.mark.parametrize("max_loss", [0, 0.005, "5%", 0.1])
def test_a_loss_budget(model, validation, tmp_path, max_loss):
    tried = []
    small = model.compress(
        tmp_path / "small", max_loss=max_loss, validation=validation, report=tried.append, threads=1
    )
    before, after = model.evaluate(validation), small.evaluate(validation)
    allowed = 0.05 if max_loss == "5%" else max_loss
    for name in PRECISIONS:
        assert before[name] - after[name] <= allowed + 1e-9
    assert tried[0].form.storage.codec == "float32"
    assert small.bytes == min(
        trial.form.model_bytes for trial in tried if loss(tried[0], trial) <= allowed + 1e-9
    )
    assert [path.name for path in tmp_path.iterdir()] == ["small"]
    assert load(tmp_path / "small", verify=True).bytes == disk_bytes(tmp_path / "small")


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
    found = [small.evaluate(validation)[name] for name in PRECISIONS]
    fitting = [trial for trial in tried if trial.form.model_bytes <= limit]
    assert sum(found) == pytest.approx(max(sum(trial.precision) for trial in fitting))
    unaided = model.compress(tmp_path / "unaided", max_size=limit)
    assert unaided.bytes == fitting[0].form.model_bytes
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


def test_only_the_best_copy_is_kept_during_the_search(model, validation, tmp_path):
    copies = []

    def look(_):
        (work,) = tmp_path.iterdir()
        copies.append(len(list(work.iterdir())))

    model.compress(tmp_path / "small", max_loss=0.01, validation=validation, report=look)
    assert max(copies) == 2


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
        ({"max_loss": 0.001}, "needs labeled data to measure the loss on; add validation"),
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
    refused(wide, "the validation data has 61 features, but the model has 60")
    refused(Dataset.from_matrices(data.X, data.Y * 0), "the validation data has no labels")
    names = [f"other {j}" for j in range(data.n_labels)]
    refused(Dataset.from_matrices(data.X, data.Y, names), "no label of the validation data is known")


def test_text_features_must_be_the_models(model):
    data = make_data(30, seed=1)
    other = Dataset(data.X, data.Y, text=SimpleNamespace(contents={"terms": b"a"}))
    with pytest.raises(InputError, match="text features that are not the model's"):
        validation_data(other, model)


def test_a_model_with_fewer_labels_than_ranks(tmp_path):
    X, Y = make_data(80).X, make_data(80).Y[:, :3]
    few = train_small(tmp_path / "model", Dataset.from_matrices(X, Y), trees=1)
    other = make_data(40, seed=1)
    test = Dataset.from_matrices(other.X, other.Y[:, :3])
    assert few.compress(tmp_path / "small", max_loss=0.01, validation=test).bytes < few.bytes


def test_a_smaller_form_after_one_that_loses_too_much_is_found():
    forms = made_forms([1000 - k for k in range(9)])
    losses = [0, 0, 0, 0, 0.002, 0.002, 0.001, 0.002, 0.002]
    precision = {form: (0.8 - lost, 0.6, 0.4) for form, lost in zip(forms, losses, strict=True)}
    assert choose(forms, Budget(max_loss=0.001), FakeTrials(precision)).form == forms[6]


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
    (chosen,) = [form for form in forms if form["chosen"]]
    allowed = [f for f in forms if all(forms[0][name] - f[name] <= 0.001 + 2e-6 for name in PRECISIONS)]
    assert chosen == allowed[-1]


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
