"""The beam search kernel against its NumPy twin."""

import numpy as np
import pytest
from beam_twin import (
    CUBED,
    SIGMOID,
    SQUARED,
    TINY,
    assert_agrees,
    assert_equals_exact_twin,
    csr,
    is_in_doubt,
    kernel_arguments,
    make_model,
    make_rows,
    one_node,
    search,
    tree_blocks,
    twin,
)
from helpers import ctrl_c, examples, run_portable
from hypothesis import example, given
from hypothesis import strategies as st

from labeltree._native import SCORES, BeamSearch

seeds = st.integers(0, 2**32 - 1)


@examples(150)
@given(
    seed=seeds,
    beam=st.integers(1, 12),
    top=st.sampled_from([1, 3, 5, 50]),
    score=st.sampled_from([SQUARED, CUBED]),
    count=st.sampled_from([4, 12]),
)
def test_equals_twin_to_the_last_tie(seed, beam, top, score, count):
    model = make_model(seed, grid=True)
    rows = make_rows(seed, model, count, grid=True)
    got = search(model, rows, beam=beam, top=top, score=score)
    assert_equals_exact_twin(model, rows, got, beam, top, score)


# Two nodes tie at the edge of the beam: in float32 the other one ranks first.
TIE = {"seed": 10610310, "beam": 2, "score": SIGMOID, "n_trees": 1, "count": 4}


@examples(200)
@example(top=5, scale=3, path_weight=1, **TIE)
@given(
    seed=seeds,
    beam=st.integers(1, 12) | st.just(1000),
    top=st.sampled_from([1, 5, 200]),
    score=st.sampled_from([SIGMOID, SQUARED, CUBED]),
    scale=st.sampled_from([0.25, 1, 3, 7.3, 100]),
    path_weight=st.sampled_from([1, 0.75, 0.25]),
    n_trees=st.integers(1, 3),
    count=st.sampled_from([4, 12]),
)
def test_equals_twin(seed, beam, top, score, scale, path_weight, n_trees, count):
    model = make_model(seed, n_trees=n_trees)
    rows = make_rows(seed, model, count)
    got = search(model, rows, beam=beam, top=top, score=score, scale=scale, path_weight=path_weight)
    if (beam, top) == (1000, 200):
        assert np.all(np.sort(got[0], axis=1)[:, -model[2] :] == np.arange(model[2]))
    found = twin(model, rows, None if beam == 1000 else beam, score, scale, path_weight=path_weight)
    assert_agrees(got, found, top, n_trees)


def doubts(seed, beam, score, n_trees, count):
    """For each row, whether rounding decides which labels it reaches."""
    model = make_model(seed, n_trees=n_trees)
    return [is_in_doubt(found) for found in twin(model, make_rows(seed, model, count), beam, score)]


def test_rounding_rarely_decides():
    """Otherwise the comparison with the twin would say little."""
    seen = [
        doubt
        for seed in range(60)
        for doubt in doubts(seed, 1 + seed % 12, SCORES[seed % 3], n_trees=1 + seed % 2, count=12)
    ]
    assert np.mean(seen) < 0.005
    assert any(doubts(**TIE))


@examples(30)
@given(
    seed=seeds,
    score=st.sampled_from([SIGMOID, SQUARED, CUBED]),
    path_weight=st.sampled_from([1, 0.5]),
    n_trees=st.integers(1, 2),
)
def test_neither_threads_nor_batches_change_a_bit(seed, score, path_weight, n_trees):
    model = make_model(seed, n_trees=n_trees, n_labels=120)
    rows = make_rows(seed, model, 3000)
    same = {"beam": 4, "score": score, "path_weight": path_weight}
    one, three = (search(model, rows, threads=threads, **same) for threads in (1, 3))
    alone = [search(model, rows[i : i + 1], **same) for i in range(0, 3000, 50)]
    for k in range(2):
        assert one[k].tobytes() == three[k].tobytes()
        assert one[k][::50].tobytes() == np.concatenate([a[k] for a in alone]).tobytes()


@pytest.mark.parametrize("n_labels", [103, 104, 105, 112, 113, 208, 209, 1000])
def test_one_vs_rest_in_several_tiles(n_labels):
    model = make_model(n_labels, n_labels=n_labels, depth=1, grid=True)
    rows = make_rows(1, model, 20, grid=True)
    got = search(model, rows, top=300, score=CUBED)
    assert_equals_exact_twin(model, rows, got, 10, 300, CUBED)


# Used features of a node, and all there are: nodes with cells and without, lists of fewer than eight or more.
LISTS = [(1, 0), (7, 100), (40, 100), (1, 5000), (7, 5000), (8, 5000), (9, 5000), (100, 5000), (200, 5000)]


def wide_node(count, n_features):
    """A root over nine labels that knows `count` features, the bias among them, more of the lower ones."""
    rng = np.random.default_rng(count)
    weights = 1 / (1 + np.arange(n_features))
    known = rng.choice(n_features, count - 1, replace=False, p=weights / weights.sum()) if n_features else []
    tree = one_node(rng.integers(-3, 4, (count, 9)) / 4, np.append(np.sort(known), n_features))
    return [tree], n_features, 9, 0.5


def dense_rows(n_features):
    rng = np.random.default_rng(n_features)
    every = np.arange(n_features, dtype=np.int32)
    return [(every, (rng.integers(-2, 3, n_features) / 8).astype(np.float32)) for _ in range(9)]


@pytest.mark.parametrize(("count", "n_features"), LISTS)
def test_finds_every_feature_that_a_node_knows(count, n_features):
    model, rows = wide_node(count, n_features), dense_rows(n_features)
    got = search(model, rows, top=9, score=SQUARED)
    assert_equals_exact_twin(model, rows, got, 10, 9, SQUARED)


def tiny_model(weights):
    """A root over labels, each with one weight for the only feature."""
    return [one_node(np.array([weights]))], 1, len(weights), 0.0


ONE = (np.zeros(1, np.int32), np.ones(1, np.float32))


def test_margins_order_saturated_scores():
    labels, scores = search(tiny_model([20, 50, 30, 50, -400, -300]), [ONE], top=6)
    assert labels.tolist() == [[1, 3, 2, 0, 5, 4]]
    assert scores[0, :4].tolist() == [1, 1, 1, 1]
    assert scores[0, 4:].tolist() == [TINY, TINY]


@pytest.mark.parametrize("low", [-0.077346288, -0.054399814, -0.030916058, -0.00085721270])
def test_margins_a_bit_apart_do_not_depend_on_the_order_of_visits(low):
    """Of log g by a difference, the higher of these two had the lower value."""
    low = np.float32(low)
    high = np.nextafter(low, np.float32(1))
    tree = (
        np.array([0, 2, 3, 5]),
        np.array([1, 2, ~2, ~0, ~1], np.int32),
        np.arange(4),
        np.zeros(3, np.int32),
        np.array([0, 2, 3, 5]),
        np.array([50, 60, low, high, low], np.float32),
    )
    labels, _ = search(([tree], 1, 3, 0.0), [ONE] * 12, top=1)
    alone, _ = search(([tree], 1, 3, 0.0), [ONE], top=1)
    assert labels.tolist() == [[0]] * 12
    assert alone.tolist() == [[0]]


def test_weights_that_are_not_numbers_rank_last():
    labels, scores = search(tiny_model([np.nan, 0, np.inf, 1, -np.inf, 0, 0, 0, 0, 2]), [ONE], top=4)
    assert labels.tolist() == [[2, 9, 3, 1]]
    assert np.all(np.isfinite(scores))


def test_unknown_features_are_ignored():
    model = make_model(3, n_labels=20, bias=1.0)
    rows = make_rows(3, model, 50)
    known = [(i[i < model[1]], v[i < model[1]]) for i, v in rows]
    far = [(np.append(i, np.int32(2**31 - 1)), np.append(v, np.float32(9))) for i, v in known]
    for other in (known, far):
        for a, b in zip(search(model, rows), search(model, other), strict=True):
            assert a.tobytes() == b.tobytes()


def test_more_threads_than_rows():
    model = tiny_model(np.arange(100_000))
    labels, _ = search(model, [ONE] * 200, top=2, threads=2**31 - 1)
    assert labels.tolist() == [[99_999, 99_998]] * 200


def test_an_interrupt_stops_the_search():
    """The search would take minutes, so a signal sent while it runs always comes in time."""
    model = make_model(2, n_labels=20_000, depth=1, bias=1.0)
    indptr, indices, data = csr(make_rows(2, model, 100))
    steps = np.tile(np.diff(indptr), 20_000)
    queries = np.append(0, np.cumsum(steps)), np.tile(indices, 20_000), np.tile(data, 20_000)
    kernel = BeamSearch(*kernel_arguments(model))
    with ctrl_c() as send:
        send()
        with pytest.raises(KeyboardInterrupt):
            kernel.search(*queries, 10, 1, SIGMOID, 3, 1, 1)


def searches():
    """Search models of every kind; return the model, the rows, the score and what is found."""
    for seed in range(30):
        for grid in (False, True):
            model, score = make_model(seed, n_trees=1 + seed % 2, grid=grid), SCORES[seed % 3]
            rows = make_rows(seed, model, 20, grid=grid)
            yield model, rows, score, grid, search(model, rows, beam=5, score=score)


PORTABLE = """
import sys
import numpy as np
from test_beam_search import searches
np.savez(sys.argv[1], *(array for *_, found in searches() for array in found))
"""


def test_portable_instructions_agree(tmp_path):
    """A process chooses its instructions once, so the portable ones need a process of their own."""
    run_portable(PORTABLE, tmp_path / "portable.npz")
    with np.load(tmp_path / "portable.npz") as file:
        portable = iter([file[name] for name in file.files])
    for model, rows, score, grid, (labels, scores) in searches():
        got = next(portable), next(portable)
        assert_agrees(got, twin(model, rows, 5, score), 5, len(model[0]))
        if grid and score != SIGMOID:  # no margin rounds
            assert np.array_equal(got[0], labels)
            np.testing.assert_allclose(got[1], scores, rtol=1e-5)


def corrupt(position, change):
    trees, *rest = make_model(11, n_labels=20, bias=1.0, depth=3)
    arrays = [np.array(array) for array in trees[0]]
    assert len(arrays[0]) > 3
    arrays[position] = change(arrays[position])
    return [tuple(arrays)], *rest


def put(index, value):
    def change(array):
        array[index] = value
        return array

    return change


def put_first(is_leaf, value):
    def change(children):
        children[np.flatnonzero((children < 0) == is_leaf)[0]] = value
        return children

    return change


@pytest.mark.parametrize(
    ("position", "change", "message"),
    [
        (0, put(0, 1), "start at 0"),
        (0, put(1, -1), "must not decrease"),
        (0, lambda a: a[:1], "a root"),
        (0, lambda a: a[:0], "a root"),
        (0, lambda a: a[:-1], "child_ptr must end"),
        (1, lambda a: a[:-1], "child_ptr must end"),
        (1, put_first(True, ~20), "out of range"),
        (1, put_first(True, -(2**31)), "out of range"),
        (1, put_first(False, 10**6), "out of range"),
        (1, put_first(False, 0), "after their parent"),
        (1, lambda a: np.where(a < 0, ~np.int32(3), a), "twice"),
        (1, lambda a: np.where(a >= 0, np.int32(a.max()), a), "after their parent|twice"),
        (2, lambda a: a[:-1], "feature_ptr"),
        (2, put(-1, 10**6), "feature_ptr"),
        (3, lambda a: a[:-1], "feature_ptr must end"),
        (4, lambda a: a[:-1], "weight_ptr"),
        (4, put(1, 0), "weight_ptr must step"),
        (5, lambda a: a[:-1], "weight_ptr must end"),
    ],
)
def test_refuses_arrays_that_do_not_fit(position, change, message):
    BeamSearch(*kernel_arguments(corrupt(0, lambda a: a)))
    with pytest.raises(ValueError, match=message):
        BeamSearch(*kernel_arguments(corrupt(position, change)))


@pytest.mark.parametrize(
    "damage",
    [
        lambda a: a[::-1],
        lambda a: np.full_like(a, a[-1]),
        lambda a: np.append(a[:1], a[:-1]),
        lambda a: np.append(a[:-1], 2**31 - 1),
        lambda a: np.append(-5, a[1:]),
        lambda a: np.append(a[:-1], len(a) - 1),  # ends as 0, 1, 2, ... would
        lambda a: a + 2**30,
    ],
)
@pytest.mark.parametrize(("count", "n_features"), LISTS)
def test_survives_a_damaged_feature_list(damage, count, n_features):
    model = wide_node(count, n_features)
    arrays = list(model[0][0])
    arrays[3] = np.ascontiguousarray(damage(arrays[3]), np.int32)
    model = ([tuple(arrays)], *model[1:])
    rows = dense_rows(n_features)
    labels, scores = search(model, rows, top=9)
    assert np.all(np.sort(labels) == np.arange(9))
    alone = search(model, rows[:1], top=9)
    assert labels[0].tobytes() == alone[0].tobytes()
    assert scores[0].tobytes() == alone[1].tobytes()


def test_refuses_wrong_types():
    model = make_model(0)
    arrays, (trees, *rest) = model[0][0], kernel_arguments(model)
    with pytest.raises(TypeError):
        tree_blocks(arrays, weights=arrays[-1])
    with pytest.raises(TypeError):
        BeamSearch([arrays], *rest)
    with pytest.raises(ValueError, match="codec"):
        tree_blocks(arrays, "float64")
    with pytest.raises(ValueError, match="features has the wrong type"):
        tree_blocks(arrays, "sparse")
    with pytest.raises(ValueError, match="at least one tree"):
        BeamSearch([], *rest)
    with pytest.raises(ValueError, match="n_labels"):
        BeamSearch(trees, rest[0], 0, rest[2])
    with pytest.raises(ValueError, match="children must be every node"):
        BeamSearch(trees, rest[0], rest[1] + 1, rest[2])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"indptr": np.array([0, 2])}, "indptr must end"),
        ({"indptr": np.array([], np.int64)}, "start at 0"),
        ({"indices": np.array([-1], np.int32)}, "out of range"),
        ({"data": np.ones(2, np.float32)}, "as many entries"),
        ({"beam": 0}, "beam"),
        ({"top": 0}, "top"),
        ({"score": "cubic"}, "score must be one of sigmoid, hinge2, hinge3"),
        ({"scale": 0.0}, "scale must be positive"),
        ({"scale": float("inf")}, "scale must be positive"),
        ({"scale": float("nan")}, "scale must be positive"),
        ({"path_weight": 0.0}, "path_weight must be above 0"),
        ({"path_weight": 1.5}, "path_weight must be above 0"),
        ({"threads": 0}, "threads"),
    ],
)
def test_refuses_bad_queries(arguments, message):
    good = dict(zip(("indptr", "indices", "data"), csr([ONE]), strict=True))
    good |= {"beam": 10, "top": 5, "score": SIGMOID, "scale": 3.0, "path_weight": 1.0, "threads": 1}
    with pytest.raises(ValueError, match=message):
        BeamSearch(*kernel_arguments(tiny_model([1.0, 2.0]))).search(**good | arguments)
