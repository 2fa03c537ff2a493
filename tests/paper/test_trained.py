"""The experiments that train or cluster, against a recount; they leave nothing behind."""

import tempfile
from dataclasses import replace

import numpy as np
import pytest
from helpers import make_data, node_rows, random_data, topic_data

from labeltree import Dataset, InputError, SolverSettings, build_tree, make_plan, train_model
from labeltree.model.model import Model
from labeltree.paper import experiments
from labeltree.paper.experiments import Session, Split
from labeltree.paper.tables import where
from labeltree.paper.weights import LOSSES

SEEDS = (0, 3)
THRESHOLDS = (0.05, 0.1, 0.3)


def run(name, session, **options):
    """Run an experiment, and check that its progress rises to the end."""
    done = []
    result = experiments.run(name, session, progress=done.append, **options)
    assert done == sorted(done)
    assert done[-1] == pytest.approx(1)
    for table in result.tables:
        assert set(table.columns) <= set(table.rows[0])
    return result


# tight-bound


@pytest.fixture(scope="module")
def bound():
    splits = [Split("plain", make_data(200)), Split("topics", topic_data())]
    return splits, run("tight-bound", Session(splits, SEEDS, threads=1), clusters=5)


def test_nonzeros_agree_with_a_recount(bound, tmp_path):
    splits, result = bound
    for split in splits:
        for loss in LOSSES:
            shares = []
            for seed in SEEDS:
                tree = build_tree(split.train, clusters=5, seed=seed)
                plan = make_plan(split.train, tree, SolverSettings(cost=1, loss=loss, bias=0))
                model = train_model(split.train, plan, tmp_path / f"{split.name}-{loss}-{seed}")
                weights = np.asarray(model.trees[0].weights)
                (row,) = where(result.rows("tight-bound-seeds"), data=split.name, loss=loss, seed=seed)
                assert row["weights"] == weights.size == plan.n_weights
                assert row["nonzeros"] == np.count_nonzero(weights)
                shares.append(np.count_nonzero(weights) / weights.size)
            (mean,) = where(result.tables[0].rows, data=split.name, loss=loss)
            assert mean["nonzero_share"] == pytest.approx(np.mean(shares))
            least, most = mean["nonzero_share_least"], mean["nonzero_share_most"]
            assert (least, most) == pytest.approx((min(shares), max(shares)))


def test_every_weight_is_nonzero_with_logistic_loss_only(bound):
    rows = bound[1].tables[0].rows
    assert [row["nonzero_share"] for row in where(rows, loss="logistic")] == [1, 1]
    assert where(rows, data="plain", loss="hinge")[0]["nonzero_share"] < 1
    (axes,) = bound[1].tables[0].figure.axes
    heights = sorted(bar.get_height() for bars in axes.containers for bar in bars)
    assert heights == pytest.approx(sorted(100 * row["nonzero_share"] for row in rows))


def test_options_of_tight_bound(bound):
    splits, _ = bound
    session = Session(splits[:1], (2,), threads=1)
    found = experiments.run("tight-bound", session, losses=["hinge"])
    assert [(row["seed"], row["loss"]) for row in found.rows("tight-bound-seeds")] == [(2, "hinge")]
    with pytest.raises(InputError, match="loss"):
        experiments.run("tight-bound", Session(splits, SEEDS), losses=["none"])


# pruning


@pytest.fixture(scope="module")
def splits():
    return [Split("one", make_data(400), make_data(60, seed=1)), Split("no test", make_data(80, seed=2))]


@pytest.fixture(scope="module")
def pruned(splits):
    thresholds = [0, *THRESHOLDS, 0.1]
    return run("pruning", Session(splits, SEEDS, threads=1), thresholds=thresholds, clusters=5)


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


def without(model, threshold):
    """Return a model without small weights, and the weights that are left."""
    weights = np.array(model.trees[0].weights)
    weights[np.abs(weights) < threshold] = 0
    parts = (replace(model.trees[0], weights=weights),)
    return Model(None, model.manifest, parts, model.label_counts, model.label_names), weights


def correct(model, test, k):
    """Return the hits of each row among its first k labels."""
    predicted, _ = model.predict(test.X, score="hinge2")
    truth = test.Y.toarray() != 0
    return np.array([truth[i, [n for n in row[:k] if n >= 0]].sum() for i, row in enumerate(predicted)])


def test_pruned_models_agree_with_a_recount(pruned, models, splits):
    rows = pruned.rows("pruning-seeds")
    assert {row["data"] for row in rows} == {"one"}
    for row in rows:
        model = models[row["seed"]]
        small, weights = without(model, row["threshold"])
        for k in (1, 3, 5):
            assert row[f"P@{k}"] == pytest.approx(100 * correct(small, splits[0].test, k).mean() / k)
        trained = np.count_nonzero(model.trees[0].weights)
        assert (row["weights"], row["nonzeros"]) == (weights.size, np.count_nonzero(weights))
        assert row["pruned_share"] == pytest.approx(1 - row["nonzeros"] / trained)
        assert row["nonzero_bytes"] == 12 * row["nonzeros"]
    assert min(row["pruned_share"] for row in where(rows, threshold=0.3)) > 0.2  # the recount found some
    assert {row["pruned_share"] for row in where(rows, threshold=0)} == {0}


def test_the_tables_of_pruning_hold_means_over_the_seeds(pruned):
    means, runs = (table.rows for table in pruned.tables)
    assert [(row["data"], row["threshold"]) for row in means] == [("one", t) for t in (0, *THRESHOLDS)]
    for row in means:
        mine = where(runs, threshold=row["threshold"])
        assert [run["seed"] for run in mine] == list(SEEDS)
        for key in ("P@1", "P@3", "P@5", "pruned_share"):
            assert row[key] == pytest.approx(np.mean([run[key] for run in mine]))
    assert len(pruned.tables[0].figure.axes) == 2


def test_changes_are_paired_over_the_rows(pruned, models, splits):
    test = splits[0].test
    before, after = (
        np.mean([correct(without(model, threshold)[0], test, 3) for model in models.values()], axis=0)
        for threshold in (0, 0.1)
    )
    difference = 100 * (after - before) / 3
    plain, row = (where(pruned.rows("pruning"), threshold=threshold)[0] for threshold in (0, 0.1))
    assert (plain["change_P@3"], plain["error_P@3"]) == (0, 0)
    assert row["change_P@3"] == pytest.approx(difference.mean())
    assert row["change_P@3"] == pytest.approx(row["P@3"] - plain["P@3"])
    assert row["error_P@3"] == pytest.approx(difference.std() / np.sqrt(60))


def test_pruning_with_fewer_labels_than_ranks():
    """In double precision, and with a single seed."""
    X, Y = make_data(50).X, make_data(50).Y[:, :3]
    few = Split("few", Dataset.from_matrices(X, Y), Dataset.from_matrices(X, Y))
    found = experiments.run("pruning", Session([few], [1], threads=1), tolerance=1e-4, thresholds=[0.2])
    assert [row["threshold"] for row in found.tables[0].rows] == [0, 0.2]
    assert found.settings["seeds"] == [1]


def recount(data, tree):
    """Margin and step: each feature value of each instance that a node sees, once for each child."""
    x = data.X.toarray() != 0
    return 2 * sum(
        int(x[node_rows(data, tree, u)].sum()) * int(tree.child_count[u]) for u in range(tree.n_nodes)
    )


def test_multiply_adds_from_scratch():
    for seed in range(3):
        data = random_data(seed, instances=90, labels=20)
        for depth in (1, 2, 4):
            tree = build_tree(data, clusters=3, max_depth=depth, seed=seed)
            part = make_plan(data, tree, SolverSettings(bias=0)).trees[0]
            assert part.multiply_adds == recount(data, tree)


# Temporary directories


@pytest.mark.parametrize(
    ("name", "broken"),
    [
        ("tight-bound", "labeltree.paper.session.train_model"),
        ("pruning", "labeltree.model.model.Model.predict"),
    ],
)
def test_an_error_leaves_nothing_behind(splits, monkeypatch, tmp_path, name, broken):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    seen = []

    def fail(*_, **__):
        seen.extend(path.name for path in tmp_path.iterdir())
        raise RuntimeError("broken")

    monkeypatch.setattr(broken, fail)
    with pytest.raises(RuntimeError, match="broken"):
        experiments.run(name, Session(splits, [0], threads=1))
    assert len(seen) == 1
    assert seen[0].startswith("labeltree-reproduce-")
    assert list(tmp_path.iterdir()) == []
