"""The solver: every block against LIBLINEAR, SciPy and a plain twin of dual coordinate descent."""

import ctypes
import warnings

import numpy as np
import pytest
from helpers import node_problems, random_data, run_portable
from hypothesis import given, settings
from hypothesis import strategies as st
from liblinear import liblinear, liblinearutil
from scipy.optimize import minimize

from labeltree import InputError, _native
from labeltree.data.dataset import Dataset
from labeltree.settings import SolverSettings
from labeltree.training.fill import train_model
from labeltree.training.plan import make_plan
from labeltree.trees.kmeans import build_tree
from labeltree.trees.tree import LabelTree

LOSSES = ["squared_hinge", "hinge", "logistic"]
# Newton's method on the primal where LIBLINEAR has it: it reaches the optimum exactly.
SOLVERS = {"squared_hinge": 2, "hinge": 3, "logistic": 0}


def train(tmp_path, data, tree, costs=None, threads=2, name="model", **options):
    options = {"cost": 1, "tolerance": 1e-10, "max_iterations": 200_000, **options}
    plan = make_plan(data, tree, SolverSettings(**options), threads=threads)
    return train_model(data, plan, tmp_path / name, costs=costs)


def liblinear_weights(x, y, loss, cost, tolerance=1e-9, solver=None):
    """Weights of one binary problem, and whether they are optimal: LIBLINEAR stops at 300 passes."""
    parameter = liblinear.parameter(f"-s {solver or SOLVERS[loss]} -c {cost} -e {tolerance}")
    printed = []
    parameter.print_func = liblinear.PRINT_STRING_FUN(printed.append)
    ctypes.CDLL(None).srand(1)  # LIBLINEAR visits instances in the order of the C library's rand()
    rows = [dict(enumerate(row, 1)) for row in x.tolist()]
    model = liblinearutil.train(liblinear.problem(y.tolist(), rows), parameter)
    first = model.get_labels()[0]  # the weights are for the first class
    return np.array(model.get_decfun(0)[0][: x.shape[1]]) * first, b"max number of iter" not in b"".join(
        printed
    )


def objective(w, x, y, loss, costs):
    slack = 1 - y * (x @ w)
    if loss == "logistic":
        losses = np.logaddexp(0, slack - 1)
    else:
        losses = np.maximum(0, slack) ** (2 if loss == "squared_hinge" else 1)
    return w @ w / 2 + costs @ losses


def newton_weights(x, y, loss, costs):
    """The minimiser of a smooth objective, by Newton's method in float64."""
    w = np.zeros(x.shape[1])
    for _ in range(200):
        margin = y * (x @ w)
        share = 1 / (1 + np.exp(margin))
        smooth = loss == "logistic"
        slope = -share if smooth else -2 * np.maximum(0, 1 - margin)
        curve = share * (1 - share) if smooth else 2.0 * (margin < 1)
        gradient = w + x.T @ (costs * y * slope)
        # The objective exceeds its minimum by at most half the squared gradient.
        if gradient @ gradient <= 1e-14 * objective(w, x, y, loss, costs):
            return w
        step = np.linalg.solve(np.eye(len(w)) + x.T @ ((costs * curve)[:, None] * x), gradient)
        now, size = objective(w, x, y, loss, costs), 1.0
        while objective(w - size * step, x, y, loss, costs) > now:
            size /= 2
            if size < 1e-6:  # rounding hides any further decrease
                return w
        w = w - size * step
    raise AssertionError("Newton's method did not converge")


def dual_weights(x, y, costs):
    """The hinge loss's minimiser through its dual, a box-constrained quadratic."""
    signed = x * y[:, None]
    found = minimize(
        lambda alpha: (
            (signed.T @ alpha) @ (signed.T @ alpha) / 2 - alpha.sum(),
            signed @ (signed.T @ alpha) - 1,
        ),
        np.zeros(len(x)),
        jac=True,
        method="L-BFGS-B",
        bounds=[(0, c) for c in costs],
        options={"maxiter": 20_000, "maxfun": 50_000, "ftol": 1e-17, "gtol": 1e-9, "maxcor": 40},
    )
    return signed.T @ found.x


def each_problem(data, model):
    """Node, row numbers, rows with the bias, signs and trained weights of every binary problem of a model."""
    tree = model.trees[0].tree
    for node in range(tree.n_nodes):
        rows, x, features, signs = node_problems(data, tree, node)
        if model.bias:
            x = np.hstack([x, np.full((len(x), 1), model.bias)])
            features = [*features, data.n_features]
        known, weights = model.block(node)
        assert known.tolist() == list(features)
        assert weights.shape == (len(features), tree.child_count[node])
        for child in range(signs.shape[1]):
            yield node, rows, x, signs[:, child], weights[:, child]


def check_liblinear(data, model, loss, cost, repeats=None):
    """Compare with LIBLINEAR where that converges, and with another oracle where it does not."""
    compared = 0
    for _, rows, x, y, weights in each_problem(data, model):
        times = np.ones(len(rows), int) if repeats is None else repeats[rows]
        if not x.size:
            continue
        expected, optimal = liblinear_weights(np.repeat(x, times, 0), np.repeat(y, times), loss, cost)
        if not optimal:
            expected = dual_weights(x, y, cost * times)
        compared += optimal
        np.testing.assert_allclose(weights, expected, atol=1e-4)
    assert compared >= (1 if loss == "hinge" else model.trees[0].tree.children.size)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("bias", [0, 1.0, 0.5])
@pytest.mark.parametrize("weighted", [False, True])
def test_every_block_of_a_tree_equals_liblinear(tmp_path, loss, bias, weighted):
    data = random_data(2, labels=14)
    tree = build_tree(data, clusters=3, max_depth=4)
    assert tree.n_nodes > 4
    repeats = np.random.default_rng(0).integers(1, 4, data.n_instances) if weighted else None
    model = train(tmp_path, data, tree, costs=repeats, loss=loss, bias=bias)
    check_liblinear(data, model, loss, 1, repeats)


def test_small_nodes_have_their_own_cost(tmp_path):
    data = random_data(2, labels=14)
    tree = build_tree(data, clusters=3, max_depth=4)
    model = train(tmp_path, data, tree, cost=0.3, max_cost=0.34)
    used = set()
    for _, rows, x, y, weights in each_problem(data, model):
        cost = min(0.34, 0.3 * (data.n_instances / max(1, len(rows))) ** 0.2)
        expected = newton_weights(x, y, "squared_hinge", np.full(len(rows), cost))
        np.testing.assert_allclose(weights, expected, atol=1e-4)
        used.add(cost)
    assert min(used) == 0.3
    assert max(used) == 0.34
    assert len(used) > 2


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("cost", [0.1, 10])
def test_every_cost_equals_liblinear(tmp_path, loss, cost):
    data = random_data(4, instances=40, labels=9)
    model = train(tmp_path, data, build_tree(data, clusters=3, max_depth=3), loss=loss, cost=cost)
    check_liblinear(data, model, loss, cost)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("labels", [1, 8, 9, 17, 32, 33])
def test_one_vs_rest_equals_liblinear(tmp_path, loss, labels):
    data = random_data(labels, instances=36, labels=labels, empty_label=labels > 1)
    model = train(tmp_path, data, build_tree(data, max_depth=1), loss=loss)
    assert model.trees[0].tree.n_nodes == 1
    check_liblinear(data, model, loss, 1)


@pytest.mark.parametrize("loss", ["squared_hinge", "logistic"])
@pytest.mark.parametrize("bias", [0, 1.0])
def test_real_costs_equal_newton(tmp_path, loss, bias):
    data = random_data(5, labels=8)
    costs = np.random.default_rng(1).uniform(0.01, 5, data.n_instances)
    tree = build_tree(data, clusters=3, max_depth=3)
    model = train(tmp_path, data, tree, costs=costs, loss=loss, bias=bias, cost=2)
    for _, rows, x, y, weights in each_problem(data, model):
        np.testing.assert_allclose(weights, newton_weights(x, y, loss, 2 * costs[rows]), atol=1e-4)


def test_costs_of_one_change_nothing(tmp_path):
    data = random_data(5)
    tree = build_tree(data, clusters=3)
    plain = train(tmp_path, data, tree, tolerance=0.1)
    ones = train(tmp_path, data, tree, costs=np.ones(data.n_instances), tolerance=0.1, name="ones")
    assert np.array_equal(plain.trees[0].weights, ones.trees[0].weights)


@pytest.mark.parametrize("loss", LOSSES)
def test_nodes_where_every_instance_is_positive(tmp_path, loss):
    """Labels 0 and 1 always come together: below their node, both children are positive everywhere."""
    data = random_data(6, labels=6, empty_label=False)
    y = data.Y.toarray()
    y[:, 1] = y[:, 0]
    data = Dataset.from_matrices(data.X, y)
    model = train(tmp_path, data, LabelTree.from_nested([[0, 1], [2, 3], 4, 5]), loss=loss)
    _, _, _, signs = node_problems(data, model.trees[0].tree, 1)
    assert (signs == 1).all()
    check_liblinear(data, model, loss, 1)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("bias", [0, 1.0])
def test_a_node_with_one_instance_and_nodes_with_none(tmp_path, loss, bias):
    x = np.array([[0.5, -1, 0, 0], [0, 0, 2, 0], [0, 0, 0, 0], [1, 0, 0, 0]])
    y = [[1, 0, 0, 0, 0, 0, 0], [0, 1, 0, 0, 0, 0, 0], [0, 0, 0, 0, 1, 1, 0], [1, 0, 0, 0, 0, 0, 0]]
    data = Dataset.from_matrices(x, y)
    # Below the root: labels 1 and 2 have one instance, 4 and 5 an empty one, 3 and 6 none.
    model = train(tmp_path, data, LabelTree.from_nested([0, [1, 2], [4, 5], [3, 6]]), loss=loss, bias=bias)
    sizes = [model.block(u)[0].size for u in range(4)]
    assert sizes == ([4, 2, 1, 1] if bias else [3, 1, 0, 0])
    assert (model.block(3)[1] == 0).all()
    for _, rows, wide, signs, weights in each_problem(data, model):
        if wide.size:
            expected, optimal = liblinear_weights(wide, signs, loss, 1)
            assert optimal
            np.testing.assert_allclose(weights, expected, atol=1e-4)
        else:
            assert len(rows) == 0 or not bias


@pytest.mark.parametrize("loss", LOSSES)
def test_rows_of_any_length_equal_liblinear(tmp_path, loss):
    data = random_data(8, instances=40, labels=6)
    scale = np.geomspace(0.01, 30, data.n_instances)[:, None]
    data = Dataset.from_matrices(data.X.multiply(scale), data.Y)
    model = train(tmp_path, data, build_tree(data, max_depth=1), loss=loss, cost=0.1)
    check_liblinear(data, model, loss, 0.1)


def dense(rng, rows=50):
    """Many instances, few features, labels that no classifier can tell apart."""
    return rng.random((rows, 6)), rng.random((rows, 3)) < 0.3


def sparse(rng, rows=40):
    x = rng.random((rows, 80)) * (rng.random((rows, 80)) < 0.06)
    return x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-9), rng.random((rows, 3)) < 0.2


def badly_scaled(rng, rows=40):
    x, y = dense(rng, rows)
    return x * np.geomspace(1e-3, 300, x.shape[1]), y


def long_and_short(rng, rows=40):
    x, y = sparse(rng, rows)
    return x * np.geomspace(1e-2, 100, rows)[:, None], y


def separable(rng, rows=40):
    x = rng.standard_normal((rows, 8)) * 5
    return x, np.stack([x @ direction > 1 for direction in rng.standard_normal((3, 8))], axis=1)


def repeated(rng, rows=40):
    """Equal rows with contradicting labels."""
    x, _ = sparse(rng, rows // 4)
    return np.repeat(x, 4, axis=0), rng.random((rows, 3)) < 0.4


KINDS = [dense, sparse, badly_scaled, long_and_short, separable, repeated]


def optimum(x, y, loss, costs):
    """LIBLINEAR's optimum where it reaches it, Newton's or the dual's where costs differ or it does not."""
    if np.ptp(costs) == 0:
        w, optimal = liblinear_weights(x, y, loss, costs[0])
        if optimal:
            return objective(w, x, y, loss, costs)
    w = dual_weights(x, y, costs) if loss == "hinge" else newton_weights(x, y, loss, costs)
    return objective(w, x, y, loss, costs)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=4)
@given(
    seed=st.integers(0, 2**32 - 1),
    cost=st.sampled_from([0.1, 1.0, 10.0]),
    bias=st.sampled_from([0.0, 1.0]),
    tolerance=st.sampled_from([0.1, SolverSettings.tolerance, 1e-3]),
    positive_cost=st.sampled_from([1.0, 4.0]),
)
def test_every_objective_is_within_the_tolerance_of_its_optimum(
    tmp_path_factory, loss, kind, seed, cost, bias, tolerance, positive_cost
):
    """The promise of the documentation: dense, sparse, badly scaled, separable and contradictory data."""
    tmp_path = tmp_path_factory.mktemp("promise")
    data = Dataset.from_matrices(*kind(np.random.default_rng(seed)))
    options = {"cost": cost, "bias": bias, "tolerance": tolerance, "positive_cost": positive_cost}
    # The hinge loss has no second derivative, so no Newton's method: it may take too many passes.
    iterations = SolverSettings.max_iterations // (10 if loss == "hinge" else 1)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*did not converge")
        model = train(
            tmp_path, data, build_tree(data, max_depth=1), loss=loss, max_iterations=iterations, **options
        )
    if loss != "hinge":
        assert model.manifest["not_converged"] == 0
    n_above = 0
    for _, _, x, y, weights in each_problem(data, model):
        costs = cost * np.where(y > 0, positive_cost, 1.0)
        ours = objective(weights.astype(np.float64), x, y, loss, costs)
        n_above += ours > optimum(x, y, loss, costs) * (1 + 1e-6) * (1 + tolerance)
    assert n_above <= model.manifest["not_converged"]


@pytest.mark.parametrize("loss", ["squared_hinge", "logistic"])
def test_full_groups_and_deep_nodes_keep_the_promise(tmp_path, loss):
    """A full group of siblings, nodes below the root, and a cost of each instance, at default settings."""
    data = random_data(16, instances=150, labels=120)
    tree = build_tree(data, clusters=_native.SIBLINGS + 2, max_depth=3)
    assert tree.child_count[0] > _native.SIBLINGS
    assert tree.n_nodes > 4
    costs = np.random.default_rng(2).uniform(0.1, 4, data.n_instances)
    defaults = {name: getattr(SolverSettings, name) for name in ("tolerance", "max_iterations")}
    model = train(tmp_path, data, tree, costs=costs, loss=loss, **defaults)
    for _, rows, x, y, weights in each_problem(data, model):
        best = objective(newton_weights(x, y, loss, costs[rows]), x, y, loss, costs[rows])
        ours = objective(weights.astype(np.float64), x, y, loss, costs[rows])
        assert ours <= best * (1 + 1e-6) * (1 + SolverSettings.tolerance)


@pytest.mark.parametrize("loss", ["squared_hinge", "logistic"])
def test_newton_finishes_what_descent_is_slow_to_solve(tmp_path, loss):
    x, y = badly_scaled(np.random.default_rng(3), 400)
    data = Dataset.from_matrices(x * 30, y)
    tree = build_tree(data, max_depth=1)
    options = {"loss": loss, "cost": 100, "tolerance": 1e-3}
    with pytest.warns(UserWarning, match="did not converge"):
        descent = train(tmp_path, data, tree, max_iterations=299, name="descent", **options)
    assert descent.manifest["not_converged"] > 0
    model = train(tmp_path, data, tree, max_iterations=300, **options)
    assert model.manifest["not_converged"] == 0
    for _, rows, wide, signs, weights in each_problem(data, model):
        costs = np.full(len(rows), 100.0)
        best = objective(newton_weights(wide, signs, loss, costs), wide, signs, loss, costs)
        ours = objective(weights.astype(np.float64), wide, signs, loss, costs)
        assert ours <= best * (1 + 2e-3)


def test_problems_that_do_not_converge_are_counted(tmp_path):
    data = random_data(9, instances=80, labels=8)
    tree = build_tree(data, clusters=4)
    with pytest.warns(UserWarning, match="binary problems did not converge to the tolerance of 0.0001"):
        model = train(tmp_path, data, tree, tolerance=1e-4, max_iterations=1)
    assert 0 < model.manifest["not_converged"] <= tree.children.size


@pytest.mark.parametrize("loss", ["squared_hinge", "logistic"])
def test_positive_cost_by_depth(tmp_path, loss):
    """A number for the root, another for all nodes below."""
    data = random_data(5, labels=14)
    tree = build_tree(data, clusters=3, max_depth=4)
    assert tree.depth > 2
    model = train(tmp_path, data, tree, loss=loss, cost=2, positive_cost=(3.0, 0.5))
    for node, _, x, y, weights in each_problem(data, model):
        costs = 2 * np.where(y > 0, 3.0 if node == 0 else 0.5, 1.0)
        np.testing.assert_allclose(weights, newton_weights(x, y, loss, costs), atol=1e-4)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("bias", [1.0, 0])
def test_a_converged_descent_needs_no_more_passes(tmp_path, loss, bias):
    """Nor does a row without features keep it going, which without a bias has nothing to learn from."""
    data = random_data(11)
    assert data.X.getnnz(axis=1)[1] == 0
    tree = build_tree(data, max_depth=1)
    few, many = (
        train(tmp_path, data, tree, loss=loss, bias=bias, tolerance=0.1, max_iterations=n, name=f"{n}")
        for n in (120, 121)
    )
    assert np.array_equal(few.trees[0].weights, many.trees[0].weights)


SCRIPT = """
import sys
from helpers import random_data
from labeltree.training.plan import make_plan
from labeltree.settings import SolverSettings
from labeltree.training.fill import train_model
from labeltree.trees.kmeans import build_tree
data = random_data(13, labels=40)
tree = build_tree(data, clusters=5, max_depth=4)
settings = SolverSettings(sys.argv[2], cost=1, tolerance=1e-10, max_iterations=100000)
train_model(data, make_plan(data, tree, settings), sys.argv[1])
print(tree.children.tolist())
"""


@pytest.mark.parametrize("loss", LOSSES)
def test_portable_instructions_agree(tmp_path, loss):
    data = random_data(13, labels=40)
    tree = build_tree(data, clusters=5, max_depth=4)
    printed = run_portable(SCRIPT, tmp_path / "portable", loss)
    assert printed.strip() == str(tree.children.tolist())
    model = train(tmp_path, data, tree, loss=loss)
    portable = np.load(tmp_path / "portable/tree-0/weights.npy")
    np.testing.assert_allclose(model.trees[0].weights, portable, atol=2e-5)


@pytest.mark.parametrize("strip_bytes", [1, 64 * 31, 64 * 31 * 2 + 5])
@pytest.mark.parametrize("threads", [2, 3])
def test_a_node_in_strips_is_the_same_model(tmp_path, monkeypatch, strip_bytes, threads):
    """Siblings are grouped within a strip, so the visits differ; the optimum does not, on any threads."""
    data = random_data(14, labels=70)
    tree = build_tree(data, clusters=37, max_depth=2)
    whole = train(tmp_path, data, tree, name="whole")
    monkeypatch.setattr("labeltree.training.tree_plan.STRIP_BYTES", strip_bytes)
    strips, alone = (
        train(tmp_path, data, tree, name=f"strips-{count}", threads=count) for count in (threads, 1)
    )
    strips.verify()
    np.testing.assert_array_equal(strips.trees[0].features, whole.trees[0].features)
    np.testing.assert_allclose(strips.trees[0].weights, whole.trees[0].weights, atol=2e-5)
    assert np.array_equal(strips.trees[0].weights, alone.trees[0].weights)


def test_the_seed_orders_the_visits(tmp_path):
    data = random_data(15)
    tree = build_tree(data, clusters=3)
    one, again, other = (
        train(tmp_path, data, tree, tolerance=0.01, seed=s, name=f"{k}").trees[0].weights
        for k, s in enumerate((0, 0, 1))
    )
    assert np.array_equal(one, again)
    assert not np.array_equal(one, other)
    np.testing.assert_allclose(one, other, atol=0.3)


@pytest.mark.filterwarnings("ignore:.*did not converge")
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("tolerance", [0.1, 1e-10])
def test_large_values_give_no_nan_and_too_large_ones_are_refused(tmp_path, loss, tolerance):
    data = random_data(12)
    tree = build_tree(data, clusters=3)
    for factor in (1e6, 1e12):
        large = Dataset.from_matrices(data.X * np.float32(factor), data.Y)
        options = {"loss": loss, "tolerance": tolerance, "max_iterations": 50}
        model = train(tmp_path, large, tree, name=f"{factor}", **options)
        assert np.isfinite(model.trees[0].weights).all()
    assert np.any(model.trees[0].weights)
    too_large = Dataset.from_matrices(data.X * np.float32(1e20), data.Y)
    with pytest.raises(InputError, match="too large to be squared"):
        train(tmp_path / "other", too_large, tree, loss=loss, tolerance=tolerance)
