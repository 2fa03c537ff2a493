"""Explanations add up to what is predicted; labels, shapes and words agree with the model's blocks."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from beam_twin import EPSILON, TINY, log_g, log_g_error
from helpers import disk_bytes, examples, node_labels, random_data, train_small
from hypothesis import given
from hypothesis import strategies as st

from labeltree import InputError, SolverSettings, load
from labeltree._native import SCORES
from labeltree.explain.label import describe_label, feature_name, find_label, path_to
from labeltree.explain.overview import tree_shape
from labeltree.explain.prediction import explain_prediction
from labeltree.model.model import Model

EVERY = 1000  # words: more than there are


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Small models of one tree and of three, whose nodes use some of the features only; one, compact."""
    place = tmp_path_factory.mktemp("models")
    data = random_data(5, instances=150, features=120, labels=30, density=0.01, names=True)
    made = {trees: train_small(place / f"m{trees}", data, trees=trees) for trees in (1, 3)}
    assert np.median(np.diff(made[1].trees[0].feature_ptr)) < 80
    for codec, options in (("int8", {"weights": "int8"}), ("sparse", {"prune": 0.01})):
        made[codec] = made[1].compress(place / codec, **options)
    return made


def random_row(seed, features):
    rng = np.random.default_rng(seed)
    row = rng.normal(size=features) * (rng.random(features) < rng.choice([0.0, 0.1, 0.5, 1.0]))
    return row.astype(np.float32)


def dense_margin(model, tree, node, column, row):
    """The margin of a child, from the whole block."""
    features, block = model.block(node, tree)
    x = np.append(row[: model.n_features], model.bias).astype(np.float64)
    return x[features] @ block[:, column].astype(np.float64)


def g(score, margin, scale):
    if score == "sigmoid":
        return 1 / (1 + np.exp(-scale * margin))
    return np.exp(-(max(0, 1 - margin) ** int(score[-1])))


def float32_error(model, path, label, row, score, scale):
    """Bound the relative error of the search, which computes in float32; explanations use float64."""
    off, total = 1e-5, 0.0
    x = np.abs(np.append(row, model.bias))
    for step, (node, column) in zip(path.steps, path_to(model.trees[path.tree].tree, label), strict=True):
        features, block = model.block(node, path.tree)
        rounded = EPSILON * np.count_nonzero(x[features]) * (x[features] @ np.abs(block[:, column]))
        total -= log_g(score, step.margin, scale)
        off += log_g_error(score, step.margin, rounded, scale) + EPSILON * total
    return off


# Properties of any explanation


@given(
    seed=st.integers(0, 10**6),
    trees=st.sampled_from([1, 3]),
    beam=st.sampled_from([1, 2, 5, 100]),
    score=st.sampled_from(SCORES),
    scale=st.sampled_from([0.5, 3, 7.3]),
)
@examples(60)
def test_scores_multiply_to_what_is_predicted(models, seed, trees, beam, score, scale):
    model = models[trees]
    row = random_row(seed, model.n_features)
    labels, scores = model.predict(row[None], top=7, beam=beam, score=score, score_scale=scale)
    found = explain_prediction(model, row, top=7, beam=beam, score=score, score_scale=scale)
    assert [e.label for e in found] == [label for label in labels[0].tolist() if label >= 0]
    assert [e.score for e in found] == [s for s in scores[0].tolist() if s > 0]
    assert [e.name for e in found] == [f"näme {e.label}" for e in found]
    for explanation in found:
        assert [path.tree for path in explanation.paths] == list(range(trees))
        assert any(path.reached for path in explanation.paths)
        for path in explanation.paths:
            factors = [g(score, step.margin, scale) for step in path.steps]
            np.testing.assert_allclose([step.factor for step in path.steps], factors, rtol=1e-9)
            np.testing.assert_allclose([s.score for s in path.steps], np.cumprod(factors), rtol=1e-9)
            assert path.score == path.steps[-1].score
        reached = [path for path in explanation.paths if path.reached]
        mean = sum(max(TINY, path.score) for path in reached) / trees
        off = max(float32_error(model, path, explanation.label, row, score, scale) for path in reached)
        assert explanation.score == pytest.approx(mean, rel=off, abs=0)


@given(which=st.sampled_from([1, "int8", "sparse"]), seed=st.integers(0, 10**6), words=st.integers(0, 6))
@examples(80)
def test_words_bias_and_rest_add_up_to_the_margin(models, which, seed, words):
    model = models[which]
    row = random_row(seed, model.n_features)
    for whole, part in zip(
        explain_prediction(model, row, top=3, words=EVERY),
        explain_prediction(model, row, top=3, words=words),
        strict=True,
    ):
        for full, step in zip(whole.paths[0].steps, part.paths[0].steps, strict=True):
            column = path_to(model.trees[0].tree, whole.label)[step.depth][1]
            assert step.margin == pytest.approx(dense_margin(model, 0, step.node, column, row), abs=1e-9)
            every = full.supporting + full.opposing
            assert (full.others, full.rest) == (0, 0.0)
            assert sum(w.product for w in every) + full.bias == pytest.approx(full.margin, abs=1e-9)
            assert len({w.feature for w in every}) == len(every)
            for word in every:
                assert word.product == word.value * word.weight
                assert word.value == row[word.feature]
            named = step.supporting + step.opposing
            assert step.supporting == full.supporting[:words]
            assert step.opposing == full.opposing[:words]
            assert step.others == len(every) - len(named)
            total = sum(w.product for w in named) + step.bias + step.rest
            assert total == pytest.approx(step.margin, abs=1e-9)
            assert [w.product for w in full.supporting] == sorted(w.product for w in full.supporting)[::-1]
            assert [w.product for w in full.opposing] == sorted(w.product for w in full.opposing)
            assert all(w.product > 0 for w in full.supporting)
            assert all(w.product < 0 for w in full.opposing)


def test_a_tree_that_did_not_reach_a_label_counts_0(models):
    model = models[3]
    unreached = []
    for seed in range(60):
        found = explain_prediction(model, random_row(seed, model.n_features), top=10, beam=1)
        unreached += [path for e in found for path in e.paths if not path.reached]
    assert unreached  # a beam of one misses some
    assert all(path.score > 0 for path in unreached)  # what the score would have been


def test_children_are_described_by_their_labels(models):
    model = models[1]
    tree = model.trees[0].tree
    seen = 0
    for explanation in explain_prediction(model, random_row(3, model.n_features), top=30, beam=100):
        *inner, last = explanation.paths[0].steps
        assert (last.child.node, last.child.labels, last.child.frequent) == (None, 1, (explanation.name,))
        for step in inner:
            below = node_labels(tree, step.child.node)
            assert explanation.label in below
            assert step.child.labels == len(below)
            often = sorted(below, key=lambda j: (-model.label_counts[j], j))[:3]
            assert step.child.frequent == tuple(f"näme {j}" for j in often)
            seen += 1
    assert seen > 10


def test_only_rows_of_the_features_are_read(models):
    model = models[1]
    row = random_row(11, model.n_features)
    part = model.trees[0]
    weights = np.array(part.weights)
    for node in range(part.tree.n_nodes):
        features, _ = model.block(node)
        block = weights[part.weight_ptr[node] : part.weight_ptr[node + 1]].reshape(features.size, -1)
        block[~np.isin(features, [*np.flatnonzero(row), model.n_features])] = np.nan
    assert np.isnan(weights).any()
    spoiled = Model(
        model.path, model.manifest, (replace(part, weights=weights),), model.label_counts, model.label_names
    )
    assert explain_prediction(spoiled, row) == explain_prediction(model, row)


def test_unknown_features_are_ignored_with_a_warning(models):
    model = models[1]
    row = random_row(2, model.n_features)
    with pytest.warns(UserWarning, match="the additional ones are ignored"):
        assert explain_prediction(model, np.append(row, 9.0)) == explain_prediction(model, row)


@pytest.mark.parametrize("trees", [1, 3])
def test_given_labels_are_explained_as_predicted_ones(models, trees):
    model = models[trees]
    row = random_row(4, model.n_features)
    predicted = explain_prediction(model, row, top=30, beam=2)
    others = sorted(set(range(30)) - {explanation.label for explanation in predicted})
    assert others
    labels = [explanation.label for explanation in predicted] + others
    found = explain_prediction(model, row, labels=labels, beam=2)
    for one, other in zip(predicted, found, strict=False):
        assert (one.label, one.paths) == (other.label, other.paths)
        assert one.score == pytest.approx(other.score, rel=1e-4)
    for other in found[len(predicted) :]:
        assert other.score == 0
        assert not any(path.reached for path in other.paths)


def test_without_a_bias(tmp_path):
    model = train_small(tmp_path / "m", settings=SolverSettings(bias=0))
    best = explain_prediction(model, random_row(5, model.n_features))[0]
    assert all(step.bias == 0 for step in best.paths[0].steps)
    assert all(step.bias == 0 for step in describe_label(model, best.label).paths[0])


# Names and errors


def test_names_of_features(models):
    model = load(models[1].path)
    assert feature_name(model, 4) == "4"
    model.one_based = True
    assert feature_name(model, 4) == "5"
    words = [f"word{f}" for f in range(model.n_features)]
    row = random_row(1, model.n_features)
    model.text = SimpleNamespace(names=words, transform=lambda texts: np.array([row for _ in texts]))
    assert feature_name(model, 4) == "word4"
    assert explain_prediction(model, "any text") == explain_prediction(model, row)
    step = explain_prediction(model, "any text")[0].paths[0].steps[0]
    assert all(word.name == f"word{word.feature}" for word in step.supporting)


@pytest.mark.parametrize(
    ("explain", "message"),
    [
        (lambda m: explain_prediction(m, np.zeros((2, m.n_features))), "expected 1 row, got 2"),
        (
            lambda m: explain_prediction(m, np.zeros(m.n_features), words=-1),
            "words is -1, expected an integer",
        ),
        (lambda m: explain_prediction(m, np.zeros(m.n_features), top=0), "top is 0"),
        (lambda m: explain_prediction(m, np.zeros(m.n_features), labels=[30]), "label is 30, expected"),
        (lambda m: explain_prediction(m, "a text"), "not trained on text"),
        (lambda m: describe_label(m, 30), "label is 30, expected the name of a label or an int"),
        (lambda m: describe_label(m, None), "label is None, expected the name of a label or an integer"),
        (lambda m: describe_label(m, ["a"]), r"label is \['a'\], expected the name of a label or an integer"),
        (lambda m: describe_label(m, "näme 30"), "no label 'näme 30' among the 30 labels; did you mean"),
        (lambda m: explain_prediction(m, np.zeros(m.n_features), labels=["x"]), "no label 'x' among"),
        (
            lambda m: explain_prediction(m, np.zeros(m.n_features), labels="näme 1"),
            "labels is 'näme 1', expected a list of names or numbers",
        ),
        (lambda m: explain_prediction(m, {"a text"}), "the row is of type set, expected feature values"),
        (lambda m: explain_prediction(m, None), "the row is of type NoneType, expected feature values"),
        (lambda m: explain_prediction(m, ["a text"]), "the row is of type list, expected feature values"),
        (lambda m: describe_label(m, 3, siblings=-1), "siblings is -1"),
        (lambda m: find_label(m, "Näme 1"), r"did you mean 'näme 1', 'näme 10' or 'näme 11'\?"),
        (lambda m: find_label(m, "unheard of"), "check the spelling"),
        (lambda m: find_label(m, "9" * 5000), r"no label '9{100}'\.\.\. among"),
    ],
)
def test_errors(models, explain, message):
    with pytest.raises(InputError, match=message):
        explain(models[1])


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("man old", "did you mean 'man, old'?"),
        ("Old Man", "did you mean 'man, old'?"),
        ("Venize", "did you mean 'Venice'?"),
        ("men", "did you mean 'women (general)'?"),
        ("+", "check the spelling"),
        ("man, olds", "did you mean 'man, old'?"),
    ],
)
def test_a_label_is_suggested_by_its_words_or_a_similar_name(models, name, meant):
    model = load(models[1].path)
    names = ["man, old", "Venice", "women (general)", *map(str, range(27))]
    model.label_names = tuple(names)
    with pytest.raises(InputError) as refused:
        describe_label(model, name)
    assert str(refused.value).endswith(meant)
    assert describe_label(model, "man, old") == describe_label(model, 0)
    row = random_row(1, model.n_features)
    by_name = explain_prediction(model, row, labels=["Venice", 0])
    assert by_name == explain_prediction(model, row, labels=[1, 0])


# A label, and the shape of the trees


def test_a_label_in_the_model(models):
    for model in models.values():
        for label in (0, 7, 29):
            profile = describe_label(model, label, words=4, siblings=3)
            assert (profile.name, profile.instances) == (f"näme {label}", model.label_counts[label])
            for t, path in enumerate(profile.paths):
                tree = model.trees[t].tree
                steps = path_to(tree, label)
                below = tree.children[[tree.child_ptr[node] + column for node, column in steps]]
                assert [*below] == [*(node for node, _ in steps[1:]), ~label]
                assert [step.depth for step in path] == list(range(len(steps)))
                for step, (node, column) in zip(path, steps, strict=True):
                    features, block = model.block(node, t)
                    weight = dict(zip(features[:-1].tolist(), block[:-1, column].tolist(), strict=True))
                    assert step.bias == block[-1, column]
                    strongest = sorted((w for w in weight.values() if w > 0), reverse=True)[:4]
                    assert [word.weight for word in step.supporting] == strongest
                    weakest = sorted(w for w in weight.values() if w < 0)[:4]
                    assert [word.weight for word in step.opposing] == weakest
                    for word in step.supporting + step.opposing:
                        assert weight[word.feature] == word.weight
                    assert step.siblings == tree.child_count[node] - 1
                siblings = {int(~c) for c in tree.children[tree.child_ptr[node] : tree.child_ptr[node + 1]]}
                often = sorted((j for j in siblings if j >= 0), key=lambda j: (-model.label_counts[j], j))
                often.remove(label)
                assert path[-1].sibling_labels == tuple(f"näme {j}" for j in often[:3])


def test_the_shape_adds_up_to_the_model_size(models):
    for model in (models[1], models[3]):
        inside = 0
        for t, part in enumerate(model.trees):
            shape = tree_shape(model, t)
            assert sum(row["labels"] for row in shape) == model.n_labels
            assert sum(row["label_instances"] for row in shape) == model.label_counts.sum()
            assert sum(row["weights"] for row in shape) == sum(
                model.block(u, t)[1][:-1].size for u in range(part.tree.n_nodes)
            )
            for label in range(model.n_labels):
                depth = len(path_to(part.tree, label)) - 1
                shape[depth]["labels"] -= 1
                shape[depth]["label_instances"] -= model.label_counts[label]
            assert all(row["labels"] == row["label_instances"] == 0 for row in shape)
            inside += sum(row["bytes"] for row in shape) + 6 * 128 + 2 * 8
        counts = 128 + 8 * model.n_labels
        names = (model.path / "label_names.json").stat().st_size
        assert inside + counts + names == model.bytes == disk_bytes(model.path)
