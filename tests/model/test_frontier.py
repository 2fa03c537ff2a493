"""The frontier: every point is what compress and evaluate give, the chosen one is the smallest allowed."""

import csv
import json

import pytest
from helpers import disk_bytes, make_data, train_small

from labeltree import load, write_svm
from labeltree.model.frontier import (
    chosen_points,
    default_storages,
    first_trees,
    measure,
    tree_counts,
)
from labeltree.model.labeled import Validation
from labeltree.settings import StorageSettings

NAMES = ("frontier.csv", "frontier.png", "frontier.svg")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return train_small(tmp_path_factory.mktemp("frontier") / "model", make_data(400), trees=3)


@pytest.fixture(scope="module")
def data():
    return make_data(60, seed=1)


def test_tree_counts():
    assert [tree_counts(n) for n in (1, 2, 3, 5, 8)] == [[1], [1, 2], [1, 2, 3], [1, 2, 4, 5], [1, 2, 4, 8]]


def test_points_are_what_compress_and_evaluate_give(model, data, tmp_path):
    storages = [StorageSettings(), StorageSettings("int8"), StorageSettings(prune=0.2)]
    seen = []
    points = measure(
        model, Validation.of(data, model), tmp_path, storages, threads=1, progress=seen.append, beam=4
    )
    assert list(tmp_path.iterdir()) == []
    assert seen == pytest.approx([1 / 3, 2 / 3, 1])
    assert [point.trees for point in points] == [1, 2, 3] * 3
    copies = [model, model.compress(tmp_path / "int8"), model.compress(tmp_path / "sparse", prune=0.2)]
    for point, copy in zip(points, [copy for copy in copies for _ in range(3)], strict=True):
        part = first_trees(copy, point.trees)
        others = [f"tree-{t}" for t in range(point.trees, 3)]
        assert point.form.model_bytes == part.bytes
        assert part.bytes == disk_bytes(copy.path) - sum(disk_bytes(copy.path / name) for name in others)
        found = part.evaluate(data, part.predict(data.X, beam=4)[0])
        report = point.report(False)
        for name in ("P@1", "P@3", "P@5"):
            assert report[name] == pytest.approx(100 * found[name], abs=1e-4)
    assert points[-1].form.n_nonzeros == load(tmp_path / "sparse").manifest["weights"]
    stored = [point.form.n_nonzeros for point in points[-3:]]
    assert stored == sorted(stored)
    assert points[0].form.n_nonzeros is None


def test_the_first_tree_alone_predicts_like_a_model_of_one_tree(model, data, tmp_path):
    one = train_small(tmp_path / "one", make_data(400), trees=1, score=model.score)
    found, expected = first_trees(model, 1).predict(data.X), one.predict(data.X)
    assert (found[0] == expected[0]).all()
    assert first_trees(model, 3) is model


def test_default_forms_keep_some_weights_and_not_all(model):
    storages = default_storages(model, 1)
    assert [storage.codec for storage in storages[:4]] == ["float32", "float16", "int8", "sparse"]
    thresholds = [storage.prune for storage in storages[3:]]
    assert thresholds == sorted(thresholds)
    assert thresholds[0] == 0
    assert len(thresholds) > 3


def test_the_command(run, folder, tmp_path):
    command = ("compress", folder / "model", "--validation", folder / "test.svm", "--report", tmp_path / "o")
    code, out, err = run(*command, "--json", "--max-loss", 1)
    assert (code, err) == (0, "")
    figures = json.loads(out)
    assert sorted(path.name for path in (tmp_path / "o").iterdir()) == sorted(NAMES)
    points = figures["points"]
    (chosen,) = [point for point in points if point["chosen"]]
    allowed = [
        point for point in points if all(point[f"P@{k}"] >= points[0][f"P@{k}"] - 1 for k in (1, 3, 5))
    ]
    assert chosen["model_bytes"] == min(point["model_bytes"] for point in allowed)
    assert points[0]["model_bytes"] == disk_bytes(folder / "model")
    with open(tmp_path / "o/frontier.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["trees", *list(points[0])[1:]]
    assert [int(row["model_bytes"]) for row in rows] == [point["model_bytes"] for point in points]
    code, out, err = run(*command, "--overwrite")
    assert code == 0
    assert out.count("*") == 2  # the chosen row, and what it means
    assert err.splitlines()[-1].startswith("evaluating")
    figure = (tmp_path / "o/frontier.svg").read_bytes()
    assert run(*command, "--overwrite", "-q") == (0, "", "")
    assert (tmp_path / "o/frontier.svg").read_bytes() == figure


def test_several_trees_have_a_chosen_point_each(model, data, tmp_path):
    points = measure(model, Validation.of(data, model), tmp_path, threads=1)
    chosen = chosen_points(points, 0.1)
    assert [point.trees for point in chosen] == [1, 2, 3]


def test_refusals(run, refused, folder, tmp_path, monkeypatch):
    model, test, out = folder / "model", folder / "test.svm", tmp_path / "o"
    assert "no output is given" in refused("compress", model)
    assert "--report needs validation data" in refused("compress", model, "--report", out)
    assert "no such model" in refused("compress", tmp_path / "no", "--validation", test, "--report", out)
    assert "no such file" in refused("compress", model, "--validation", tmp_path / "no.svm", "--report", out)
    assert "no such directory" in refused(
        "compress", model, "--validation", test, "--report", tmp_path / "no" / "o"
    )
    write_svm(tmp_path / "wide.svm", make_data(20, features=99))
    assert "99 features" in refused("compress", model, "--validation", tmp_path / "wide.svm", "--report", out)
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
    assert (code, err.splitlines()[-1]) == (130, "stopped; no model was written")
    assert not (tmp_path / "new").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["o", "small", "wide.svm"]
