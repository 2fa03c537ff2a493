"""Losses of smaller forms: exact figures, and choices that more rows make bolder and none makes worse."""

import numpy as np
import pytest

from labeltree.evaluation.losses import PairedLosses
from labeltree.evaluation.metrics import paired_gain

RANKS = np.array([1, 3, 5])
# The share of hits that each form changes; the loss is FACTOR times its square.
CHANGED = np.array([0, 0.001, 0.003, 0.006, 0.01, 0.014, 0.02, 0.03, 0.05, 0.08, 0.12, 0.2])
FACTOR = 5
NONE = np.zeros(len(CHANGED), bool)


def sample(n_rows, losses, seed=0):
    """Return the hits that rows lose, drawn so that a form has its share of changed hits and its loss."""
    rng = np.random.default_rng(seed)
    gained = (CHANGED - losses) / 2
    draw = rng.random((n_rows, 1, 1))  # the same rows change in all forms, more in the smaller ones
    is_lost = rng.random((n_rows, 1, 1)) * CHANGED[:, None] >= gained[:, None]
    one = np.where(draw < CHANGED[:, None], np.where(is_lost, 1, -1), 0)
    return (one * np.array([1, 2, 3])).astype(np.int8)  # of rank 3, two of three labels


def test_figures_are_those_of_the_rows():
    lost = sample(900, FACTOR * CHANGED**2)
    losses, rows = PairedLosses([lost[:200], lost[200:]]), lost / RANKS
    np.testing.assert_allclose(losses.mean, rows.mean(axis=0), atol=1e-12)
    one = 1 / (900 * RANKS)  # one more hit than was counted
    np.testing.assert_allclose(losses.changed, abs(rows).mean(axis=0) + one)
    _, errors = paired_gain(np.moveaxis(rows, 0, 2))
    np.testing.assert_allclose(losses.error, np.sqrt(errors**2 + one / RANKS / 900))


@pytest.mark.parametrize("budget", [0.0005, 0.001, 0.005, 0.02])
def test_more_rows_allow_smaller_models_and_fewer_rows_no_worse_ones(budget):
    truth = FACTOR * CHANGED**2
    most = np.flatnonzero(truth <= budget)[-1]
    means = []
    for n_rows in (50, 200, 1000, 5000, 40_000):
        chosen = [PairedLosses([sample(n_rows, truth, seed)]).smallest(budget, NONE) for seed in range(20)]
        assert np.mean(truth[chosen]) <= budget  # the luck of few rows does not lead to a worse model
        means.append(np.mean(chosen))
    assert means == sorted(means)
    assert min(chosen) >= most - 1


@pytest.mark.parametrize(
    ("n_rows", "losses", "harmless", "expected"),
    [
        (60_000, np.where(CHANGED < 0.1, 0, 0.5 * CHANGED), 0, 9),  # measured to lose nothing
        (600, np.where(CHANGED < 0.1, 0, 0.5 * CHANGED), 0, 6),  # too few rows to measure it: by the square
        (60_000, 0.3 * CHANGED, 0, 5),  # the rows contradict the square
        (60_000, 0 * CHANGED, 0, 11),
        (30, 0 * CHANGED, 0, 0),  # nothing is shown
        (30, 0 * CHANGED, 3, 2),  # ... but some forms are known as harmless
        (60_000, 0.9 * CHANGED, 5, 2),  # unless the rows contradict it
    ],
)
def test_what_decides(n_rows, losses, harmless, expected):
    known = np.arange(len(CHANGED)) < harmless
    chosen = PairedLosses([sample(n_rows, losses)]).smallest(0.005, known)
    assert chosen == expected
