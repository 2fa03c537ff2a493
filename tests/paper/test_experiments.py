"""The numbers of the experiments against a recount from scratch; shared trees; written files."""

import csv

import numpy as np
import pytest
from helpers import make_data, node_rows, random_data

from labeltree import InputError, build_tree, make_plan
from labeltree.base.plots import new_figure, png, svg
from labeltree.paper import experiments
from labeltree.paper.experiments import Result, Session, Split, Table
from labeltree.paper.sizes import root_above
from labeltree.settings import SolverSettings

SEEDS = (3, 5)


@pytest.fixture(scope="module")
def session():
    awkward = random_data(seed=4, instances=150, features=80, labels=40, density=0.06)
    return Session([Split("awkward", awkward), Split("plain", make_data(200))], SEEDS, threads=1)


def used(data, tree, node):
    """Count the features that a node uses in dense matrices."""
    return int((data.X.toarray()[node_rows(data, tree, node)] != 0).any(axis=0).sum())


def train_of(session, row):
    """Return the training data of a row."""
    return next(split.train for split in session.splits if split.name == row["data"])


def recount(data, clusters, max_depth, seed):
    """Count the weights, and the ratio of sizes, of a tree that was built for this depth."""
    tree = build_tree(data, clusters=clusters, max_depth=max_depth, seed=seed)
    children = np.diff(tree.child_ptr)
    weights = sum(int(children[u]) * used(data, tree, u) for u in range(tree.n_nodes))
    features = int((data.X.toarray() != 0).any(axis=0).sum())
    return weights, 12 * weights / (8 * features * data.Y.shape[1])


# Numbers


def test_ratios_at_fixed_k_agree_with_a_recount(session):
    depths = (2, 3, 4)
    result = experiments.run("fixed-k", session, clusters=3, depths=depths)
    rows = next(table.rows for table in result.tables if table.name == "fixed-k-seeds")
    assert len(rows) == len(session.splits) * len(depths) * len(SEEDS)
    for row in rows:
        data = train_of(session, row)
        weights, ratio = recount(data, 3, row["max_depth"], row["seed"])
        assert row["weights"] == weights
        assert row["ratio"] == pytest.approx(ratio, rel=1e-12)
        assert row["tree_bytes"] == 12 * weights
        tree = build_tree(data, clusters=3, max_depth=row["max_depth"], seed=row["seed"])
        assert row["labeltree_bytes"] == make_plan(data, tree, SolverSettings(bias=0)).model_bytes
        ovr = make_plan(data, build_tree(data, max_depth=1), SolverSettings(bias=0))
        assert row["labeltree_ovr_bytes"] == ovr.model_bytes  # the same format
        assert row["labeltree_ratio"] == pytest.approx(row["labeltree_bytes"] / ovr.model_bytes)
        counts, cut = np.diff(data.by_label[0]), 0
        for u in np.flatnonzero(tree.node_depth == row["max_depth"] - 1):
            labels = tree.labels[tree.first[u] : tree.last[u]]
            cut += len(labels) if len(labels) > 3 and counts[labels].any() else 0
        assert row["unfinished_share"] == pytest.approx(cut / data.n_labels)
    assert any(row["unfinished_share"] for row in rows)
    means = next(table.rows for table in result.tables if table.name == "fixed-k")
    assert len(means) == 6
    for mean in means:
        mine = [r["ratio"] for r in rows if (r["data"], r["max_depth"]) == (mean["data"], mean["max_depth"])]
        assert mean["ratio"] == pytest.approx(np.mean(mine))
        assert (mean["ratio_least"], mean["ratio_most"]) == (min(mine), max(mine))


def test_ratios_at_varied_k_agree_with_a_recount(session):
    result = experiments.run("varied-k", session)
    means, rows = (table.rows for table in result.tables)
    assert {(row["max_depth"], row["clusters"]) for row in rows} == {(2, 7), (3, 4), (4, 3)}  # of 40 labels
    for row in rows:
        data = train_of(session, row)
        assert row["ratio"] == pytest.approx(
            recount(data, row["clusters"], row["max_depth"], row["seed"])[1], rel=1e-12
        )
    # 40 labels and K = 100: below the root, there is at most the node of the label without instances.
    plain = [row["fixed_k_ratio"] for row in means if row["data"] == "plain"]
    assert plain == [1.5] * 3


@pytest.mark.parametrize("depth", [2, 3, 4, 7])
def test_root_above_is_exact(depth):
    for labels in (
        *range(2, 300),
        10**6,
        10**6 + 1,
        2_812_281,
        *(k**depth + e for k in (3, 9, 14) for e in (0, 1)),
    ):
        root = root_above(labels, depth)
        assert root**depth >= labels
        assert root == 2 or (root - 1) ** depth < labels


def test_alpha_agrees_with_a_recount(session):
    result = experiments.run("alpha", session, clusters=3, max_depth=4)
    means, nodes = (table.rows for table in result.tables)
    averages = {}
    for split in session.splits:
        for seed in SEEDS:
            tree = build_tree(split.train, clusters=3, max_depth=4, seed=seed)
            share = {
                u: used(split.train, tree, u) / used(split.train, tree, tree.parent[u])
                for u in range(1, tree.n_nodes)
                if used(split.train, tree, u)  # a node without features has no weights
            }
            mine = {row["node"]: row for row in nodes if (row["data"], row["seed"]) == (split.name, seed)}
            assert {u: row["alpha"] for u, row in mine.items()} == pytest.approx(share)
            estimated = make_plan(split.train, tree).to_dict()["alpha"]
            for depth in range(1, tree.depth):
                at = [u for u in share if tree.node_depth[u] == depth]
                assert all(mine[u]["depth"] == depth for u in at)
                children = [int(tree.child_count[u]) for u in at]
                average = sum(share[u] * r for u, r in zip(at, children, strict=True)) / sum(children)
                averages.setdefault((split.name, depth), []).append(average)
                assert estimated[depth - 1] == pytest.approx(average)  # one definition
    assert {(row["data"], row["depth"]): row["alpha"] for row in means} == pytest.approx(
        {key: np.mean(values) for key, values in averages.items()}
    )


def test_the_last_depth_agrees_with_a_recount(session):
    result = experiments.run("last-depth", session, clusters=3, depths=(2, 3, 4))
    rows = result.rows("last-depth-seeds")
    both = 0
    for row in rows:
        data = train_of(session, row)
        tree = build_tree(data, clusters=3, max_depth=row["max_depth"], seed=row["seed"])
        features = [used(data, tree, u) for u in range(tree.n_nodes)]
        last = [u for u in np.flatnonzero(tree.node_depth == row["max_depth"] - 1) if features[u]]
        cut = [u for u in last if tree.child_count[u] > 3]
        others = [u for u in last if u not in cut]
        assert (row["nodes"], row["unfinished_nodes"]) == (len(last), len(cut))
        children = tree.child_count
        assert row["children_share"] == pytest.approx(children[cut].sum() / children[last].sum())
        for key, nodes in (("unfinished", cut), ("others", others)):
            if nodes:
                alphas = [features[u] / features[tree.parent[u]] for u in nodes]
                assert row[f"alpha_{key}"] == pytest.approx(np.average(alphas, weights=children[nodes]))
                assert row[f"features_{key}"] == pytest.approx(np.mean([features[u] for u in nodes]))
            else:
                assert row[f"alpha_{key}"] is row[f"features_{key}"] is None
        both += bool(cut and others)
    assert both > 2
    assert {(row["data"], row["max_depth"]) for row in rows} == {
        (name, depth) for name in ("awkward", "plain") for depth in (2, 3, 4)
    }
    # The average is that of the experiment alpha.
    alpha = experiments.run("alpha", session, clusters=3, max_depth=4).tables[0].rows
    found = {row["data"]: row["alpha"] for row in alpha if row["depth"] == 3}
    assert {
        row["data"]: row["alpha"] for row in result.tables[0].rows if row["max_depth"] == 4
    } == pytest.approx(found)


def test_statistics_agree_with_a_recount():
    data = random_data(seed=1, instances=50, features=30, labels=12)
    result = experiments.run("statistics", Session([Split("a", data, make_data(7)), Split("eur-lex", data)]))
    row, other = result.tables[0].rows
    x, y = data.X.toarray() != 0, data.Y.toarray() != 0
    assert row == {
        "data": "a",
        "instances": 50,
        "test_instances": 7,
        "features": 30,
        "used_features": x.any(axis=0).sum(),
        "labels": 12,
        "used_labels": 11,
        "nonzeros_per_instance": pytest.approx(x.sum() / 50),
        "labels_per_instance": pytest.approx(y.sum() / 50),
        "one_instance_share": (y.sum(axis=0) == 1).mean(),
    }
    assert other["test_instances"] is None


# Shared trees


def test_trees_and_vectors_are_made_once(session, monkeypatch):
    from labeltree import _native

    vectors = []
    real = _native.label_vectors
    monkeypatch.setattr(_native, "label_vectors", lambda *a: vectors.append("vectors") or real(*a))
    trees = []
    monkeypatch.setattr(
        "labeltree.training.train.build_tree",
        lambda *a, **k: trees.append((k["clusters"], k["seed"])) or build_tree(*a, **k),
    )
    shared = Session(session.splits, SEEDS, threads=1)
    for name in ("fixed-k", "alpha"):
        experiments.run(name, shared, clusters=3)
    assert len(vectors) == len(shared.splits)
    assert len(trees) == len(shared.splits) * len(SEEDS)
    experiments.run("varied-k", shared)
    assert len(vectors) == len(shared.splits)
    assert len(trees) == len(set(trees)) * len(shared.splits)


def test_a_clipped_plan_is_the_plan_of_the_clipped_tree():
    data = random_data(seed=2, labels=30)
    deep = make_plan(data, build_tree(data, clusters=3), SolverSettings(bias=0))
    assert deep.depth > 3
    for depth in (1, 2, 3, 10):
        tree = build_tree(data, clusters=3, max_depth=depth)
        clipped, anew = deep.clip(depth), make_plan(data, tree, SolverSettings(bias=0))
        assert clipped.files() == anew.files()
        for name in ("instances", "nonzeros", "used_features"):
            np.testing.assert_array_equal(getattr(clipped.trees[0], name), getattr(anew.trees[0], name))


def test_vectors_of_other_data_are_refused():
    from labeltree.trees.kmeans import LabelVectors

    with pytest.raises(InputError, match="different dataset"):
        build_tree(random_data(), vectors=LabelVectors(random_data()))


def test_an_unknown_experiment(session):
    with pytest.raises(InputError, match="no such experiment: 'fixed'"):
        experiments.run("fixed", session)


# Figures and files


def test_figures_are_the_same_bytes_each_time(session):
    first, again = (
        experiments.run("alpha", Session(session.splits, SEEDS, threads=1), clusters=3, max_depth=3).tables[0]
        for _ in range(2)
    )
    assert svg(first.figure) == svg(again.figure)
    assert b"<dc:date>" not in svg(first.figure)
    assert png(first.figure).startswith(b"\x89PNG")


def test_save_writes_everything_once(tmp_path):
    figure, (axes,) = new_figure(1, 1)
    axes.plot([0, 1])
    rows = [{"a": 1, "b": 'x,"y"'}, {"a": 2, "c": None}]
    result = Result(
        "n", "T", "s", {}, [Table("n", "c", ["a"], rows, figure=figure), Table("n-2", "", ["a"], [])]
    )
    out = tmp_path / "new" / "out"
    assert experiments.save([result], out) == out / "report.md"
    assert {path.name for path in out.iterdir()} == {"report.md", "n.csv", "n.png", "n.svg", "n-2.csv"}
    with (out / "n.csv").open(newline="") as file:  # it has the keys of all rows
        assert list(csv.DictReader(file)) == [{"a": "1", "b": 'x,"y"', "c": ""}, {"a": "2", "b": "", "c": ""}]
    assert (out / "n-2.csv").read_text() == "a\n"
    with pytest.raises(InputError, match="already exists"):
        experiments.save([result], out)
    experiments.save([result], out, overwrite=True)


@pytest.mark.parametrize(("rows", "labels"), [(2, 1), (20, 4)])
def test_tiny_data_that_cannot_be_split(tmp_path, rows, labels):
    """The tables have finite ratios or none, and files are written."""
    tiny = Session([Split("tiny", make_data(rows, labels=labels))], (0,), threads=1)
    names = ("statistics", "fixed-k", "varied-k", "alpha", "last-depth")
    results = {name: experiments.run(name, tiny) for name in names}
    assert all(np.isfinite(row["ratio"]) for row in results["fixed-k"].rows("fixed-k"))
    for name in ("alpha", "last-depth"):
        assert results[name].tables[0].figure is None
    experiments.save(list(results.values()), tmp_path)
    assert (tmp_path / "alpha-nodes.csv").read_text().startswith("data,")
