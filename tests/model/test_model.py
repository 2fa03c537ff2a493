"""The model directory: written whole or not at all, and read back the same."""

import json
import os
import shutil
import stat
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from forgery import forge
from helpers import contents, ctrl_c, random_data, refused_model, train_small

from labeltree import InputError
from labeltree.explain.prediction import explain_prediction
from labeltree.model.layout import MANIFEST
from labeltree.model.model import load
from labeltree.settings import ScoreSettings, SolverSettings
from labeltree.training.fill import train_model
from labeltree.training.plan import make_plan
from labeltree.trees.kmeans import build_tree


def endless(path, **options):
    """Training that would go on for hours."""
    solver = SolverSettings("hinge", cost=1e6, tolerance=1e-300, max_iterations=2**31 - 1)
    return train_small(path, settings=solver, **options)


def test_what_is_loaded_is_what_was_trained(trained):
    data, model = random_data(names=True), load(trained)
    shape = "n_labels=12, n_features=30, trees=2"
    assert repr(model) == f"Model({str(trained)!r}, {shape}, bytes={model.bytes})"
    assert (model.n_instances, model.label_names, model.bias) == (60, data.label_names, 1.0)
    assert model.label_counts.tolist() == data.Y.getnnz(axis=0).tolist()
    manifest = json.loads((trained / MANIFEST).read_text())
    assert (manifest["format"], manifest["format_version"]) == ("labeltree model", 1)
    assert manifest["settings"]["loss"] == "squared_hinge"
    sizes = {str(name): len(content) for name, content in contents(trained).items() if str(name) != MANIFEST}
    assert {name: entry["bytes"] for name, entry in manifest["files"].items()} == sizes


def test_blocks_have_the_shape_of_the_plan(tmp_path):
    data = random_data()
    tree = build_tree(data, clusters=3)
    plan = make_plan(data, tree)
    model = train_model(data, plan, tmp_path / "model")
    for u in range(tree.n_nodes):
        features, weights = model.block(u)
        assert weights.shape == (plan.trees[0].used_features[u] + 1, tree.child_count[u])
        assert (np.diff(features) > 0).all()
        assert features[-1] == data.n_features  # the bias
        assert not weights.flags.writeable
    for wrong in (-1, tree.n_nodes):
        with pytest.raises(InputError, match=rf"node is {wrong}, expected"):
            model.block(wrong)


@pytest.mark.parametrize(
    "stored",
    [
        ScoreSettings(),
        ScoreSettings("sigmoid", 1.5, 0.5),
        ScoreSettings("hinge3"),
        ScoreSettings("hinge3", path_weight=0.75),
    ],
)
def test_a_model_predicts_with_the_score_that_it_stores(tmp_path, stored):
    data = random_data(names=True)
    model = train_small(tmp_path / "model", data, score=stored)
    assert model.manifest["score"] == asdict(stored)
    model.save(tmp_path / "copy")
    assert load(tmp_path / "copy").score == model.score == stored
    for given, used in (
        ({}, stored),
        ({"score": stored.function}, stored),
        ({"score": "hinge2"}, ScoreSettings("hinge2")),
        ({"score_scale": 7.0}, ScoreSettings("sigmoid", 7.0)),
        ({"score": "sigmoid", "score_scale": 7.0}, ScoreSettings("sigmoid", 7.0)),
    ):
        expected = model.predict(data.X, score=used.function, score_scale=used.scale)
        for one, other in zip(model.predict(data.X, **given), expected, strict=True):
            assert one.tobytes() == other.tobytes()
    same = train_small(tmp_path / "same", data, score=ScoreSettings("hinge2", path_weight=stored.path_weight))
    for one, other in zip(model.predict(data.X, score="hinge2"), same.predict(data.X), strict=True):
        assert one.tobytes() == other.tobytes()  # the weight of the path is kept
    best = explain_prediction(model, data.X[0], top=2)
    assert [e.score for e in best] == model.predict(data.X[0], top=2)[1][0].tolist()


def test_another_score_function_begins_with_the_default_scale():
    assert ScoreSettings("hinge3", 7.0).replace("sigmoid", None) == ScoreSettings("sigmoid", 3.0)
    assert ScoreSettings("sigmoid", 7.0).replace("sigmoid", None) == ScoreSettings("sigmoid", 7.0)
    assert ScoreSettings("hinge3", path_weight=0.5).replace("sigmoid", 2.0) == ScoreSettings(
        "sigmoid", 2.0, 0.5
    )


@pytest.mark.parametrize("weight", [0, 0.04, 1.01, -1, float("nan"), "1"])
def test_the_weight_of_a_path_has_limits(weight):
    with pytest.raises(InputError, match=r"path_weight is .*, expected a number from 0.05 to 1"):
        ScoreSettings(path_weight=weight)


@pytest.mark.parametrize(
    ("entry", "name", "value", "message"),
    [
        ("settings", "hard_negatives", None, None),
        ("settings", "foreign_cost", None, None),
        ("score", "path_weight", None, None),
        ("settings", "hard_negatives", -1, "hard_negatives is -1"),
        ("settings", "foreign_cost", 0, "foreign_cost is 0"),
        ("score", "path_weight", 2, "path_weight is 2"),
        ("score", "scale", None, "scale is missing"),
    ],
)
def test_manifests_of_older_models_have_fewer_settings(model_dir, entry, name, value, message):
    before = load(model_dir)
    entries = dict(before.manifest[entry]) | {name: value}
    if value is None:
        del entries[name]
    forge(model_dir, **{entry: entries})
    if message is not None:
        refused_model(model_dir, message)
        return
    assert load(model_dir).score == before.score
    same = zip(load(model_dir).predict(random_data().X), before.predict(random_data().X), strict=True)
    assert all((one == other).all() for one, other in same)


# Writing


def test_model_permissions_follow_the_umask(tmp_path):
    before = os.umask(0o027)
    try:
        train_small(tmp_path / "model")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "model").stat().st_mode) == 0o750
    assert stat.S_IMODE((tmp_path / "model/tree-0/weights.npy").stat().st_mode) == 0o640


@pytest.mark.parametrize("is_model", [True, False])
def test_a_model_or_an_empty_directory_is_replaced_on_demand(model_dir, is_model):
    if not is_model:
        shutil.rmtree(model_dir)
        model_dir.mkdir()
    before, other = contents(model_dir), random_data(5, labels=9)
    with pytest.raises(InputError, match="already exists"):
        train_small(model_dir, other, trees=1)
    assert contents(model_dir) == before
    assert train_small(model_dir, other, trees=1, overwrite=True).n_labels == 9
    assert not (model_dir / "tree-1").exists()
    assert [entry.name for entry in model_dir.parent.iterdir()] == [model_dir.name]


def test_a_missing_directory_is_named(tmp_path):
    with pytest.raises(InputError, match=r"nowhere: no such directory"):
        train_small(tmp_path / "nowhere/model")


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("threads", [1, 2])
def test_an_interrupt_leaves_nothing_new(model_dir, overwrite, threads):
    before = contents(model_dir.parent)
    seen = []

    def stop(done):
        seen.append(done)
        raise KeyboardInterrupt

    target = model_dir if overwrite else model_dir.parent / "new"
    with pytest.raises(KeyboardInterrupt):
        endless(target, overwrite=overwrite, threads=threads, progress=stop)
    assert len(seen) == 1
    assert 0 <= seen[0] < 1
    assert contents(model_dir.parent) == before
    assert [entry.name for entry in model_dir.parent.iterdir()] == [model_dir.name]


def test_ctrl_c_stops_training(tmp_path):
    with ctrl_c() as send, pytest.raises(KeyboardInterrupt):
        endless(tmp_path / "model", progress=lambda _: send())
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("step", ["write", "finish"])
def test_an_error_while_writing_leaves_the_old_model(model_dir, monkeypatch, step):
    before, other = contents(model_dir), random_data(5, labels=9)

    def fail(*_):
        raise OSError("No space left on device")

    monkeypatch.setattr(f"labeltree.model.writer.ModelWriter.{step}", fail)
    with pytest.raises(OSError, match="No space"):
        train_small(model_dir, other, trees=1, overwrite=True)
    assert contents(model_dir) == before
    monkeypatch.undo()
    train_small(model_dir, other, trees=1, overwrite=True, resume=True)
    assert [entry.name for entry in model_dir.parent.iterdir()] == [model_dir.name]
    train_small(model_dir.parent / "at-once", other, trees=1)
    assert contents(model_dir) == contents(model_dir.parent / "at-once")


@pytest.mark.parametrize("atomic", [True, False])
def test_an_error_while_renaming_leaves_the_old_model(model_dir, monkeypatch, atomic):
    before, replace = contents(model_dir), os.replace

    def fail(source, target):
        if Path(source).name == "model" and Path(source).parent.suffix == ".work":
            raise OSError("Stale file handle")
        replace(source, target)

    monkeypatch.setattr("os.replace", fail)
    monkeypatch.setattr("labeltree.model.directory._exchange", fail if atomic else lambda *_: False)
    with pytest.raises(OSError, match="Stale"):
        train_small(model_dir, random_data(5, labels=9), trees=1, overwrite=True)
    assert contents(model_dir) == before
    assert set(os.listdir(model_dir.parent)) == {model_dir.name, f"{model_dir.name}.work"}


@pytest.mark.filterwarnings("ignore:The data looks like the training data")
def test_evaluation_checks_its_ranks_and_takes_lists(tmp_path):
    data = random_data()
    model = train_small(tmp_path / "model", data)
    predicted = model.predict(data.X, top=3)[0]
    accepted = {"micro_F1", "macro_F1", "rows_with_accepted_label"}
    found = model.evaluate(data, ks=(1, 3))
    given = model.evaluate(data, predicted=predicted.tolist(), ks=(1, 3))
    assert given == {name: value for name, value in found.items() if name not in accepted}
    assert found.keys() - given.keys() == accepted
    with pytest.raises(InputError, match="k is 0"):
        model.evaluate(data, ks=(0,))
    with pytest.raises(InputError, match="ks is empty"):
        model.evaluate(data, ks=())


def test_a_manifest_names_the_version_that_wrote_the_files(trained, tmp_path, monkeypatch):
    model = load(trained)
    monkeypatch.setattr("labeltree.model.writer.__version__", "9.9")
    model.save(tmp_path / "saved")
    model.compress(tmp_path / "pruned", prune=0.1)
    train_small(tmp_path / "trained")
    assert model.manifest["labeltree_version"] != "9.9"
    for name in ("saved", "pruned", "trained"):
        assert load(tmp_path / name).manifest["labeltree_version"] == "9.9"
