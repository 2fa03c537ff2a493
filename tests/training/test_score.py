"""The choice of the score function: margins held out of training, and what is decided by them."""

import os
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace

import numpy as np
import pytest
from helpers import node_labels, node_problems, random_data

from labeltree import (
    Dataset,
    InputError,
    _native,
    build_tree,
    load,
    make_plan,
    synthesize,
    train_model,
)
from labeltree.model.layout import ArrayFile
from labeltree.model.pack import BlockFiles
from labeltree.settings import ScoreSettings, SolverSettings, StorageSettings
from labeltree.training import score
from labeltree.training.default_cost import node_costs, positive_costs

SIGMOID = ScoreSettings()
EVERY = 10**6  # instances of a node, or labels


@contextmanager
def block_files(model, plan, tree=0):
    """Open the blocks of a model as training does."""
    with ExitStack() as stack:

        def opened(name):
            spec = plan.trees[tree].layout.files()[name]
            stream = stack.enter_context(open(model.path / f"tree-{tree}" / name, "rb"))
            return stream.fileno(), len(spec.header)

        yield BlockFiles(*opened("features.npy"), *opened("weights.npy"))


def rankings(data, plan, model, rows, functions, *, costs=None, foreign=None, top=None, **changes):
    """Labels and scores, functions x rows x top."""
    stored, top = model.trees[0], top or data.n_labels
    limits = {"beam": EVERY, "max_instances": EVERY, "threads": 1} | changes
    with block_files(model, plan) as files:
        labels, scores = _native.held_out_rankings(
            plan.training(0, data, costs, foreign),
            files.native(stored.codec, stored.feature_ptr, stored.weight_ptr),
            scales=stored.scales,
            biases=stored.biases,
            rows=np.asarray(rows, np.int32),
            functions=[(*each, 1.0)[:3] for each in functions],
            top=top,
            **limits,
        )
    shape = len(functions), len(rows), top
    return labels.reshape(shape), scores.reshape(shape)


def by_label(labels, scores):
    """Scores in the order of the labels; every label was ranked."""
    out = np.zeros(labels.shape)
    np.put_along_axis(out, labels, scores, axis=-1)
    return out


def derivatives(loss, margins, costs):
    if loss == "squared_hinge":
        return 2 * costs * np.maximum(0, 1 - margins), 2 * costs * (margins < 1)
    share = 1 / (1 + np.exp(margins))
    return costs * share, costs * share * (1 - share)


def twin_margins(data, model, plan, node, costs=None, foreign=None):
    """The margins of all rows at a node, in float64; those of its instances are held out."""
    settings, tree = plan.settings, plan.trees[0].tree
    features, weights = model.block(node)
    x = np.hstack([data.X.toarray().astype(float), np.full((data.n_instances, 1), settings.bias)])
    x = x[:, : data.n_features + (settings.bias > 0)][:, features]
    margins = x @ weights.astype(float)
    rows, _, _, signs = node_problems(data, tree, node)
    costs = np.ones(data.n_instances) if costs is None else costs.astype(float)
    (_, node_cost) = node_costs(settings, np.array([costs.sum(), costs[rows].sum()]))
    if foreign is not None:  # negatives of all children
        more = foreign[1][foreign[0][node] : foreign[0][node + 1]]
        signs = np.vstack([signs, -np.ones((more.size, signs.shape[1]))])
        rows, costs = np.append(rows, more), costs.copy()
        costs[more] *= settings.foreign_cost
    instance_costs = node_cost * costs[rows, None]
    positive_cost = positive_costs(settings, tree.node_depth)[node]
    slopes, curvatures = derivatives(
        settings.loss, signs * margins[rows], instance_costs * np.where(signs > 0, positive_cost, 1)
    )
    squares = x[rows] ** 2
    sums = squares.T @ curvatures
    for k, row in enumerate(rows):
        others = sums - np.outer(squares[k], curvatures[k])
        margins[row] -= signs[k] * slopes[k] * (squares[k][:, None] / (1 + others)).sum(axis=0)
    return margins


def twin_scores(data, model, plan, scale, path_weight=1.0, beam=EVERY, **training):
    """The score of every label for every row; 0 if the beam does not reach it."""
    tree = plan.trees[0].tree
    margins = [twin_margins(data, model, plan, u, **training) for u in range(tree.n_nodes)]
    logs = [-np.logaddexp(0, -scale * of_node) for of_node in margins]
    scores = np.zeros((data.n_instances, data.n_labels))
    for row in range(data.n_instances):
        level = [(0.0, 0)]
        while level:
            below = []
            for log_score, node in sorted(level, reverse=True)[:beam]:
                for c, child in enumerate(tree.children[tree.child_ptr[node] : tree.child_ptr[node + 1]]):
                    log_child = path_weight * log_score + logs[node][row, c]
                    if child < 0:
                        scores[row, ~child] = np.exp(log_child)
                    else:
                        below.append((log_child, child))
            level = below
    return scores


def trained(data, path, settings=None, clusters=3, **options):
    plan = make_plan(data, build_tree(data, clusters=clusters), settings, threads=1)
    return plan, train_model(data, plan, path, score=SIGMOID, **options)


@pytest.mark.parametrize("loss", ["squared_hinge", "logistic"])
@pytest.mark.parametrize(
    ("more", "weighted", "shape"),
    [
        ({}, False, {}),
        ({"bias": 0.0, "cost": 0.3}, False, {}),
        ({"positive_cost": (2.0, 5.0), "cost": 3.0}, True, {}),
        ({"bias": 0.5}, True, {"labels": 130, "instances": 200, "density": 0.1}),
    ],
)
def test_held_out_scores_equal_the_twin(tmp_path, loss, more, weighted, shape):
    data = random_data(**shape)
    costs = (
        np.random.default_rng(1).uniform(0.5, 2, data.n_instances).astype(np.float32) if weighted else None
    )
    settings = SolverSettings(loss=loss, **more)
    plan, model = trained(data, tmp_path / "model", settings, 11 if shape else 3, costs=costs)
    rows = np.arange(data.n_instances)
    functions = [("sigmoid", 0.1), ("sigmoid", 3.0)]
    labels, scores = rankings(data, plan, model, rows, functions, costs=costs)
    for (_, scale), found in zip(functions, by_label(labels, scores), strict=True):
        expected = twin_scores(data, model, plan, scale, costs=costs)
        np.testing.assert_allclose(found, expected, rtol=2e-4)
    # The best ones of a narrow beam: the order may differ where scores are almost equal.
    _, best = rankings(data, plan, model, rows, functions, costs=costs, beam=2, top=3)
    for (_, scale), found in zip(functions, best, strict=True):
        expected = np.sort(twin_scores(data, model, plan, scale, beam=2, costs=costs))[:, :-4:-1]
        np.testing.assert_allclose(found, expected, rtol=2e-4)


@pytest.mark.parametrize("loss", ["squared_hinge", "logistic"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("path_weight", [1.0, 0.75, 0.25])
def test_held_out_scores_with_foreign_rows_equal_the_twin(tmp_path, loss, weighted, path_weight):
    """Any rows without labels of a node may be foreign; features that no own row has do not count."""
    data, rng = random_data(labels=40, instances=150, features=80, density=0.05), np.random.default_rng(1)
    data = Dataset.from_matrices(data.X, data.Y.toarray() * (rng.random(data.Y.shape) < 0.15))
    costs = rng.uniform(0.5, 2, 150).astype(np.float32) if weighted else None
    settings = SolverSettings(loss=loss, cost=2.0, foreign_cost=0.4, positive_cost=(2.0, 5.0))
    plan, model = trained(data, tmp_path / "model", settings, 4, costs=costs)
    tree = plan.trees[0].tree
    others = [
        np.flatnonzero(~data.Y.toarray()[:, node_labels(tree, u)].any(axis=1)) for u in range(tree.n_nodes)
    ]
    foreign_rows = [rows[rng.random(rows.size) < 0.3 * (u > 0)] for u, rows in enumerate(others)]
    ptr = np.concatenate([[0], np.cumsum([rows.size for rows in foreign_rows])])
    used = [np.isin(data.X[rows].indices, model.block(u)[0]) for u, rows in enumerate(foreign_rows)]
    assert 0.2 < np.concatenate(used).mean() < 0.8
    more = {"costs": costs, "foreign": (ptr, np.concatenate(foreign_rows).astype(np.int32))}
    for beam, top in ((EVERY, 40), (2, 3)):
        _, found = rankings(
            data, plan, model, np.arange(150), [("sigmoid", 1.0, path_weight)], beam=beam, top=top, **more
        )
        expected = np.sort(twin_scores(data, model, plan, 1.0, path_weight, beam, **more))[:, : -top - 1 : -1]
        np.testing.assert_allclose(found[0], expected, rtol=5e-4)
    plain = twin_scores(data, model, plan, 1.0, path_weight, costs=costs)
    assert np.abs(np.sort(plain)[:, -3:][:, ::-1] - expected).max() > 0.01
    few = {"beam": 3, "max_instances": 20, **more}
    one, three = (
        rankings(data, plan, model, np.arange(150), [("sigmoid", 1.0, path_weight)], threads=n, **few)
        for n in (1, 3)
    )
    assert all((a == b).all() for a, b in zip(one, three, strict=True))


@pytest.mark.filterwarnings("ignore:.*did not converge")
@pytest.mark.parametrize(
    ("shape", "clusters", "storage", "settings"),
    [
        ({"labels": 300, "instances": 400}, 270, StorageSettings("float16"), None),
        ({"labels": 300, "instances": 400}, 270, StorageSettings("int8"), None),
        ({"labels": 300, "instances": 400}, 270, StorageSettings(prune=0.05), None),
        ({"labels": 250, "instances": 300}, 300, None, None),  # one wide node
        (  # blocks that are read in pieces
            {"labels": 1200, "instances": 80, "features": 1000, "density": 0.2},
            1200,
            None,
            SolverSettings(max_iterations=1, tolerance=0.5),
        ),
    ],
)
def test_held_out_scores_of_other_forms_equal_the_twin(tmp_path, shape, clusters, storage, settings):
    data = random_data(**{"density": 0.1} | shape)
    plan = make_plan(data, build_tree(data, clusters=clusters), settings, storage, threads=1)
    model = train_model(data, plan, tmp_path / "model", score=SIGMOID)
    assert plan.trees[0].tree.child_count[0] > 240
    assert settings is None or model.trees[0].weights.nbytes > 4 << 20
    rows = np.arange(0, data.n_instances, 7)
    labels, scores = rankings(data, plan, model, rows, [("sigmoid", 0.1)])
    expected = twin_scores(data, model, plan, 0.1)[rows]
    np.testing.assert_allclose(by_label(labels, scores)[0], expected, rtol=2e-4)


def test_features_that_were_pruned_do_not_matter(tmp_path):
    """With a sample of the instances, rows that pruning drops are as if no instance had these features."""
    data = random_data(labels=60, instances=300)
    exact = trained(data, tmp_path / "exact", clusters=60)[1].trees[0].block(0)[1]
    storage = StorageSettings(prune=float(np.median(np.abs(exact).max(axis=1))))
    plan = make_plan(data, build_tree(data, clusters=60), None, storage, threads=1)
    model = train_model(data, plan, tmp_path / "model", score=SIGMOID)
    used = model.trees[0].features_of(0)
    assert 0 < used.size < plan.trees[0].used_features[0]
    X = data.X.copy()
    X.data[~np.isin(X.indices, used)] = 0
    X.eliminate_zeros()
    fewer = Dataset.from_matrices(X, data.Y)
    rows = np.arange(0, 300, 3)
    found, expected = (
        by_label(*rankings(given, plan, model, rows, [("sigmoid", 0.1)], max_instances=40))
        for given in (data, fewer)
    )
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("max_instances", [10, EVERY])
def test_rankings_are_the_same_on_any_number_of_threads(tmp_path, max_instances):
    data = random_data(labels=60, instances=300)
    plan, model = trained(data, tmp_path / "model")
    functions = [(candidate.function, candidate.scale) for candidate in score.CANDIDATES]
    rows, limits = np.arange(0, 300, 2), {"max_instances": max_instances, "beam": 4}
    one, three = (rankings(data, plan, model, rows, functions, threads=n, **limits) for n in (1, 3))
    np.testing.assert_array_equal(one[0], three[0])
    np.testing.assert_array_equal(one[1], three[1])
    # Rows do not depend on which others are ranked, if no instances are sampled.
    if max_instances == EVERY:
        few = rankings(data, plan, model, np.arange(0, 300, 50), functions, beam=4)
        np.testing.assert_array_equal(few[0], one[0][:, ::25])


def test_a_node_that_was_not_trained_on_a_row_keeps_its_margins(tmp_path):
    data = random_data(labels=60, instances=200)
    plan, model = trained(data, tmp_path / "model")
    tree = plan.trees[0].tree
    node = tree.n_nodes - 1
    labels = node_labels(tree, node)
    others = np.flatnonzero(~data.Y.toarray()[:, labels].any(axis=1))
    raw = by_label(*model.predict(data.X[others], top=60, beam=1000, score_scale=0.1))[:, labels]
    found = by_label(*rankings(data, plan, model, others, [("sigmoid", 0.1)]))[0][:, labels]
    assert (raw != found).any()  # as the root was trained on all rows
    np.testing.assert_allclose(found / found[:, :1], raw / raw[:, :1], rtol=1e-5)


def test_a_sample_of_the_instances_is_nearly_as_good(tmp_path):
    data = synthesize("eur-lex", scale=0.03)[0]
    plan, model = trained(data, tmp_path / "model", clusters=10)
    rows = np.arange(0, data.n_instances, 5)
    logs = [
        np.log(by_label(*rankings(data, plan, model, rows, [("sigmoid", 1.0)], max_instances=most))[0])
        for most in (EVERY, 40)
    ]
    raw = np.log(by_label(*model.predict(data.X[rows], top=data.n_labels, beam=1000, score_scale=1.0)))
    assert np.abs(logs[1] - logs[0]).mean() < 0.2 * np.abs(raw - logs[0]).mean()


@pytest.mark.parametrize("loss", ["squared_hinge", "logistic"])
def test_held_out_margins_are_close_to_those_of_training_without_the_row(tmp_path, loss):
    data = synthesize("eur-lex", scale=0.01)[0]
    data = Dataset.from_matrices(data.X[:100], data.Y[:100, :12])
    settings = SolverSettings(loss=loss, tolerance=1e-5)
    plan, model = trained(data, tmp_path / "model", settings, clusters=12)
    assert plan.depth == 1
    rows = np.arange(0, 100, 7)

    def margins(labels, scores):
        found = by_label(labels, scores)
        return np.log(found / (1 - found))

    raw = margins(*model.predict(data.X[rows], top=12, score_scale=1.0))
    held_out = margins(*rankings(data, plan, model, rows, [("sigmoid", 1.0)]))[0]
    truth = np.empty_like(raw)
    for k, row in enumerate(rows):
        kept = np.delete(np.arange(100), row)
        rest = Dataset.from_matrices(data.X[kept], data.Y[kept])
        _, other = trained(rest, tmp_path / f"without-{row}", settings, clusters=12)
        truth[k] = margins(*other.predict(data.X[[row]], top=12, score_scale=1.0))[0]
    assert np.abs(held_out - truth).mean() < 0.5 * np.abs(raw - truth).mean()


def test_arguments_of_the_kernel_are_checked(tmp_path):
    data = random_data()
    plan, model = trained(data, tmp_path / "model")
    for rows, functions, more, message in [
        ([60], [("sigmoid", 1.0)], {}, "rows holds an index out of range"),
        ([3, 3], [("sigmoid", 1.0)], {}, "rows must increase"),
        ([0], [("cosine", 1.0)], {}, "score must be one of"),
        ([0], [("sigmoid", 0.0)], {}, "scale must be positive"),
        ([0], [("sigmoid", 1.0, 0.0)], {}, "path_weight must be above 0"),
        ([0], [("sigmoid", 1.0, 1.5)], {}, "path_weight must be above 0"),
        ([0], [("sigmoid", 1.0)], {"max_instances": 0}, "must be at least 1"),
        ([0], [("sigmoid", 1.0)], {"costs": np.ones(3, np.float32)}, "mismatch"),
    ]:
        with pytest.raises(ValueError, match=message):
            rankings(data, plan, model, rows, functions, **more)
    os.truncate(model.path / "tree-0" / "weights.npy", ArrayFile("<f4", 3).bytes)
    with pytest.raises(ValueError, match="a file is shorter"):
        rankings(data, plan, model, [0], [("sigmoid", 1.0)])


@pytest.fixture
def tail():
    """Many labels of few instances each."""
    return synthesize("amazon-670k", scale=0.004)


def test_the_choice_is_stored_and_used(tmp_path, monkeypatch):
    data = random_data(labels=40, instances=300)
    plan = make_plan(data, [build_tree(data, clusters=3, seed=s) for s in range(2)])
    chosen = ScoreSettings("hinge3")
    monkeypatch.setattr("labeltree.training.fill.choose_score", lambda *_: chosen)
    model = train_model(data, plan, tmp_path / "model")
    assert model.score == load(tmp_path / "model").score == chosen
    model.save(tmp_path / "copy")
    copy = load(tmp_path / "copy")
    for found, expected in zip(copy.predict(data.X), model.predict(data.X, score="hinge3"), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_a_given_score_is_not_tried(tmp_path, monkeypatch):
    def refuse(*_):
        raise AssertionError("nothing is to be chosen")

    monkeypatch.setattr("labeltree.training.fill.choose_score", refuse)
    data = random_data(instances=300)
    plan = make_plan(data, build_tree(data, clusters=3))
    given = ScoreSettings("hinge2")
    assert train_model(data, plan, tmp_path / "model", score=given).score == given
    with pytest.raises(InputError, match="score is 'hinge3', expected ScoreSettings or 'auto'"):
        train_model(data, plan, tmp_path / "other", score="hinge3")


@pytest.mark.parametrize(
    ("instances", "clusters", "loss"), [(300, 3, "hinge"), (300, 100, "logistic"), (150, 3, "squared_hinge")]
)
def test_the_default_is_kept_without_a_trial(tmp_path, monkeypatch, instances, clusters, loss):
    monkeypatch.setattr("labeltree.training.score._precision", None)
    data = random_data(instances=instances, labels=40)
    plan = make_plan(data, build_tree(data, clusters=clusters), SolverSettings(loss=loss))
    assert train_model(data, plan, tmp_path / "model").score == SIGMOID


def test_scores_are_means_over_trees(monkeypatch):
    """The second tree ranks the labels in another order; the best 30 of both are averaged in full."""
    orders = np.arange(40), np.roll(np.arange(40), 10)
    data = Dataset.from_matrices(np.ones((3, 1)), np.ones((3, 40)) * (np.arange(40) < 10))

    def rank_in_tree(self, number, rows, functions, top):
        labels = np.broadcast_to(orders[number][:top], (rows.size, top)).astype(np.int32)
        return [(labels, np.broadcast_to(1 - np.arange(top) / 40, labels.shape).astype(np.float32))]

    ((labels, scores),) = held_out(monkeypatch, data, rank_in_tree, 2).ranked(3, [SIGMOID])
    ranks = np.array([np.argsort(order) for order in orders])
    each = np.where(ranks < 30, 1 - ranks / 40, 0).mean(axis=0)
    assert labels.shape == (3, 30)
    np.testing.assert_allclose(scores, each[labels], rtol=1e-6)
    assert (np.diff(scores, axis=1) <= 0).all()
    np.testing.assert_allclose(np.sort(scores[0]), np.sort(each)[-30:], rtol=1e-6)


@pytest.mark.parametrize("n_trees", [1, 2])
def test_the_same_seed_gives_the_same_choice_on_any_number_of_threads(tmp_path, monkeypatch, tail, n_trees):
    data = tail[0]
    found = []
    original = score.HeldOut._rank
    monkeypatch.setattr(score.HeldOut, "_rank", lambda *given: found.append(original(*given)) or found[-1])
    trees = [build_tree(data, clusters=20, seed=s) for s in range(n_trees)]
    models = [
        train_model(data, make_plan(data, trees, threads=threads), tmp_path / f"model-{threads}")
        for threads in (1, 3)
    ]
    assert models[0].score == models[1].score
    assert models[0].manifest == models[1].manifest
    half = len(found) // 2
    assert half >= 1
    for one, three in zip(found[:half], found[half:], strict=True):
        for a, b in zip(one, three, strict=True):
            assert all((x == y).all() for x, y in zip(a, b, strict=True))


def held_out(monkeypatch, data, rank_in_tree, n_trees=1):
    """Rows of data that are ranked by a stand-in of the kernel."""
    plan = SimpleNamespace(
        depth=2, settings=SolverSettings(), trees=(None,) * n_trees, n_labels=data.n_labels
    )
    monkeypatch.setattr(score.HeldOut, "_rank_in_tree", rank_in_tree)
    return score.HeldOut(data, plan, [], None)


def decide(monkeypatch, gains, rows=2000):
    """The choice if the first candidate is right in no row, and each other in a share of the rows."""
    data = Dataset.from_matrices(np.ones((rows, 1)), np.eye(2)[np.zeros(rows, int)])
    calls = []

    def ranked(self, number, sample, functions, top):
        calls.append(sample.size)
        shares = np.arange(sample.size) / sample.size
        wrong, right = np.array([1, -1, -1, -1, -1]), np.array([0, -1, -1, -1, -1])
        return [(np.where((shares < gain)[:, None], right, wrong), np.zeros(5)) for gain in (0, *gains)]

    trial = held_out(monkeypatch, data, ranked)
    chosen = score.choose_score(trial)
    assert trial.ranked(score.DECISION_ROWS, [chosen])  # ranked already
    return chosen, calls


@pytest.mark.parametrize(
    ("gains", "rows", "expected", "sizes"),
    [
        ((0, 0, 0, 0), 2000, 0, [1500]),
        ((0, 0.1, 0, 0.2), 20_000, 4, [1500, 5000]),
        ((0, 0, 0.0019, 0), 2000, 0, [1500]),  # 1.7 standard errors
        ((0, 0, 0.003, 0), 2000, 0, [1500, 2000]),  # 2.2 and 2.4 standard errors
        ((0, 0, 0.01, 0), 300, 0, [300]),  # a single round
        ((0, 0, 0.1, 0), 300, 3, [300]),
    ],
)
def test_another_function_must_be_better_beyond_doubt(monkeypatch, gains, rows, expected, sizes):
    assert decide(monkeypatch, gains, rows) == (score.CANDIDATES[expected], sizes)


@pytest.mark.parametrize(("labels", "expected"), [(1, 20), (8, 24), (30, 50)])
def test_more_labels_are_ranked_if_rows_have_more(monkeypatch, labels, expected):
    data = Dataset.from_matrices(np.ones((300, 1)), np.ones((300, labels)))
    tops = []

    def ranked(self, number, sample, functions, top):
        tops.append(top)
        return [(np.zeros((sample.size, top), np.int32), np.zeros((sample.size, top))) for _ in functions]

    held_out(monkeypatch, data, ranked).ranked(300, score.CANDIDATES[:1])
    assert tops == [expected]
