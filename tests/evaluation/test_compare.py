"""Metrics row by row, and models compared on the same rows."""

import json
import re
import shutil

import numpy as np
import pytest
from helpers import make_data, train_small

import labeltree
from labeltree import metrics
from labeltree.errors import InputError
from labeltree.evaluation.metrics import RowMetric
from labeltree.evaluation.paired import METRIC, paired_differences, row_metrics
from labeltree.tuning.compare import compare_models


@pytest.fixture(scope="module")
def data():
    return make_data(400)


@pytest.mark.parametrize("metric", METRIC.values)
def test_row_metrics_are_the_metrics(metric, data, tmp_path):
    model = train_small(tmp_path / "m", data, trees=1)
    test = make_data(90, seed=1)
    labels, scores = model.predict(test.X, top=20)
    propensities = metrics.propensities(model.label_counts, model.n_instances)
    truth = test.align(None, model.n_labels).Y
    found = row_metrics(truth, labels, scores, propensities, (metric,))[metric]
    if metric == "F1":
        true = truth.toarray() > 0
        dense = np.zeros(true.shape)
        np.put_along_axis(dense, np.maximum(labels, 0), np.where(labels >= 0, scores, 0), axis=1)
        expected = max(
            2 * (true & (dense >= t)).sum() / ((dense >= t).sum() + true.sum())
            for t in np.unique(scores[scores > 0])
        )
    else:
        expected = model.evaluate(test)[metric]
    assert found.fraction == pytest.approx(expected)
    assert found.rows.mean() == pytest.approx(found.fraction)


def test_paired_differences():
    rng = np.random.default_rng(0)
    first = rng.random(2000) < 0.5
    better = first | (rng.random(2000) < 0.1)
    ones = np.ones(2000)
    as_metric = {name: {"P@1": RowMetric(v.astype(float), ones)} for name, v in (("a", first), ("b", better))}
    found = paired_differences(as_metric["a"], as_metric["b"], resamples=300)["P@1"]
    assert found.value == pytest.approx(better.mean() - first.mean())
    assert found.low < found.value < found.high
    assert found.significant
    same = paired_differences(as_metric["a"], as_metric["a"], resamples=300)["P@1"]
    assert (same.value, same.p_value) == (0, 1)
    # The interval is that of the normal distribution of paired differences.
    error = (better * 1.0 - first).std() / np.sqrt(2000)
    assert (found.high - found.low) / (2 * 1.96) == pytest.approx(error, rel=0.2)


def test_compare(run, refused, folder, tmp_path, data):
    model, test = folder / "model", folder / "test.svm"
    labeltree.load(model).compress(tmp_path / "small", prune=0.5)
    code, out, err = run("compare", model, tmp_path / "small", test, "--json")
    assert code == 0, err
    report = json.loads(out)
    assert [row["model"] for row in report["models"]] == [str(model), str(tmp_path / "small")]
    assert report["test"] == "paired bootstrap"
    code, shown, _ = run("evaluate", tmp_path / "small", test, "--json")
    assert report["models"][1]["P@1"] == json.loads(shown)["P@1"]
    gap = report["models"][1]["differences"]["P@1"]
    assert gap["value"] == report["models"][1]["P@1"] - report["models"][0]["P@1"]
    assert gap["low"] <= gap["value"] <= gap["high"]
    code, out, _ = run("compare", model, tmp_path / "small", test)
    assert code == 0
    assert "paired bootstrap" in out
    twice = json.loads(run("compare", model, tmp_path / "small", test, test, "--json")[1])
    assert twice["rows"] == 2 * report["rows"]
    assert "there is nothing to compare" in refused("compare", model, test)
    assert "there is nothing to compare" in refused("compare", test, model, tmp_path / "small")
    assert "no such model" in refused("compare", model, tmp_path / "no", test)
    with pytest.raises(InputError, match="two or more models"):
        compare_models([labeltree.load(model)], data)


def test_compare_reads_data_as_each_model_does(run, tmp_path):
    """A file that lacks the first feature does not show whether it counts from 0 or 1."""
    (tmp_path / "zero.svm").write_text("0 0:1 2:1\n1 1:1 2:1\n" * 20)
    (tmp_path / "one.svm").write_text("0 1:1 3:1 4:1\n1 2:1 3:1\n" * 20)
    (tmp_path / "test.svm").write_text("0 2:1\n1 1:1\n0 2:1 3:1\n" * 4)
    models = []
    for name, base in (("zero", "--zero-based"), ("one", "--one-based")):
        models.append(tmp_path / name)
        assert run("train", tmp_path / f"{name}.svm", models[-1], base, "--quiet")[0] == 0
    for order in (models, models[::-1]):
        code, out, err = run("compare", *order, tmp_path / "test.svm", "--json")
        assert code == 0, err
        for path, found in zip(order, json.loads(out)["models"], strict=True):
            assert (
                found["P@1"] == json.loads(run("evaluate", path, tmp_path / "test.svm", "--json")[1])["P@1"]
            )


def test_compare_measures_f1_as_evaluate_does(run, folder, tmp_path):
    test, plain = tmp_path / "test.svm", tmp_path / "plain"
    lines = (folder / "test.svm").read_text().splitlines()
    rows = [line for line in lines if ":" in line and line != lines[0]]
    rows += ["  1:1 5:2", "77,3 2:1 7:1"]  # without labels, and with one that the models do not know
    test.write_text("\n".join(rows) + "\n")
    shutil.copytree(folder / "model", plain)
    labeltree.load(plain).store_decision(None, None)
    code, out, err = run("compare", folder / "model", plain, test, "--json")
    assert code == 0, err
    stored, best = json.loads(out)["models"]
    assert (stored["F1_threshold"], best["F1_threshold"]) == ("stored", "best")
    assert (stored["unknown_labels"], stored["rows_without_labels"]) == (1, 1)
    assert err.count("unknown to every model and counted as missed") == err.count("unknown to") == 1
    assert err.count(f"note: 1 of {len(rows)} rows without labels, left out of all metrics.") == 1
    report = json.loads(run("evaluate", folder / "model", test, "--thresholds", "--json")[1])
    expected = {row["stored"]: row["micro_f1"] for row in report["thresholds"]}[True]
    assert stored["F1"] == pytest.approx(expected)
    most = max(row["micro_f1"] for row in report["thresholds"] if "micro_f1" in row["best"])
    assert best["F1"] == pytest.approx(most)
    shown = run("compare", folder / "model", plain, test)[1]
    quiet = run("compare", folder / "model", plain, test, "-q")[1]
    assert re.sub(r"\d\.\d{3}", "", shown).startswith(re.sub(r"\d\.\d{3}", "", quiet))  # but for times
    assert "paired bootstrap" in quiet
    assert re.search(r"F1 +threshold\n", shown)
    assert "best: the model has" in shown
