"""Benchmark arithmetic: lower bounds counted by hand, slopes, and the extrapolation."""

import math

import bounds
import extrapolate
import numpy as np
import pytest
import scale
import scale_report
from extrapolate import PAPER, Rates, Shape, balanced_pass
from helpers import node_problems, node_rows, random_data, train_small
from training_work import training_work

from labeltree import Dataset, InputError, LabelTree, SolverSettings, build_tree, load, make_plan
from labeltree.paper.theory import largest_depth, tree_weights


@pytest.fixture
def small():
    """Three instances with 2, 1 and 3 features; a root with label 2 and a node with labels 0 and 1."""
    data = Dataset.from_matrices(
        [[1, 1, 0, 0], [0, 0, 1, 0], [1, 0, 1, 1]], [[1, 1, 0], [0, 1, 0], [0, 0, 1]]
    )
    return data, make_plan(data, LabelTree.from_nested([[0, 1], 2])).trees[0]


def test_label_vectors_read_the_features_of_each_label_of_each_instance(small):
    work = bounds.label_vectors(small[0], vector_nonzeros=8)
    assert work == bounds.Work(2 * 2 + 1 * 1 + 3 * 1, 8 * (8 + 8))


def test_plan_reads_the_instances_and_features_of_each_node(small):
    data, part = small
    # The root has all 6 features; the node has instances 0 and 1, listed as 0, 0, 1, with 3 features.
    assert bounds.plan(part, np.diff(data.by_label[0])) == bounds.Work(0, 4 * (6 + 3 + 3))


def test_a_pass_multiplies_each_feature_and_the_bias_twice_per_child(small):
    part = small[1]
    root, node = 2 * (6 + 3) * 2, 2 * (3 + 2) * 2
    assert bounds.solver_pass(part) == bounds.Work(root + node, 8 * (6 + 3))
    assert bounds.solver_pass(part, write=True).bytes == 8 * (6 + 3) + 4 * (2 * (4 + 1) + 2 * (3 + 1))


def test_a_pass_agrees_with_a_dense_count():
    data = random_data()
    tree = build_tree(data, clusters=3)
    part = make_plan(data, tree, SolverSettings(bias=0)).trees[0]
    problems = (node_problems(data, tree, u) for u in range(tree.n_nodes))
    assert bounds.solver_pass(part).multiply_adds == sum(
        2 * np.count_nonzero(x) * y.shape[1] for _, x, _, y in problems
    )


def test_clustering_multiplies_entries_of_split_nodes_with_centroids():
    tree = LabelTree.from_nested([[0, 1, 2], [3, 4, [5, 6, 7]]])
    counts = np.array([1, 1, 0, 1, 1, 1, 1, 1])
    # Clusters 2: the root has 7 labels with instances, the nodes below 2, 5 and 3.
    nodes = bounds.split_nodes(tree, counts, clusters=2, max_depth=4)
    assert nodes.tolist() == [0, 2, 3]
    assert bounds.split_nodes(tree, counts, clusters=2, max_depth=3).tolist() == [0, 2]
    ptr = np.concatenate([[0], np.cumsum([1, 1, 0, 2, 2, 3, 3, 3])])
    entries = 15 + 13 + 9
    assert bounds.clustering(tree, nodes, ptr, 2, 5) == bounds.Work(5 * 2 * entries, 5 * 8 * entries)


@pytest.mark.parametrize("beam", [1, 2, 50])
def test_beam_search_finds_the_same_labels_and_counts_at_most_everything(tmp_path, beam):
    data = random_data(signed=False)
    model = train_small(tmp_path / "model", data, trees=1)
    visits = bounds.beam_search(model, data.X, beam, top=3)
    every = model.predict_matrix(data.X, top=data.n_labels, beam=1000).toarray()
    found = np.where(visits.labels < 0, 0, np.take_along_axis(every, visits.labels, axis=1))
    np.testing.assert_allclose(found, model.predict(data.X, top=3, beam=beam)[1], rtol=1e-4)
    rows, tree = np.asarray(data.X.toarray() != 0), model.trees[0].tree
    everything = 0
    for u in range(tree.n_nodes):
        features, weights = model.block(u)
        matched = rows[:, features[:-1]].sum() + len(rows)  # and the bias
        everything += matched * weights.shape[1]
    root = (np.count_nonzero(rows) + len(rows)) * tree.child_count[0]
    assert root <= visits.batch().multiply_adds <= everything
    assert visits.batch().bytes <= visits.singles(len(rows)).bytes == 4 * visits.batch().multiply_adds
    assert visits.singles(5).multiply_adds == visits.multiply_adds[visits.query < 5].sum()


def test_the_slower_limit_is_the_bound():
    peak = {"multiply_adds_per_second": 10.0, "bytes_per_second": 4.0}
    assert bounds.Work(100, 20).seconds(peak) == (10.0, "multiply-adds")
    assert bounds.Work(10, 20).seconds(peak) == (5.0, "bytes")


def test_training_work_counts_one_tree(tmp_path):
    data = random_data()
    tree = build_tree(data, clusters=3)
    notes = {"clusters": 3, "max_depth": 6}
    train_small(tmp_path / "model", data, trees=1, notes=notes)
    work = training_work(data, load(tmp_path / "model"))
    vectors = (data.Y.T @ abs(data.X)).astype(bool)
    assert work["vector_nonzeros"] == vectors.nnz
    assert work["used_features"] == len(np.unique(data.X.indices))
    assert work["pass_multiply_adds"] == sum(
        2 * (np.count_nonzero(data.X.toarray()[rows]) + len(rows)) * tree.child_count[u]
        for u, rows in ((u, node_rows(data, tree, u)) for u in range(tree.n_nodes))
    )


def test_slope_is_the_exponent():
    labels = [10, 100, 1000]
    assert scale_report.slope(labels, [7 * n**1.25 for n in labels]) == pytest.approx(1.25)
    assert scale_report.slope([10], [1.0]) is None
    assert scale_report.slope([10, 20], [1.0, None]) is None


def test_balanced_pass_counts_depth_by_depth():
    shape = Shape(instances=10, features=50, labels=800, x_nonzeros=40, y_nonzeros=30, vector_nonzeros=500)
    # 3 labels per instance; the root has 10 children, a node below it 10, a node above the leaves 8.
    assert balanced_pass(shape, 10, 3) == 2 * 40 * (10 + 3 * 10 + 3 * 8)
    assert balanced_pass(shape, 10, 1) == 2 * 800 * 40


def record(labels, **changes):
    """Return a size whose times and weights follow the formulas with round rates."""
    shape = PAPER["amazon-670k"].scaled(labels)
    depth = int(largest_depth(labels, 100))
    weights = float(tree_weights(labels, 100, depth, 0.2, shape.features))
    one_pass = balanced_pass(shape, 100, depth)
    return {
        "like": "amazon-670k",
        "scale": labels / 670_091,
        "threads": 2,
        "clusters": 100,
        **{name: getattr(shape, name) for name in Shape.__dataclass_fields__},
        "used_features": shape.features,
        "alpha": [0.2] * (depth - 1),
        "weights": weights,
        "disk_bytes": 4.5 * weights,
        "pass_multiply_adds": 0.5 * one_pass,
        "seconds": {
            "synth_process": 1.0,
            "read": 1.0,
            "plan": 1.0,
            "train": 2e-9 * one_pass,
            "tree": 3e-9 * extrapolate.balanced_kmeans(shape, 100, depth),
        },
        "memory": {"train": 1000 * labels},
        "milliseconds_per_row": 0.1,
        **{f"P@{k}": 50.0 for k in (1, 3, 5)},
        **changes,
    }


def test_extrapolation_recovers_the_rates():
    rates = Rates.of(record(30_000))
    assert (rates.alpha, rates.bytes_per_weight) == (pytest.approx(0.2), pytest.approx(4.5))
    assert (rates.train_seconds, rates.tree_seconds) == (pytest.approx(2e-9), pytest.approx(3e-9))
    assert (rates.weights_ratio, rates.pass_ratio) == (pytest.approx(1), pytest.approx(0.5))
    found = extrapolate.extrapolate([record(30_000), record(3_000)])
    assert [size["labels"] for size, _ in found["measured"]] == [3_000, 30_000]
    eurlex = found["sets"]["eurlex-4k"]
    assert eurlex["depth"] == 2
    assert eurlex["weights"] == pytest.approx(186_104 * (100 + 0.2 * 3_956))
    assert eurlex["model_bytes"] == pytest.approx(4.5 * eurlex["weights"])
    assert eurlex["train_seconds"] == pytest.approx(2e-9 * 2 * 4_194_123 * (100 + 39.56 * 82_265 / 15_449))
    assert eurlex["tree_seconds"] == pytest.approx(3e-9 * 6_126_348 * 100)
    assert found["sets"]["2e8 labels"]["depth"] == 5


def test_extrapolation_needs_a_size_that_is_large_enough():
    assert extrapolate.extrapolate([record(150, alpha=[])]) is None
    assert "Too small to extrapolate" in extrapolate.markdown([record(150, alpha=[])])


def test_a_size_run_twice_counts_once():
    again = record(30_000, disk_bytes=1)
    assert extrapolate.kinds([record(30_000), record(3_000), again]) == {
        ("amazon-670k", 2): [record(3_000), again]
    }


def test_reports_hold_every_size_and_slope(tmp_path):
    sizes = [record(3_000), record(30_000), record(300_000)]
    scale_report.write(tmp_path, sizes, ["amazon-670k x 1 was skipped: not enough disk space"])
    text = (tmp_path / "scale.md").read_text()
    assert "| 300,000 |" in text
    assert "| training memory | 1.00 |  |" in text
    assert "was skipped: not enough disk space." in text
    assert len((tmp_path / "scale.csv").read_text().splitlines()) == 4
    assert (tmp_path / "scale.png").stat().st_size > 10_000
    assert (tmp_path / "scale.svg").read_text().rstrip().endswith("</svg>")
    first = scale_report.through_first(sizes, scale_report.paper_train, scale_report.QUANTITIES["train"])
    assert first[0] == pytest.approx(sizes[0]["seconds"]["train"])
    growth = sizes[1]["x_nonzeros"] / sizes[0]["x_nonzeros"] * (math.log(30_000) / math.log(3_000)) ** 2
    assert first[1] / first[0] == pytest.approx(growth)


def test_an_incomplete_line_is_dropped_and_a_damaged_one_refused(tmp_path):
    log = tmp_path / "scale.jsonl"
    assert scale.read_records(log) == []
    log.write_text('{"labels": 1}\n{"labels": 2')
    assert scale.read_records(log) == [{"labels": 1}]
    assert log.read_text() == '{"labels": 1}\n'
    log.write_text('{"labels"\n{"labels": 2}\n')
    with pytest.raises(InputError, match="damaged"):
        scale.read_records(log)


def test_a_size_without_enough_disk_is_skipped(tmp_path, monkeypatch):
    monkeypatch.setattr(scale, "free_disk", lambda path: 2 << 30)
    scale.check_disk(tmp_path, 1 << 30, "the data")
    records, skipped = scale.run_all(tmp_path, "amazon-3m", [1.0], 0, 1, keep=False)
    assert records == []
    assert len(skipped) == 1
    assert skipped[0].startswith("amazon-3m x 1 was skipped: not enough disk space")
    assert not list(tmp_path.glob("size-*"))
