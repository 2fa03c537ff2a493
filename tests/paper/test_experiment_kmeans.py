"""The experiment `kmeans`: multiply-adds recounted from dense label vectors."""

import numpy as np
import pytest
from helpers import make_data, random_data

from labeltree import InputError, build_tree
from labeltree.paper import experiments, theory
from labeltree.paper.experiments import Session, Split

CLUSTERS = (3, 6)


@pytest.fixture(scope="module")
def session():
    awkward = random_data(seed=4, instances=150, features=80, labels=40, density=0.06)
    return Session([Split("awkward", awkward), Split("plain", make_data(200))], (3,), threads=1)


@pytest.fixture(scope="module")
def done():
    return []


@pytest.fixture(scope="module")
def result(session, done):
    return experiments.run(
        "kmeans", session, progress=done.append, cluster_counts=CLUSTERS, max_depth=4, iterations=(1, 3)
    )


def vector_nonzeros(data):
    """Count the non-zeros of each label's sum of instances; features are positive or sums do not cancel."""
    return ((data.Y.toarray() != 0).astype(float).T @ data.X.toarray() != 0).sum(axis=1)


def test_multiply_adds_agree_with_a_recount(session, result):
    rows = result.tables[0].rows
    assert {(row["data"], row["clusters"], row["iterations"]) for row in rows} == {
        (name, K, n) for name in ("awkward", "plain") for K in CLUSTERS for n in (1, 3)
    }
    for split in session.splits:
        nonzeros = vector_nonzeros(split.train)
        counts = np.asarray((split.train.Y != 0).sum(axis=0)).ravel()
        for K in CLUSTERS:
            tree = build_tree(split.train, clusters=K, max_depth=4, seed=3)
            for depth in range(3):
                clustered = []
                for u in np.flatnonzero(tree.node_depth == depth):
                    labels = tree.labels[tree.first[u] : tree.last[u]]
                    children = tree.children[tree.child_ptr[u] : tree.child_ptr[u + 1]]
                    if (counts[labels] > 0).sum() > K and (children >= 0).any():
                        clustered += labels[counts[labels] > 0].tolist()
                mine = [
                    row
                    for row in rows
                    if (row["data"], row["clusters"], row["depth"]) == (split.name, K, depth)
                ]
                assert len(mine) == (2 if clustered else 0)
                for row in mine:
                    assert row["labels"] == len(clustered)
                    assert row["nonzeros"] == nonzeros[clustered].sum()
                    assert row["multiply_adds"] == nonzeros[clustered].sum() * K * row["iterations"]
                    assert row["seconds"] >= 0
    assert {row["depth"] for row in rows} >= {0, 1, 2}


def test_whole_trees_next_to_the_formula(session, result):
    rows, trees = (table.rows for table in result.tables)
    for tree in trees:
        data = session.by_name[tree["data"]].train
        assert tree["vector_nonzeros"] == vector_nonzeros(data).sum()
        cost = theory.kmeans_cost(
            tree["vector_nonzeros"], tree["clusters"], tree["iterations"], depth=tree["depth"]
        )
        keys = ("data", "clusters", "iterations")
        mine = [row for row in rows if all(row[key] == tree[key] for key in keys)]
        assert tree["cost_share"] == pytest.approx(sum(row["multiply_adds"] for row in mine) / cost)
        assert 0 < tree["cost_share"] < 1


def test_one_factor_for_all_rows(result):
    rows = [row for row in result.tables[0].rows if row["seconds"] > 0]
    factors = [row["fitted_seconds"] / row["multiply_adds"] for row in rows]
    assert factors == pytest.approx([factors[0]] * len(rows))
    assert np.mean(np.log([row["seconds"] / row["fitted_seconds"] for row in rows])) == pytest.approx(
        0, abs=1e-9
    )


def test_figure_and_progress(result, done):
    (axes,) = result.tables[0].figure.axes
    assert sum(len(line.get_xdata()) for line in axes.lines) >= len(result.tables[0].rows)
    for table in result.tables:
        assert set(table.columns) <= set(table.rows[0])
    assert done == sorted(done)
    assert done[-1] == pytest.approx(1)


def test_quick_by_name_and_refusals(session):
    found = experiments.run("kmeans", session, quick=True)
    assert {row["iterations"] for row in found.tables[0].rows} <= {1, 2}
    few = experiments.run("kmeans", [Split("few", make_data(30, labels=4))], seeds=[0])
    assert few.tables[0].figure is None
    with pytest.raises(InputError, match="cluster counts"):
        experiments.run("kmeans", session, cluster_counts=[1])
    with pytest.raises(InputError, match="iterations"):
        experiments.run("kmeans", session, iterations=[0])
