"""Models and data files that were changed at random are refused or work; half of the models are sealed."""

from collections import Counter

import data_mutations
import numpy as np
import pytest
from forgery import write
from mutations import make_models, mutate, outcome

N_MUTATIONS = 300


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    return make_models(tmp_path_factory.mktemp("models"))


def test_unchanged_models_work(models, tmp_path):
    for name, files in models.items():
        write(files, tmp_path / name)
        assert outcome(tmp_path / name) == "opened"


@pytest.mark.parametrize("part", range(4))
def test_changed_models_are_refused_or_work(models, tmp_path, part):
    counts = Counter()
    for number in range(part, N_MUTATIONS, 4):
        rng = np.random.default_rng([0, number])
        name = sorted(models)[number // 2 % len(models)]
        files, note = mutate(models[name], rng, sealed=number % 8 < 4)
        write(files, tmp_path / "model")
        try:
            counts[outcome(tmp_path / "model", verify=None if rng.random() < 0.8 else False)] += 1
        except Exception as error:
            raise AssertionError(f"mutation {number} of {name}: {note}") from error
    assert counts["refused"] > 3 * counts["opened"]


def test_changed_data_files_are_refused_or_read(tmp_path):
    counts = Counter()
    for number in range(N_MUTATIONS):
        name, content, note = data_mutations.mutate(np.random.default_rng([0, number]))
        (tmp_path / name).write_bytes(content)
        try:
            counts[data_mutations.outcome(tmp_path / name)] += 1
        except Exception as error:
            raise AssertionError(f"mutation {number} of {name}: {note}") from error
    assert min(counts.values()) > N_MUTATIONS / 10
