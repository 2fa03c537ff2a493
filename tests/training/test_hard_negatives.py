"""Hard negatives: routing and training against twins, the same bytes in all ways to train, and bad input."""

import json
from contextlib import contextmanager, suppress
from dataclasses import asdict
from itertools import pairwise

import numpy as np
import pytest
from codec_models import store_model
from helpers import Killed, contents, disk_bytes, killed_after, make_data, node_labels, random_data
from test_solver import objective, optimum

from labeltree import Dataset, InputError, _native, build_plan, load
from labeltree.estimators.classifier import LabelTreeClassifier
from labeltree.explain.prediction import explain_prediction
from labeltree.model.directory import write_durably
from labeltree.settings import ScoreSettings, SolverSettings, StorageSettings, TreeSettings
from labeltree.training.default_cost import node_costs, positive_costs
from labeltree.training.fill import train_model
from labeltree.training.parts import fill_part, join_parts, plan_parts
from labeltree.training.plan import make_plan
from labeltree.training.work import work_path
from labeltree.trees.kmeans import build_tree
from labeltree.trees.tree import LabelTree

STORED = {
    "float32": StorageSettings(),
    "float16": StorageSettings("float16"),
    "int8": StorageSettings("int8"),
    "sparse": StorageSettings(prune=0.1),
}
# Two subtrees of the same shape, whose nodes can have the same weights; leaves and nodes at every depth.
UNEVEN = [
    *([[base, base + 1, [base + 2, base + 3]], [base + 4, [base + 5, base + 6]]] for base in (0, 7)),
    14,
    [[15, 16], [17, [18, 19]], 20],
]
WIDE = [[2 * k, 2 * k + 1] for k in range(300)]


def own_nodes(data, tree):
    """Rows x nodes: whether a row has a label of the node; at the root, of all rows."""
    y = data.Y.toarray() != 0
    own = np.stack([y[:, node_labels(tree, u)].any(axis=1) for u in range(tree.n_nodes)], axis=1)
    own[:, 0] = True
    return own


def log_sigmoid(t):
    """In float32, as the scores of paths are added up."""
    return t if t < -80 else -np.log1p(np.exp(-t))


def routes_twin(tree, level, visits, own, margins, n_best):
    """Sort all inner children of all visited nodes: {row: {node: (score, has a label of it)}}.

    ``visits`` is the same of the level above, ``margins`` of a node are rows x children.
    """
    first, last = tree.level_ptr[level - 1 : level + 1]
    children = {
        u: tree.children[tree.child_ptr[u] : tree.child_ptr[u + 1]].tolist() for u in range(first, last)
    }
    found = {}
    for row, nodes in visits.items():
        ranked = sorted(
            (-(score + log_sigmoid(3 * margins[u][row, c])), -margins[u][row, c], child)
            for u, (score, _) in nodes.items()
            for c, child in enumerate(children[u])
            if child >= 0
        )
        chosen = {child: -score for score, _, child in ranked[:n_best]}
        chosen |= {child: -score for score, _, child in ranked if own[row, child]}
        found[row] = {child: (score, bool(own[row, child])) for child, score in chosen.items()}
    return found


def by_row(first_node, ptr, rows, log_scores, n_rows):
    """Visits as the kernel returns them, as `routes_twin` does."""
    found = {row: {} for row in range(n_rows)}
    for node, (start, end) in enumerate(pairwise(ptr.tolist()), first_node):
        numbers = [row if row >= 0 else ~row for row in rows[start:end].tolist()]
        assert numbers == sorted(set(numbers))
        for row, number, score in zip(rows[start:end], numbers, log_scores[start:end], strict=True):
            found[number][node] = (score, row >= 0)
    return found


def same_visits(found, expected):
    for row, nodes in expected.items():
        assert {u: own for u, (_, own) in found[row].items()} == {u: own for u, (_, own) in nodes.items()}, (
            row
        )
        for u, (score, _) in nodes.items():
            assert found[row][u][0] == pytest.approx(score, rel=1e-4, abs=1e-6)


# Routing of models with arbitrary weights


def routed_model(place, nested, codec, seed=0, n_features=12):
    """A model with weights on a grid, which often tie, and the same blocks in subtrees of the same shape."""
    rng = np.random.default_rng(seed)
    tree = LabelTree.from_nested(nested)
    blocks, twins = [], {}
    if nested is UNEVEN:
        first, second = tree.children[:2].tolist()
        twins = {second: first, **dict(zip(below(tree, second), below(tree, first), strict=True))}
    for u in range(tree.n_nodes):
        used = np.append(np.flatnonzero(rng.random(n_features) < 0.7), n_features)
        weights = rng.integers(-3, 4, (used.size, tree.child_count[u])) / np.float32(2)
        if u == 0 and twins:
            weights[:, 1] = weights[:, 0]
        # Large weights of one feature: where the sigmoid is 1, margins decide.
        weights[0] *= 60
        blocks.append(blocks[twins[u]] if u in twins else (used.astype(np.int32), weights.astype(np.float32)))
    sizes = np.array([[features.size, weights.size] for features, weights in blocks])
    feature_ptr, weight_ptr = (np.concatenate([[0], np.cumsum(column)]) for column in sizes.T)
    features = np.concatenate([features for features, _ in blocks])
    weights = np.concatenate([weights.ravel() for _, weights in blocks])
    arrays = tree.child_ptr, tree.children, feature_ptr, features, weight_ptr, weights
    model = store_model(place / "float32", ([arrays], n_features, tree.n_labels, 1.0))
    return model if codec == "float32" else model.compress(place / codec, **vars(STORED[codec]))


def below(tree, node):
    """Nodes below a node, by depth."""
    found = [node]
    for u in found:
        found += [
            child for child in tree.children[tree.child_ptr[u] : tree.child_ptr[u + 1]].tolist() if child >= 0
        ]
    return found[1:]


@contextmanager
def raw_files(place, stored):
    """The blocks of a tree as files without headers."""
    stored.features.tofile(place / "features")
    stored.weights.tofile(place / "weights")
    with open(place / "features", "rb") as features, open(place / "weights", "rb") as weights:
        yield _native.BlockFiles(
            stored.codec,
            feature_ptr=stored.feature_ptr,
            weight_ptr=stored.weight_ptr,
            feature_file=features.fileno(),
            feature_start=0,
            weight_file=weights.fileno(),
            weight_start=0,
        )


def grid_data(tree, n_rows, n_features=12, seed=1):
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 3, (n_rows, n_features)) * (rng.random((n_rows, n_features)) < 0.5)
    y = rng.random((n_rows, tree.n_labels)) < 1.5 / tree.n_labels
    y[0], x[1], y[:, -1] = False, 0, False
    return Dataset.from_matrices(x.astype(float), y)


def all_margins(data, model, tree=0):
    """The margins of all rows at every node, in float32; sums of int8 weights are scaled once."""
    x = np.hstack([data.X.toarray(), np.full((data.n_instances, 1), model.bias)]).astype(float)
    stored, found = model.trees[tree], []
    for u in range(stored.tree.n_nodes):
        features, weights = model.block(u, tree)
        scales = np.ones(weights.shape[1])
        if stored.codec in ("int8", "sparse"):
            scales = stored.scales[stored.tree.child_ptr[u] : stored.tree.child_ptr[u + 1]].astype(float)
            scales[scales == 0] = 1
        inner = features < data.n_features
        sums = x[:, features[inner]] @ np.round(weights[inner] / scales, 12 if scales[0] == 1 else 0)
        found.append((sums * scales + x[:, features[~inner]] @ weights[~inner]).astype(np.float32))
    return found


@pytest.mark.parametrize("n_best", [0, 1, 3, 10**6])
@pytest.mark.parametrize("codec", STORED)
@pytest.mark.parametrize(("nested", "n_rows"), [(UNEVEN, 40), (WIDE, 30)], ids=["uneven", "wide"])
def test_routing_sorts_all_children_of_all_visited_nodes(tmp_path, nested, n_rows, codec, n_best):
    model = routed_model(tmp_path, nested, codec)
    stored = model.trees[0]
    tree = stored.tree
    data = grid_data(tree, n_rows)
    training = make_plan(data, tree, threads=1).training(0, data)
    own, margins = own_nodes(data, tree), all_margins(data, model)
    visits = np.array([0, n_rows]), np.arange(n_rows, dtype=np.int32), np.zeros(n_rows, np.float32)
    expected = {row: {0: (np.float32(0), True)} for row in range(n_rows)}
    with raw_files(tmp_path, stored) as files:
        for level in range(1, tree.depth):
            given = dict(zip(("ptr", "rows", "log_scores"), visits, strict=True))
            options = {"scales": stored.scales, "biases": stored.biases, "n_best": n_best, **given}
            first = int(tree.level_ptr[level - 1])
            visits, other = (
                _native.route_rows(training, files, first_node=first, threads=threads, **options)
                for threads in (1, 3)
            )
            assert [a.tobytes() for a in visits] == [a.tobytes() for a in other]
            expected = routes_twin(tree, level, expected, own, margins, n_best)
            same_visits(by_row(int(tree.level_ptr[level]), *visits, n_rows), expected)
            if n_best == 0:
                assert (visits[1] >= 0).all()


def test_rows_of_a_large_node_are_routed_in_pieces(tmp_path):
    """Each row many times: its copies go where it goes."""
    model = routed_model(tmp_path, UNEVEN, "float32")
    stored = model.trees[0]
    few = grid_data(stored.tree, 100)
    many = Dataset.from_matrices(few.X[np.arange(20_000) % 100], few.Y[np.arange(20_000) % 100])
    found = []
    with raw_files(tmp_path, stored) as files:
        for data, threads in ((few, 1), (many, 1), (many, 3)):
            n_rows = data.n_instances
            visits = _native.route_rows(
                make_plan(data, stored.tree, threads=1).training(0, data),
                files,
                scales=stored.scales,
                biases=stored.biases,
                first_node=0,
                ptr=np.array([0, n_rows]),
                rows=np.arange(n_rows, dtype=np.int32),
                log_scores=np.zeros(n_rows, np.float32),
                n_best=2,
                threads=threads,
            )
            found.append(by_row(1, *visits, n_rows))
    assert found[1] == found[2]
    assert all(found[1][row] == found[0][row % 100] for row in range(20_000))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_best": -1}, "n_best must not be negative"),
        ({"threads": 0}, "threads at least 1"),
        ({"first_node": -1}, "first_node is out of range"),
        ({"first_node": 2**62}, "first_node is out of range"),
        ({"ptr": np.array([0, 0, 60])}, "the nodes must be those of a level"),
        ({"ptr": np.zeros(0, np.int64)}, "ptr must start at 0"),
        ({"ptr": np.array([0, 59])}, "ptr must end at"),
        ({"rows": np.full(60, 60, np.int32)}, "rows has an entry out of range"),
        ({"rows": np.full(60, -(2**31), np.int32)}, "rows has an entry out of range"),
        ({"log_scores": np.zeros(59, np.float32)}, "log_scores must have one entry per row"),
        ({"log_scores": np.full(60, np.nan, np.float32)}, "log_scores must not be positive"),
    ],
)
def test_arguments_of_the_kernel_are_checked(tmp_path, changes, message):
    model = routed_model(tmp_path, UNEVEN, "float32")
    stored, data = model.trees[0], grid_data(model.trees[0].tree, 60)
    good = {"first_node": 0, "ptr": np.array([0, 60]), "rows": np.arange(60, dtype=np.int32), "n_best": 2}
    good |= {
        "log_scores": np.zeros(60, np.float32),
        "scales": stored.scales,
        "biases": stored.biases,
        "threads": 1,
    }
    training = make_plan(data, stored.tree, threads=1).training(0, data)
    with raw_files(tmp_path, stored) as files:
        _native.route_rows(training, files, **good)
        with pytest.raises(ValueError, match=message):
            _native.route_rows(training, files, **good | changes)


@pytest.mark.parametrize(
    ("ptr", "rows", "cost", "message"),
    [
        ([0, 1], [2], 1.0, "foreign_ptr must have one entry per node"),
        (None, [60], 1.0, "foreign_rows holds an index out of range"),
        (None, [3, 3], 1.0, "foreign_rows must increase"),
        (None, [3], 0.0, "foreign_cost must be positive"),
        (None, [3], float("nan"), "foreign_cost must be positive"),
    ],
)
def test_foreign_rows_of_a_training_are_checked(ptr, rows, cost, message):
    data = random_data()
    plan = make_plan(data, build_tree(data, clusters=3), threads=1)
    object.__setattr__(plan.settings, "foreign_cost", cost)
    n_nodes = plan.trees[0].tree.n_nodes
    ptr = [0, *[len(rows)] * n_nodes] if ptr is None else ptr
    with pytest.raises(ValueError, match=message):
        plan.training(0, data, None, (np.array(ptr), np.array(rows, np.int32)))


# Training


@contextmanager
def recorded(monkeypatch):
    """Collect what route_rows is given and what it returns."""
    route, calls = _native.route_rows, []

    def call(*arguments, **options):
        calls.append((options, route(*arguments, **options)))
        return calls[-1][1]

    with monkeypatch.context() as patch:
        patch.setattr("labeltree.training.routing._native.route_rows", call)
        yield calls


def few_labels(n_rows, labels):
    """Most nodes are foreign to a row."""
    data = random_data(1, instances=n_rows, labels=labels, features=60, density=0.08)
    keep = np.random.default_rng(1).random(data.Y.shape) < 0.15
    return Dataset.from_matrices(data.X, data.Y.toarray() * keep)


def foreign_problems(data, model, calls, settings, costs=None):
    """Rows with the bias, signs, costs and trained weights of every problem, from the definition."""
    tree = model.trees[0].tree
    own = own_nodes(data, tree)
    weights = np.ones(data.n_instances) if costs is None else costs.astype(float)
    visits = [
        by_row(options["first_node"] + options["ptr"].size - 1, *found, data.n_instances)
        for options, found in calls
    ]
    costs_of_nodes = node_costs(settings, np.array([weights[own[:, u]].sum() for u in range(tree.n_nodes)]))
    for u in range(tree.n_nodes):
        foreign = [row for level in visits for row, nodes in level.items() if u in nodes and not nodes[u][1]]
        rows = np.append(np.flatnonzero(own[:, u]), foreign).astype(int)
        x = data.X.toarray().astype(float)[rows]
        used = (x[own[rows, u]] != 0).any(axis=0)
        x = np.hstack([x[:, used], np.full((len(x), 1), model.bias)]) if model.bias else x[:, used]
        features, found = model.block(u)
        assert features.tolist() == [*np.flatnonzero(used), *[data.n_features] * bool(model.bias)]
        factor = np.where(own[rows, u], 1, settings.foreign_cost)
        cost = costs_of_nodes[u] * weights[rows] * factor
        for c, child in enumerate(tree.children[tree.child_ptr[u] : tree.child_ptr[u + 1]].tolist()):
            y = np.where(own[rows, child] if child >= 0 else data.Y.toarray()[rows, ~child] != 0, 1.0, -1.0)
            positive = positive_costs(settings, tree.node_depth)[u]
            yield u, len(foreign), x, y, np.where(y > 0, cost * positive, cost), found[:, c]


@pytest.mark.filterwarnings("ignore:.*did not converge")
@pytest.mark.parametrize("loss", ["squared_hinge", "hinge", "logistic"])
@pytest.mark.parametrize(
    ("more", "weighted", "labels"),
    [
        ({"foreign_cost": 1.0, "max_cost": 1.0}, False, 40),
        ({"hard_negatives": 1, "bias": 0.0}, False, 40),
        ({"hard_negatives": 5, "positive_cost": (2.0, 5.0)}, True, 40),
        ({"foreign_cost": 3.0, "tolerance": 1e-7, "max_iterations": 20_000}, True, 150),
    ],
)
def test_every_objective_is_within_the_tolerance_of_its_optimum(
    tmp_path, monkeypatch, loss, more, weighted, labels
):
    data = few_labels(120, labels)
    settings = SolverSettings(loss=loss, **{"cost": 1.0, "hard_negatives": 3, **more})
    tree = build_tree(data, clusters=4 if labels == 40 else _native.SIBLINGS + 2)
    costs = np.random.default_rng(2).uniform(0.2, 3, 120).astype(np.float32) if weighted else None
    plan = make_plan(data, tree, settings, threads=1)
    settings = plan.settings
    with recorded(monkeypatch) as calls:
        model = train_model(data, plan, tmp_path / "m", costs=costs)
    assert len(calls) == tree.depth - 1 >= 1
    n_above, n_foreign = 0, 0
    for _, more_rows, x, y, cost, weights in foreign_problems(data, model, calls, settings, costs):
        if not x.size:
            continue
        ours = objective(weights.astype(float), x, y, loss, cost)
        n_above += ours > optimum(x, y, loss, cost) * (1 + 1e-6) * (1 + settings.tolerance)
        n_foreign += more_rows
    assert n_foreign > data.n_instances
    assert n_above <= model.manifest["not_converged"]
    assert loss == "hinge" or model.manifest["not_converged"] == 0


@pytest.mark.parametrize("codec", STORED)
def test_rows_are_routed_by_the_weights_that_are_stored(tmp_path, monkeypatch, codec):
    data = random_data(2, instances=100, labels=60, features=80, density=0.06)
    plan = build_plan(
        data, TreeSettings(clusters=3), SolverSettings(hard_negatives=2), STORED[codec], threads=1
    )
    with recorded(monkeypatch) as calls:
        model = train_model(data, plan, tmp_path / "m")
    tree = model.trees[0].tree
    assert tree.depth == len(calls) + 1 > 3
    own, margins = own_nodes(data, tree), all_margins(plan.rows_of(data), model)
    expected = {row: {0: (np.float32(0), True)} for row in range(100)}
    for level, (_, found) in enumerate(calls, 1):
        expected = routes_twin(tree, level, expected, own, margins, 2)
        same_visits(by_row(int(tree.level_ptr[level]), *found, 100), expected)


# The same bytes, however it is trained

DATA = make_data(80, features=30, labels=25)
ROUNDS = 4  # as many as there are levels


def plan_of(codec="float32", threads=2, **settings):
    options = SolverSettings(**{"hard_negatives": 2, **settings})
    return build_plan(
        DATA, TreeSettings(clusters=3, max_depth=4, trees=2), options, STORED[codec], threads=threads
    )


def weights_of(model):
    return {name: content for name, content in contents(model).items() if name.name != "manifest.json"}


@pytest.fixture(scope="module")
def at_once(tmp_path_factory):
    """Models with every codec, trained in one go."""
    place = tmp_path_factory.mktemp("at-once")
    for codec in STORED:
        train_model(DATA, plan_of(codec), place / codec)
    return {codec: contents(place / codec) for codec in STORED} | {"place": place}


@pytest.mark.parametrize("codec", STORED)
def test_threads_do_not_matter_and_the_size_is_planned(tmp_path, at_once, codec):
    for threads in (1, 3):
        plan = plan_of(codec, threads)
        model = train_model(DATA, plan, tmp_path / str(threads))
        assert contents(model.path) == at_once[codec]
    size, plain = disk_bytes(model.path), plan_of(codec, hard_negatives=0)
    assert plan.depth == ROUNDS
    assert plan.model_bytes == plain.model_bytes
    assert size == plan.model_bytes if plan.is_exact else size <= plan.model_bytes


def test_without_hard_negatives_nothing_changes(tmp_path):
    plain = weights_of(train_model(DATA, plan_of(hard_negatives=0), tmp_path / "plain").path)
    same = weights_of(train_model(DATA, plan_of(hard_negatives=0, foreign_cost=3.0), tmp_path / "same").path)
    assert plain == same
    assert plain != weights_of(train_model(DATA, plan_of(), tmp_path / "other").path)


def trained_again(monkeypatch, plan, place, patches):
    """Train until it is not killed; return how often it was. ``patches`` makes a context of each run."""
    for n_killed in range(200):
        with monkeypatch.context() as patch, suppress(Killed):
            patches(patch)
            train_model(DATA, plan, place, resume=True)
            return n_killed
    raise AssertionError("it never ends")


def killed_in_strips(n_strips):
    """Train some strips, then stop, in the middle of a level or after it."""
    train = _native.train_strips

    def stop(*arguments, strips, **options):
        train(*arguments, strips=strips[:n_strips], **options)
        raise Killed

    return lambda patch: patch.setattr("labeltree.training.fill._native.train_strips", stop)


def killed_at_second(name, function, counts):
    """Stop at the second call that counts."""

    def patches(patch):
        calls = []

        def stop(*arguments, **options):
            calls.extend([1] * counts(arguments))
            if len(calls) == 2:
                raise Killed
            return function(*arguments, **options)

        patch.setattr(name, stop)

    return patches


@pytest.mark.parametrize("codec", STORED)
@pytest.mark.parametrize(
    ("kill", "least"),
    [
        (killed_in_strips(1), 12),
        (killed_in_strips(2), 8),
        (killed_in_strips(100), 8),
        (
            killed_at_second(
                "labeltree.training.routing._native.route_rows", _native.route_rows, lambda _: True
            ),
            3,
        ),
        (
            killed_at_second(
                "labeltree.training.work.write_durably", write_durably, lambda a: "visits" in a[0].name
            ),
            3,
        ),
    ],
    ids=["one strip", "two strips", "a level", "before routing", "after routing"],
)
def test_a_run_that_is_stopped_within_and_between_levels(tmp_path, monkeypatch, at_once, codec, kill, least):
    plan = plan_of(codec)
    assert trained_again(monkeypatch, plan, tmp_path / "m", kill) >= least
    assert contents(tmp_path / "m") == at_once[codec]
    assert [entry.name for entry in tmp_path.iterdir()] == ["m"]


def test_a_run_that_is_stopped_while_its_blocks_are_packed(tmp_path, monkeypatch, at_once):
    monkeypatch.setattr("labeltree.model.pack._RELEASED_AT_ONCE", 1)
    name, release = "labeltree.model.pack._native.release_range", _native.release_range
    kill = killed_at_second(name, release, lambda _: True)
    assert trained_again(monkeypatch, plan_of("sparse"), tmp_path / "m", kill) > 3
    assert contents(tmp_path / "m") == at_once["sparse"]


@pytest.mark.parametrize("codec", STORED)
def test_parts_that_are_filled_in_rounds_give_the_bytes_of_one_run(tmp_path, at_once, codec, run):
    plan_parts(DATA, plan_of(codec), tmp_path / "work")
    missing = [fill_part(tmp_path / "work", part, 4, threads=1) for part in (4, 3, 2)]
    _, out, _ = run("fill", tmp_path / "work", "--part", "1/4")
    assert "not trained yet; with hard negatives, run all parts once for each level" in out
    missing.append(fill_part(tmp_path / "work", 4, 4))
    with pytest.raises(InputError, match="strips are not trained yet"):
        join_parts(tmp_path / "work", tmp_path / "m")
    for _ in range(ROUNDS - 1):
        missing += [fill_part(tmp_path / "work", part, 4, threads=1) for part in (4, 3, 2, 1)]
    assert missing == sorted(missing, reverse=True)
    assert missing[-1] == 0 < missing[3]
    join_parts(tmp_path / "work", tmp_path / "m")
    assert contents(tmp_path / "m") == at_once[codec]


# Every kind of model


@pytest.mark.parametrize("loss", ["squared_hinge", "hinge", "logistic"])
@pytest.mark.parametrize(
    "trees",
    [
        lambda data: build_tree(data, max_depth=1),
        lambda data: LabelTree.from_nested([[0, [1, 2], [3, [4, 5, [6, 7]]]], 8, [9, [10, 11]]]),
        lambda data: [build_tree(data, clusters=3, seed=seed) for seed in range(3)],
        lambda data: LabelTree.from_nested(
            [[0, 1, 2, 3, 4, 5, 6, 7, 8], [9, 10], [[11]]]
        ),  # nodes without rows
    ],
    ids=["one-vs-rest", "uneven", "three", "empty"],
)
def test_models_predict_and_explain(tmp_path, loss, trees):
    """Rows without labels, or without features, labels without rows."""
    data = random_data()
    trees, settings = trees(data), SolverSettings(hard_negatives=3, loss=loss)
    weight = 0.5
    score = ScoreSettings("hinge3", path_weight=weight)
    model = train_model(data, make_plan(data, trees, settings), tmp_path / "m", score=score)
    plain = train_model(
        data, make_plan(data, trees, SolverSettings(loss=loss)), tmp_path / "plain", score=score
    )
    same = weights_of(model.path) == weights_of(plain.path)
    assert same == (model.trees[0].tree.depth == 1)
    labels, scores = model.predict(data.X, top=12, beam=100)
    assert (scores[:, 0] > 0).all()
    for row in (0, 1, 2, 7):
        explained = explain_prediction(model, data.X[row], top=4, beam=100)
        assert [e.label for e in explained] == labels[row, :4].tolist()
        for explanation in explained:
            rank = labels[row].tolist().index(explanation.label)
            assert explanation.score == pytest.approx(scores[row, rank], rel=1e-4)
            assert explanation.score == pytest.approx(
                np.mean([path.score for path in explanation.paths]), rel=1e-4
            )
            for path in explanation.paths:
                above = 1.0
                for step in path.steps:
                    assert step.score == pytest.approx(step.factor * above**weight, rel=1e-6)
                    above = step.score
                assert path.score == step.score


@pytest.mark.parametrize(("labels", "instances", "loss"), [(40, 150, "squared_hinge"), (40, 300, "hinge")])
def test_the_score_where_it_cannot_be_tried(tmp_path, labels, instances, loss):
    data = random_data(instances=instances, labels=labels)
    settings = SolverSettings(hard_negatives=2, loss=loss)
    for clusters, expected in ((3, ScoreSettings("hinge3", path_weight=0.75)), (100, ScoreSettings())):
        plan = make_plan(data, build_tree(data, clusters=clusters), settings)
        assert train_model(data, plan, tmp_path / str(clusters)).score == expected


def test_the_commands_show_the_weight_of_the_path(tmp_path, folder, run):
    options = ["--clusters", "5", "--hard-negatives", "3", "--quiet"]
    assert run("train", folder / "train.svm", tmp_path / "m", *options)[0] == 0
    score = load(tmp_path / "m").score
    assert score.path_weight < 1
    _, out, _ = run("info", tmp_path / "m", "--json")
    assert json.loads(out)["score"] == asdict(score)
    _, out, _ = run("explain", tmp_path / "m", "--file", folder / "test.svm", "--row", "0")
    assert f"the score of the step before to the power {score.path_weight:g};" in out


# Bad input


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("hard_negatives", -1, "is -1, expected .*0"),
        ("hard_negatives", 2.5, "is 2.5, expected"),
        ("foreign_cost", 0, "is 0.*, expected a number from 1e-06"),
        ("foreign_cost", -0.2, "is -0.2, expected a number from 1e-06"),
        ("foreign_cost", float("nan"), "is nan, expected a number from 1e-06"),
    ],
)
def test_bad_settings_are_refused(tmp_path, folder, refused, option, value, message):
    with pytest.raises(InputError, match=rf"^{option} {message}"):
        SolverSettings(**{option: value})
    with pytest.raises(InputError, match=rf"^{option} {message}"):
        LabelTreeClassifier(**{option: value}).fit(DATA.X, DATA.Y)
    name = option.replace("_", "-")
    error = refused("train", folder / "train.svm", tmp_path / "m", f"--{name}={value}")
    assert name in error
    assert not list(tmp_path.iterdir())


def started(monkeypatch, place, codec="float32"):
    """A run that was killed in the third level of its first tree."""
    for _ in range(3):
        with killed_after(monkeypatch, 100):
            train_model(DATA, plan_of(codec), place, resume=True)
    return work_path(place)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"hard_negatives": 3}, r"the unfinished run has other solver \(hard_negatives: 2 before, 3 now\)"),
        ({"hard_negatives": 0}, r"the unfinished run has other solver \(hard_negatives: 2 before, 0 now\)"),
        ({"foreign_cost": 1.0}, r"the unfinished run has other solver \(foreign_cost: 0.2 before, 1.0 now\)"),
    ],
)
def test_other_hard_negatives_are_not_continued(tmp_path, monkeypatch, changes, message):
    work = started(monkeypatch, tmp_path / "m")
    before = contents(work)
    with pytest.raises(InputError, match=message):
        train_model(DATA, plan_of(**changes), tmp_path / "m", resume=True)
    assert contents(work) == before


def message_of(monkeypatch, place):
    """The error of a run that is continued; None if it would go on to train."""
    with monkeypatch.context() as patch:
        patch.setattr("labeltree.training.fill._native.train_strips", stop_now)
        try:
            train_model(DATA, plan_of(), place, resume=True)
        except InputError as error:
            return str(error)
        except Killed:
            return None


def stop_now(*_, **__):
    raise Killed


def test_a_file_of_visits_that_is_damaged_is_named(tmp_path, monkeypatch, at_once):
    work = started(monkeypatch, tmp_path / "m")
    other = started(monkeypatch, tmp_path / "other", "float16") / "visits-0-1.npz"
    file = work / "visits-0-1.npz"
    content = file.read_bytes()
    places = range(0, len(content), 37)
    cut = [content[:at] for at in places]
    changed = [content[:at] + bytes([content[at] ^ 0x41]) + content[at + 1 :] for at in places]
    found = []
    for damaged in (b"", b"PK\x03\x04", b"\x93NUMPY", *cut, *changed, other.read_bytes()):
        file.write_bytes(damaged)
        found.append(message_of(monkeypatch, tmp_path / "m"))
    for message in filter(None, found):
        assert message.startswith(f"{file}: the file ")
        assert message.endswith(
            "; remove it, then continue with resume=True or `labeltree fill`, which make it again"
        )
        assert "\n" not in message
    assert all("is damaged (" in message for message in found[: 3 + len(cut)])
    # Not every byte of an archive matters.
    assert sum(message is None for message in found) < len(changed) / 4
    assert "belongs to other weights" in found[-1]
    file.unlink()
    train_model(DATA, plan_of(), tmp_path / "m", resume=True)
    assert contents(tmp_path / "m") == at_once["float32"]


def test_a_file_of_visits_that_is_missing_is_made_again(tmp_path, at_once, run, refused):
    """From the command line, after all strips are trained."""
    plan_parts(DATA, plan_of("sparse"), tmp_path / "work")
    assert run("fill", tmp_path / "work")[0] == 0
    file = tmp_path / "work/visits-1-2.npz"
    content = file.read_bytes()
    for damage, hint in (
        (file.unlink, "is missing; continue"),
        (lambda: file.write_bytes(content[:99]), "; remove it, then continue"),
    ):
        damage()
        before = contents(tmp_path / "work")
        message = refused("join", tmp_path / "work", tmp_path / "m")
        assert message.startswith(f"error: {file}: the file is ")
        assert f"{hint} with --resume or `labeltree fill`" in message
        assert contents(tmp_path / "work") == before
        assert not (tmp_path / "m").exists()
    assert "is damaged" in refused("fill", tmp_path / "work")
    file.unlink()
    assert run("fill", tmp_path / "work")[0] == 0
    assert file.read_bytes() == content
    assert run("join", tmp_path / "work", tmp_path / "m")[0] == 0
    assert contents(tmp_path / "m") == at_once["sparse"]


def test_blocks_that_are_damaged_are_not_routed(tmp_path, refused, run):
    plan_parts(DATA, plan_of(), tmp_path / "work")
    fill_part(tmp_path / "work", 1, 2)
    (tmp_path / "work/visits-0-1.npz").unlink(missing_ok=True)
    assert run("fill", tmp_path / "work", "--part", "2/2")[0] == 0
    features = tmp_path / "work/model/tree-0/features.npy"
    content = bytearray(features.read_bytes())
    content[131] = 0x7F
    features.write_bytes(content)
    (tmp_path / "work/visits-0-1.npz").unlink(missing_ok=True)
    assert "the trained blocks of tree 0 are damaged (the features" in refused("fill", tmp_path / "work")


# Bounds before training


def test_memory_and_work_are_bounded_before_training():
    plans = [plan_of(hard_negatives=n, threads=1) for n in (0, 1, 2, 10**6, 2**31 - 1)]
    memory, work = (
        [getattr(plan, name) for plan in plans] for name in ("training_memory_bytes", "foreign_work")
    )
    assert memory == sorted(memory)
    assert memory[0] < memory[1] < memory[2]
    assert memory[3] == memory[4]
    assert work == sorted(work)
    assert work[0] == 0 < work[1] < work[2]
    one_vs_rest = plans[2].clip(1)
    assert one_vs_rest.foreign_work == 0


def test_no_level_is_visited_more_often_than_planned(tmp_path, monkeypatch):
    plan = plan_of(hard_negatives=3)
    with recorded(monkeypatch) as calls:
        train_model(DATA, plan, tmp_path / "m")
    found = [rows.size for _, (_, rows, _) in calls]
    planned = [most for part in plan.trees for most in part.visits(3)]
    assert all(n <= most for n, most in zip(found, planned, strict=True))
