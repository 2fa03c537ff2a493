"""The experiment `tight-bound`: non-zero weights recounted from trained models."""

import tempfile

import numpy as np
import pytest
from helpers import make_data, topic_data

from labeltree import InputError, SolverSettings, build_tree, make_plan, train_model
from labeltree.paper import experiments
from labeltree.paper.experiments import Session, Split
from labeltree.paper.tight_bound import LOSSES

SEEDS = (0, 3)


@pytest.fixture(scope="module")
def splits():
    return [Split("plain", make_data(200)), Split("topics", topic_data())]


@pytest.fixture(scope="module")
def done():
    return []


@pytest.fixture(scope="module")
def result(splits, done):
    return experiments.run("tight-bound", Session(splits, SEEDS, threads=1), progress=done.append, clusters=5)


def test_nonzeros_agree_with_a_recount(splits, result, tmp_path):
    summary, rows = (table.rows for table in result.tables)
    for split in splits:
        for loss in LOSSES:
            shares = []
            for seed in SEEDS:
                tree = build_tree(split.train, clusters=5, seed=seed)
                plan = make_plan(split.train, tree, SolverSettings(cost=1, loss=loss, bias=0))
                model = train_model(split.train, plan, tmp_path / f"{split.name}-{loss}-{seed}")
                weights = np.asarray(model.trees[0].weights)
                mine = [
                    row for row in rows if (row["data"], row["loss"], row["seed"]) == (split.name, loss, seed)
                ]
                assert [row["depth"] for row in mine] == list(range(tree.depth))
                assert sum(row["weights"] for row in mine) == weights.size == plan.n_weights
                assert [row["weights"] for row in mine] == [row["weights"] for row in plan.depths()]
                assert sum(row["nonzeros"] for row in mine) == np.count_nonzero(weights)
                shares.append(np.count_nonzero(weights) / weights.size)
            mean = next(row for row in summary if (row["data"], row["loss"]) == (split.name, loss))
            assert mean["nonzero_share"] == pytest.approx(np.mean(shares))
            assert (mean["share_least"], mean["share_most"]) == pytest.approx((min(shares), max(shares)))
            assert mean["bound_bytes"] >= mean["nonzero_bytes"]


def test_every_weight_is_nonzero_with_logistic_loss_only(result):
    share = {(row["data"], row["loss"]): row["nonzero_share"] for row in result.tables[0].rows}
    assert share["plain", "logistic"] == share["topics", "logistic"] == 1
    assert share["plain", "hinge"] < 1


def test_figure_and_progress(result, done):
    (axes,) = result.tables[0].figure.axes
    heights = [bar.get_height() for bars in axes.containers for bar in bars]
    assert sorted(heights) == pytest.approx(
        sorted(100 * row["nonzero_share"] for row in result.tables[0].rows)
    )
    assert done == sorted(done)
    assert done[-1] == pytest.approx(1)


def test_quick_by_name_and_refusals(splits, monkeypatch, tmp_path):
    found = experiments.run("tight-bound", splits[:1], seeds=(2, 4), threads=1, quick=True, losses=["hinge"])
    assert {row["seed"] for row in found.rows("tight-bound-depths")} == {2}
    assert [row["loss"] for row in found.tables[0].rows] == ["hinge"]
    with pytest.raises(InputError, match="losses"):
        experiments.run("tight-bound", Session(splits, SEEDS), losses=[])
    with pytest.raises(InputError, match="loss"):
        experiments.run("tight-bound", Session(splits, SEEDS), losses=["none"])

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def fail(*_, **__):
        assert [path.name[:22] for path in tmp_path.iterdir()] == ["labeltree-tight-bound-"]
        raise RuntimeError("broken")

    monkeypatch.setattr("labeltree.paper.tight_bound.train_model", fail)
    with pytest.raises(RuntimeError, match="broken"):
        experiments.run("tight-bound", Session(splits, [0], threads=1), clusters=5)
    assert list(tmp_path.iterdir()) == []
