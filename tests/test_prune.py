"""Pruning against a twin in NumPy; the pruned model is whole, smaller, and says what was done."""

import json
import os
import shutil
import tempfile
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from helpers import contents, disk_bytes, examples, random_data
from hypothesis import given
from hypothesis import strategies as st

from labeltree import InputError, build_tree, load, make_plan, train_model
from labeltree.settings import SolverSettings

V1 = Path(__file__).parent / "models/v1"


def twin(model, threshold):
    """Features and weights of every block after pruning, in double precision."""
    blocks = []
    for t, part in enumerate(model.trees):
        for u in range(part.tree.n_nodes):
            features, weights = (array.copy() for array in model.block(u, t))
            weights[np.abs(weights.astype(np.float64)) < threshold] = 0
            kept = (weights != 0).any(axis=1) | ((features == model.n_features) & (model.bias != 0))
            blocks.append((features[kept], weights[kept]))
    return blocks


def blocks(model):
    return [model.block(u, t) for t, part in enumerate(model.trees) for u in range(part.tree.n_nodes)]


def magnitudes(model):
    return np.concatenate([np.abs(weights).ravel() for _, weights in blocks(model)]).astype(np.float64)


def assert_same_blocks(found, expected):
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        for mine, its in zip(one, other, strict=True):
            assert mine.dtype == its.dtype
            assert np.array_equal(mine, its)


@pytest.fixture(scope="module")
def unbiased(tmp_path_factory):
    data = random_data()
    trees = [build_tree(data, clusters=3, seed=s) for s in range(2)]
    path = tmp_path_factory.mktemp("unbiased") / "model"
    train_model(data, make_plan(data, trees, SolverSettings(bias=0)), path)
    return path


@pytest.mark.parametrize("threshold", [1e-6, 0.01, 0.1, 0.3, 1, 100])
@pytest.mark.parametrize("which", ["trained", "unbiased"])
def test_equals_its_twin(request, tmp_path, which, threshold):
    model = load(request.getfixturevalue(which))
    pruned = model.prune(threshold, tmp_path / "pruned")
    assert_same_blocks(blocks(pruned), twin(model, threshold))
    pruned.verify()
    assert_same_blocks(blocks(load(tmp_path / "pruned", verify=True)), twin(model, threshold))
    for name in ("label_counts.npy", "tree-0/child_ptr.npy", "tree-1/children.npy"):
        assert (tmp_path / "pruned" / name).read_bytes() == (model.path / name).read_bytes()
    assert pruned.label_names == model.label_names
    assert [entry.name for entry in tmp_path.iterdir()] == ["pruned"]


@examples(40)
@given(st.floats(0, 1, exclude_min=True), st.booleans())
def test_any_threshold_even_one_that_is_a_weight(trained, part, exact):
    """At a weight itself the weight stays, and a hair above it goes: strictly smaller is pruned."""
    model = load(trained)
    sizes = np.sort(magnitudes(model))
    threshold = float(sizes[int(part * (sizes.size - 1))]) if exact else part
    threshold = max(threshold, 1e-9)
    with tempfile.TemporaryDirectory() as folder:
        for limit in (threshold, float(np.nextafter(threshold, 2))):
            pruned = model.prune(limit, Path(folder) / "pruned", overwrite=True)
            assert_same_blocks(blocks(pruned), twin(model, limit))
            assert pruned.pruning_report()["nonzeros_after"] == (sizes >= limit).sum()


@pytest.mark.parametrize("which", ["trained", "unbiased"])
def test_a_tiny_threshold_changes_no_prediction(request, tmp_path, which):
    model, X = load(request.getfixturevalue(which)), random_data(3).X
    pruned = model.prune(1e-30, tmp_path / "pruned")
    for one, other in zip(pruned.predict(X, beam=30), model.predict(X, beam=30), strict=True):
        assert np.array_equal(one, other)
    report = pruned.pruning_report()
    assert report["nonzeros_after"] == report["nonzeros_before"] > 0
    assert report["pruned_of_nonzeros"] == report["pruned_of_all"] == 0


@pytest.mark.parametrize("threshold", [1e6, 1e300])
@pytest.mark.parametrize("which", ["trained", "unbiased"])
def test_a_model_without_any_weight_is_still_a_model(request, tmp_path, which, threshold):
    pruned = load(request.getfixturevalue(which)).prune(threshold, tmp_path / "pruned")
    pruned = load(pruned.path, verify=True)
    assert pruned.manifest["weights"] == 0
    for features, weights in blocks(pruned):
        assert len(features) == (pruned.bias != 0)
        assert not weights.any()
    labels, scores = pruned.predict(random_data().X, top=3)
    assert labels.shape == (60, 3)
    assert (labels >= 0).all()
    assert ((scores > 0) & (scores <= 0.5)).all()  # sigmoid(0), once or more
    assert pruned.depths()[0]["weights"] == 0
    assert pruned.pruning_report()["paper_bytes_after"] == 0
    assert pruned.pruning_report()["pruned_of_nonzeros"] == 1


def test_larger_thresholds_prune_more(trained, tmp_path):
    model, reports = load(trained), []
    for i, threshold in enumerate([1e-6, 0.003, 0.03, 0.1, 0.3, 1, 10]):
        reports.append(model.prune(threshold, tmp_path / str(i)).pruning_report())
    for key in ("nonzeros_after", "bytes_after", "paper_bytes_after"):
        values = [report[key] for report in reports]
        assert values == sorted(values, reverse=True)
        assert values[-1] < values[2] < values[0]
    for report in reports:
        assert report["nonzeros_before"] == reports[0]["nonzeros_before"]


def test_the_report_counts_what_is_there(trained, tmp_path):
    model = load(trained)
    pruned = model.prune(0.1, tmp_path / "pruned")
    before, after = magnitudes(model), magnitudes(pruned)
    assert pruned.pruning_report() == {
        "threshold": 0.1,
        "weights": before.size,
        "nonzeros_before": (before > 0).sum(),
        "nonzeros_after": (after > 0).sum(),
        "pruned_of_nonzeros": ((before > 0) & (before < 0.1)).sum() / (before > 0).sum(),
        "pruned_of_all": ((before > 0) & (before < 0.1)).sum() / before.size,
        "bytes_before": disk_bytes(trained),
        "bytes_after": disk_bytes(tmp_path / "pruned"),
        "paper_bytes_before": 12 * (before > 0).sum(),
        "paper_bytes_after": 12 * (after > 0).sum(),
    }
    assert pruned.bytes == disk_bytes(tmp_path / "pruned") < model.bytes
    biases = sum(part.tree.children.size for part in pruned.trees)
    assert pruned.manifest["weights"] == after.size - biases
    assert sum(row["weights"] for t in (0, 1) for row in pruned.depths(t)) == pruned.manifest["weights"]


def test_the_manifest_records_the_pruning(trained, tmp_path):
    model = load(trained)
    pruned = model.prune(0.2, tmp_path / "pruned")
    assert pruned.manifest["pruned"]["threshold"] == 0.2
    for key in (
        "format_version",
        "instances",
        "features",
        "labels",
        "one_based",
        "trees",
        "settings",
        "notes",
    ):
        assert pruned.manifest[key] == model.manifest[key]
    assert "pruned" not in model.manifest
    with pytest.raises(InputError, match="was not pruned"):
        model.pruning_report()


def test_pruning_again_keeps_the_larger_threshold(trained, tmp_path):
    once = load(trained).prune(0.2, tmp_path / "once")
    again = once.prune(0.1, tmp_path / "again")
    assert_same_blocks(blocks(again), blocks(once))
    assert again.manifest["pruned"]["threshold"] == 0.2
    assert once.prune(0.3, tmp_path / "more").manifest["pruned"]["threshold"] == 0.3


def test_strips_of_a_block_are_one_block(trained, tmp_path, monkeypatch):
    load(trained).prune(0.1, tmp_path / "whole")
    monkeypatch.setattr("labeltree.prune.STRIP_WEIGHTS", 7)
    load(trained).prune(0.1, tmp_path / "strips")
    assert contents(tmp_path / "whole") == contents(tmp_path / "strips")


def test_memory_does_not_grow_with_the_model(tmp_path, monkeypatch):
    data = random_data(instances=400, features=2000, labels=200, density=0.2)
    plan = make_plan(data, build_tree(data, max_depth=1), SolverSettings(tolerance=0.5), threads=1)
    model = train_model(data, plan, tmp_path / "model")
    monkeypatch.setattr("labeltree.prune.STRIP_WEIGHTS", 10_000)
    model.prune(0.1, tmp_path / "first")  # imports
    tracemalloc.start()
    model.prune(0.1, tmp_path / "second")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 400_000 < model.bytes / 4


def test_a_model_of_the_first_version_can_be_pruned(tmp_path):
    expected = json.loads((V1.parent / "v1.json").read_text("utf-8"))
    old = load(V1)
    pruned = old.prune(0.1, tmp_path / "pruned")
    assert_same_blocks(blocks(load(pruned.path, verify=True)), twin(old, 0.1))
    same = old.prune(1e-30, tmp_path / "same").predict(np.array(expected["rows"]), beam=10)
    for one, other in zip(same, old.predict(np.array(expected["rows"]), beam=10), strict=True):
        assert np.array_equal(one, other)


@pytest.mark.parametrize("threshold", [0, -0.1, float("nan"), float("inf"), -float("inf"), "x", None])
def test_bad_thresholds(trained, tmp_path, threshold):
    with pytest.raises(InputError, match=r"threshold is .*, expected a positive number"):
        load(trained).prune(threshold, tmp_path / "pruned")
    assert not list(tmp_path.iterdir())


def test_a_model_is_not_pruned_into_itself(model_dir):
    before = contents(model_dir.parent)
    link = model_dir.parent / "link"
    link.symlink_to(model_dir)
    for same in (model_dir, link, model_dir / ".." / model_dir.name):
        with pytest.raises(InputError, match="the same directory as the input model"):
            load(model_dir).prune(0.1, same, overwrite=True)
    link.unlink()
    with pytest.raises(InputError, match="is inside the model"):
        load(model_dir).prune(0.1, model_dir / "pruned")
    with pytest.raises(InputError, match="contains the model"):
        load(model_dir).prune(0.1, model_dir.parent, overwrite=True)
    assert contents(model_dir.parent) == before


def test_another_model_is_replaced_only_on_demand(trained, model_dir):
    before = contents(model_dir)
    with pytest.raises(InputError, match="already exists"):
        load(trained).prune(0.1, model_dir)
    assert contents(model_dir) == before
    load(trained).prune(0.1, model_dir, overwrite=True)
    assert load(model_dir).manifest["pruned"]["threshold"] == 0.1
    assert [entry.name for entry in model_dir.parent.iterdir()] == [model_dir.name]


def test_a_damaged_block_is_not_pruned(model_dir):
    weights = model_dir / "tree-1/weights.npy"
    content = bytearray(weights.read_bytes())
    content[-5] ^= 1
    weights.write_bytes(content)
    with pytest.raises(InputError, match=r"tree-1: checksum mismatch in the block of node \d+"):
        load(model_dir, verify=False).prune(0.1, model_dir.parent / "pruned")
    assert [entry.name for entry in model_dir.parent.iterdir()] == [model_dir.name]


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_an_interrupt_leaves_nothing_new(trained, model_dir, error):
    before, seen = contents(model_dir.parent), []

    def stop(done):
        seen.append(done)
        if done > 0.5:
            raise error

    for target in (model_dir, model_dir.parent / "new"):
        with pytest.raises(error):
            load(trained).prune(0.1, target, overwrite=True, progress=stop)
    assert contents(model_dir.parent) == before
    assert seen[0] > 0


def test_progress_rises_to_the_end(trained, tmp_path):
    seen = []
    load(trained).prune(0.1, tmp_path / "pruned", progress=seen.append)
    assert seen == sorted(seen)
    assert seen[-1] == 1


# The command


def test_the_command(run, folder, tmp_path):
    code, out, err = run("prune", folder / "model", tmp_path / "p", "--threshold", 0.3, "--json")
    figures = json.loads(out)
    assert (code, err) == (0, "")
    assert figures["bytes_before"] == disk_bytes(folder / "model")
    assert figures["bytes_after"] == disk_bytes(tmp_path / "p")
    assert 0 < figures["pruned_of_all"] < figures["pruned_of_nonzeros"] < 1
    assert figures["paper_bytes_after"] == 12 * figures["nonzeros_after"]
    assert figures.items() > load(tmp_path / "p").pruning_report().items()
    assert_same_blocks(blocks(load(tmp_path / "p")), twin(load(folder / "model"), 0.3))
    code, out, err = run("prune", folder / "model", tmp_path / "p", "--threshold", 0.3, "--overwrite")
    assert code == 0
    assert "0.3" in out
    assert f"{figures['bytes_before']:,} -> {figures['bytes_after']:,} bytes" in out
    assert [line.split()[0] for line in err.splitlines()] == ["opening", "pruning"]
    assert run("prune", folder / "model", tmp_path / "q", "--threshold", 0.3, "-q") == (0, "", "")
    assert contents(tmp_path / "p") == contents(tmp_path / "q")


def test_info_and_evaluate_take_a_pruned_model(run, folder, tmp_path):
    assert run("prune", folder / "model", tmp_path / "p", "--threshold", 0.25, "-q")[0] == 0
    assert "pruned   weights with an absolute value below 0.25" in run("info", tmp_path / "p")[1]
    assert json.loads(run("info", tmp_path / "p", "--json")[1])["pruned"]["threshold"] == 0.25
    assert "pruned" not in run("info", folder / "model")[1]
    assert run("evaluate", tmp_path / "p", folder / "test.svm", "-q")[0] == 0


def test_mistakes(refused, folder, tmp_path):
    model, out = folder / "model", tmp_path / "p"
    for wrong in ("0", "-1", "nan", "inf"):
        assert "a positive number" in refused("prune", model, out, "--threshold", wrong)
    assert "--threshold" in refused("prune", model, out)
    assert "--threshold is 'x', expected a positive number" in refused(
        "prune", model, out, "--threshold", "x"
    )
    assert "no such model" in refused("prune", tmp_path / "nothing", out, "--threshold", 0.1)
    assert "is a file, not a directory" in refused("prune", folder / "test.svm", out, "--threshold", 0.1)
    assert "the same directory" in refused("prune", model, model, "--threshold", 0.1)
    assert "the same directory" in refused("prune", model, model, "--threshold", 0.1, "--overwrite")
    assert "no such directory" in refused("prune", model, tmp_path / "no" / "p", "--threshold", 0.1)
    assert "already exists" in refused("prune", model, folder / "named-model", "--threshold", 0.1)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "mine.txt").write_text("mine")
    assert "not a model" in refused("prune", model, tmp_path, "--threshold", 0.1, "--overwrite")


def test_a_damaged_model_is_refused(refused, folder, tmp_path):
    shutil.copytree(folder / "model", tmp_path / "m")
    with open(tmp_path / "m/tree-0/weights.npy", "r+b") as file:
        file.seek(-3, os.SEEK_END)
        file.write(b"\xff")
    assert "checksum mismatch" in refused("prune", tmp_path / "m", tmp_path / "p", "--threshold", 0.1)
    os.truncate(tmp_path / "m/tree-0/weights.npy", 500)
    assert "the file has 500 bytes" in refused("prune", tmp_path / "m", tmp_path / "p", "--threshold", 0.1)
    assert [entry.name for entry in tmp_path.iterdir()] == ["m"]


def test_an_interrupted_command(folder, tmp_path, capsys, monkeypatch):
    from labeltree.cli import main

    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("labeltree.prune._Block.write", stop)
    assert main(["prune", str(folder / "model"), str(tmp_path / "p"), "--threshold", "0.1"]) == 130
    assert capsys.readouterr().err.endswith("stopped; nothing was written\n")
    assert list(tmp_path.iterdir()) == []
