"""The experiment `pruning`: recounted weight by weight, and nothing is left behind."""

import tempfile
from dataclasses import replace

import numpy as np
import pytest
from codec_twin import quantise
from helpers import disk_bytes, make_data

from labeltree import Dataset, InputError, SolverSettings, build_tree, make_plan, train_model
from labeltree.model.model import Model
from labeltree.paper import experiments
from labeltree.paper.experiments import Session, Split

SEEDS = (0, 3)
THRESHOLDS = (0.05, 0.1, 0.3)


@pytest.fixture(scope="module")
def splits():
    return [Split("one", make_data(400), make_data(60, seed=1)), Split("no test", make_data(80, seed=2))]


@pytest.fixture(scope="module")
def done():
    return []


@pytest.fixture(scope="module")
def result(splits, done):
    return experiments.run(
        "pruning",
        Session(splits, SEEDS, threads=1),
        progress=done.append,
        thresholds=[0, *THRESHOLDS, 0.1],
        clusters=5,
    )


@pytest.fixture(scope="module")
def models(splits, tmp_path_factory):
    """Train the same models without the experiment."""
    train = splits[0].train
    settings = SolverSettings(cost=1, tolerance=0.001, max_iterations=1000, bias=0)
    made = {}
    for seed in SEEDS:
        plan = make_plan(train, build_tree(train, clusters=5, max_depth=6, seed=seed), settings)
        made[seed] = train_model(train, plan, tmp_path_factory.mktemp("twin") / "model")
    return made


def precision(model, test):
    """Compute P@k in percent, row by row."""
    found = {}
    predicted, _ = model.predict(test.X, score="hinge2")
    truth = test.Y.toarray() != 0
    for k in (1, 3, 5):
        hits = [truth[i, label] for i, row in enumerate(predicted) for label in row[:k] if label >= 0]
        found[f"P@{k}"] = 100 * np.sum(hits) / (k * test.n_instances)
    return found


def rounded(model, threshold):
    """Set small weights to zero and round the others to int8, without a change of scale."""
    (part,) = model.trees
    blocks = [quantise(part.block(u)[1], "int8", threshold) for u in range(part.tree.n_nodes)]
    weights = np.concatenate([(stored * scales).ravel() for stored, scales in blocks])
    parts = (replace(part, weights=weights),)
    return Model(None, model.manifest, parts, model.label_counts, model.label_names)


def test_threshold_0_is_the_model_as_trained(result, models, splits):
    for row in result.rows("pruning-seeds"):
        if row["threshold"] == 0:
            model = models[row["seed"]]
            for key, value in precision(model, splits[0].test).items():
                assert row[key] == pytest.approx(value, rel=1e-12)
            assert row["disk_bytes"] == disk_bytes(model.path)
            assert row["pruned_share"] == 0
            assert row["paper_bytes"] == 12 * np.count_nonzero(model.trees[0].weights)


def test_pruned_weights_agree_with_a_recount(result, models, splits, tmp_path):
    for row in result.rows("pruning-seeds"):
        weights = np.asarray(models[row["seed"]].trees[0].weights, np.float64)
        small = (np.abs(weights) < row["threshold"]) & (weights != 0)
        assert row["weights"] == weights.size
        assert row["nonzeros"] == np.count_nonzero(weights) - small.sum()
        assert row["pruned_share"] == pytest.approx(small.sum() / np.count_nonzero(weights))
        assert row["pruned_of_all_share"] == pytest.approx(small.mean())
        assert row["paper_bytes"] == 12 * row["nonzeros"]
        if row["threshold"]:
            path = tmp_path / f"{row['seed']}{row['threshold']}"
            pruned = models[row["seed"]].compress(path, prune=row["threshold"])
            assert row["disk_bytes"] == disk_bytes(pruned.path)
            for key, value in precision(
                rounded(models[row["seed"]], row["threshold"]), splits[0].test
            ).items():
                assert row[key] == pytest.approx(value, rel=1e-12)
    shares = [row["pruned_share"] for row in result.rows("pruning-seeds") if row["threshold"] == 0.3]
    assert min(shares) > 0.2  # the recount above found some


def test_tables_hold_means_over_the_seeds(result):
    runs, means, shown = (result.rows(name) for name in ("pruning-seeds", "pruning-thresholds", "pruning"))
    assert [(row["data"], row["threshold"]) for row in means] == [("one", t) for t in (0, *THRESHOLDS)]
    for row in means:
        mine = [run for run in runs if run["threshold"] == row["threshold"]]
        assert [run["seed"] for run in mine] == list(SEEDS)
        for key in ("P@1", "P@3", "P@5", "pruned_share", "disk_bytes"):
            assert row[key] == pytest.approx(np.mean([run[key] for run in mine]), rel=1e-4)
    assert [row["threshold"] for row in shown] == [0, 0.1]


def test_changes_are_paired_over_the_rows(result, models, splits):
    """Recount, row by row, the change at 0.1: better, worse, mean and standard error over the rows."""
    test = splits[0].test
    truth = test.Y.toarray() != 0
    of_row = {False: [], True: []}
    for model in models.values():
        for after, one in ((False, model), (True, rounded(model, 0.1))):
            predicted, _ = one.predict(test.X, score="hinge2")
            of_row[after].append([100 * truth[i, row[:3]].sum() / 3 for i, row in enumerate(predicted)])
    difference = np.mean(of_row[True], axis=0) - np.mean(of_row[False], axis=0)
    row = next(row for row in result.rows("pruning-changes") if row["precision"] == "P@3")
    assert row["rows"] == len(difference) == 60
    assert (row["rows_better"], row["rows_worse"]) == ((difference > 1e-9).sum(), (difference < -1e-9).sum())
    assert row["change"] == pytest.approx(difference.mean())
    assert row["error"] == pytest.approx(difference.std(ddof=1) / np.sqrt(60))
    means = {row["threshold"]: row["P@3"] for row in result.rows("pruning-thresholds")}
    assert row["change"] == pytest.approx(means[0.1] - means[0])


@pytest.mark.parametrize("broken", ["compress", "predict"])
def test_an_error_leaves_nothing_behind(splits, monkeypatch, tmp_path, broken):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    seen = []

    def fail(*_, **__):
        seen.extend(path.name for path in tmp_path.iterdir())
        raise RuntimeError("broken")

    monkeypatch.setattr(f"labeltree.model.model.Model.{broken}", fail)
    with pytest.raises(RuntimeError, match="broken"):
        experiments.run("pruning", Session(splits, [0], threads=1), clusters=5)
    assert len(seen) == 1
    assert seen[0].startswith("labeltree-pruning-")
    assert list(tmp_path.iterdir()) == []


def test_refusals(splits, monkeypatch):
    session = Session(splits, [0], threads=1)
    with pytest.raises(InputError, match="pruning needs test data, found none in no test"):
        experiments.run("pruning", Session(splits[1:], [0]))
    for thresholds in ([-0.1], [float("nan")], [float("inf")]):
        with pytest.raises(InputError, match="thresholds"):
            experiments.run("pruning", session, thresholds=thresholds)
    with pytest.raises(InputError, match="thresholds"):
        experiments.run("pruning", session, threshold=0)
    with pytest.raises(InputError, match="tolerance"):
        experiments.run("pruning", session, tolerance=0)
    monkeypatch.setattr("labeltree.paper.pruning.free_disk", lambda path: 10_000)
    with pytest.raises(InputError, match="set TMPDIR"):
        experiments.run("pruning", session, clusters=5)


def test_as_an_experiment(splits):
    """By name, with fewer labels than ranks, in double precision."""
    X, Y = make_data(50).X, make_data(50).Y[:, :3]
    few = Split("few", Dataset.from_matrices(X, Y), Dataset.from_matrices(X, Y))
    found = experiments.run("pruning", [few], seeds=[1], threads=1, tolerance=1e-4, thresholds=[0.2])
    assert [row["threshold"] for row in found.tables[1].rows] == [0, 0.1, 0.2]
    assert found.settings["seeds"] == [1]
