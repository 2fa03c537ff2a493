"""The experiment `last-depth`: nodes recounted from the data, and an explanation that can fail."""

import numpy as np
import pytest
from helpers import make_data, node_rows, random_data

from labeltree import build_tree
from labeltree.paper import experiments
from labeltree.paper.experiments import Session, Split

SEEDS = (3, 5)
DEPTHS = (2, 3, 4)


@pytest.fixture(scope="module")
def session():
    awkward = random_data(seed=4, instances=150, features=80, labels=40, density=0.06)
    return Session([Split("awkward", awkward), Split("plain", make_data(200))], SEEDS, threads=1)


@pytest.fixture(scope="module")
def result(session):
    return experiments.run("last-depth", session, clusters=3, depths=DEPTHS)


def test_rows_agree_with_a_recount(session, result):
    rows = result.tables[1].rows
    both = 0
    for row in rows:
        data = session.by_name[row["data"]].train
        tree = build_tree(data, clusters=3, max_depth=row["max_depth"], seed=row["seed"])
        x = data.X.toarray() != 0
        used = [int(x[node_rows(data, tree, u)].any(axis=0).sum()) for u in range(tree.n_nodes)]
        last = [u for u in range(tree.n_nodes) if tree.node_depth[u] == row["max_depth"] - 1 and used[u]]
        cut = [u for u in last if tree.child_count[u] > 3]
        others = [u for u in last if u not in cut]
        assert (row["nodes"], row["unfinished_nodes"]) == (len(last), len(cut))
        children = tree.child_count
        assert row["children_share"] == pytest.approx(children[cut].sum() / children[last].sum())
        for key, nodes in (("unfinished", cut), ("others", others)):
            if nodes:
                alphas = [used[u] / used[tree.parent[u]] for u in nodes]
                assert row[f"alpha_{key}"] == pytest.approx(np.average(alphas, weights=children[nodes]))
                assert row[f"features_{key}"] == pytest.approx(np.mean([used[u] for u in nodes]))
            else:
                assert row[f"alpha_{key}"] is row[f"features_{key}"] is None
        both += bool(cut and others)
    assert both > 2
    assert {(row["data"], row["max_depth"]) for row in rows} == {
        (name, depth) for name in ("awkward", "plain") for depth in DEPTHS
    }


def test_the_average_is_that_of_the_experiment_alpha(session, result):
    alpha = experiments.run("alpha", session, clusters=3, max_depth=4).tables[0].rows
    found = {row["data"]: row["alpha"] for row in alpha if row["depth"] == 3}
    assert {
        row["data"]: row["alpha"] for row in result.tables[0].rows if row["max_depth"] == 4
    } == pytest.approx(found)


def summary_row(depth, alpha, share, others):
    return {"max_depth": depth, "alpha": alpha, "children_share": share, "alpha_others": others}


def tree_row(features, others, alpha, alpha_others):
    return {
        "features_unfinished": features,
        "features_others": others,
        "alpha_unfinished": alpha,
        "alpha_others": alpha_others,
    }
