"""The experiment `last-depth`: nodes recounted from the data, and an explanation that can fail."""

import numpy as np
import pytest
from helpers import make_data, node_rows, random_data

from labeltree import Dataset, LabelTree, build_tree, make_plan
from labeltree.paper import experiments
from labeltree.paper.experiments import Session, Split, last_depth

SEEDS = (3, 5)
DEPTHS = (2, 3, 4)


@pytest.fixture(scope="module")
def session():
    awkward = random_data(seed=4, instances=150, features=80, labels=40, density=0.06)
    return Session([Split("awkward", awkward), Split("plain", make_data(200))], SEEDS, threads=1)


@pytest.fixture(scope="module")
def result(session):
    return last_depth.run(session, clusters=3, depths=DEPTHS)


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


def test_the_explanation_can_fail():
    explained = last_depth._explained([summary_row(2, 0.3, 0.1, 0.3), summary_row(3, 0.6, 0.9, 0.2)])
    assert explained == (
        True,
        "0.600 at d_max = 3, 90% of the children below unfinished nodes, other nodes 0.200",
    )
    assert last_depth._explained([summary_row(3, 0.9, 0.0, 0.9)])[0] is False  # large without such nodes
    assert last_depth._explained([summary_row(3, 0.9, 0.8, 0.7)])[0] is False  # others are large, too
    assert last_depth._explained([summary_row(3, 0.6, 0.3, 0.4)])[0] is False  # they do not dominate
    assert last_depth._explained([summary_row(3, 0.6, 1.0, None)])[0] is True
    assert last_depth._explained([summary_row(3, 0.4, 0.9, 0.2)]) == (
        None,
        "no average is large, at most 0.400",
    )
    assert last_depth._explained([]) == (None, "no node below the root")


def tree_row(features, others, alpha, alpha_others):
    return {
        "features_unfinished": features,
        "features_others": others,
        "alpha_unfinished": alpha,
        "alpha_others": alpha_others,
    }


def test_unfinished_nodes_are_compared_in_each_tree():
    larger = tree_row(50, 10, 0.5, 0.1)
    assert last_depth._larger([larger, larger])[0]
    assert last_depth._larger([larger, tree_row(50, 60, 0.5, 0.1)]) == (
        False,
        "more features in 1, larger alpha in 2 of 2 trees",
    )
    assert last_depth._larger([tree_row(None, 10, None, 0.1)])[0] is None


def test_a_lopsided_tree_shows_the_effect():
    """A cluster of many similar labels with many words, and small ones: appendix E in miniature."""
    rng = np.random.default_rng(0)
    x, y = np.zeros((160, 200)), np.zeros((160, 40))
    for i in range(160):
        label = i % 40
        y[i, label] = 1
        if label < 30:  # one topic, whose instances use 150 words
            x[i, 0] = 5
            x[i, 1 + rng.choice(150, 40, replace=False)] = 0.3
        else:  # two topics of five labels, with few words
            topic = 151 + 20 * (label >= 35)
            x[i, topic] = 5
            x[i, topic + 1 + rng.choice(8, 3, replace=False)] = 0.3
    data = Dataset.from_matrices(x, y)
    tree = LabelTree.from_nested([list(range(30)), list(range(30, 35)), list(range(35, 40))])
    (row,) = last_depth._measure("lopsided", 0, make_plan(data, tree).trees[0], 5, 2)
    assert (row["nodes"], row["unfinished_nodes"], row["children_share"]) == (3, 1, 0.75)
    assert last_depth._larger([row])[0]
    assert row["alpha"] > 0.5 > row["alpha_others"]
    assert last_depth._explained([row])[0]


def test_figure_and_words(result):
    assert len(result.plots[0].figure.axes) == 2
    for part in (*result.plots, result.tables[0]):
        assert part.takeaway.endswith(".")
    assert set(result.tables[0].columns) <= set(result.tables[0].rows[0])
    tiny = experiments.run("last-depth", [Split("tiny", make_data(20, labels=4))], seeds=(0,))
    assert tiny.plots == []
    assert {claim.holds for claim in tiny.claims} == {None}
