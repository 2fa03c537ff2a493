"""What a search tries and chooses: candidates, forms, score functions, the order of the trials."""

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from helpers import make_data, train_small

from labeltree.base.progress import Stages
from labeltree.evaluation.row_metrics import RowMetric
from labeltree.model.frontier import first_trees
from labeltree.model.labeled import Validation
from labeltree.training.score import CANDIDATES
from labeltree.tuning import search as search_module
from labeltree.tuning.candidate import Candidate
from labeltree.tuning.forms import Forms, Target
from labeltree.tuning.journal import TrialJournal
from labeltree.tuning.live_table import LiveTable
from labeltree.tuning.result import choose, final_settings, frontier
from labeltree.tuning.search import Goal, OutOfTime, Search
from labeltree.tuning.settings_file import KEYS
from labeltree.tuning.trial import Point, Trial, _Judge


@pytest.fixture(scope="module")
def data():
    return make_data(400)


def test_sizes_of_forms_are_those_of_models(data, tmp_path):
    model = train_small(tmp_path / "m", data, trees=2)
    forms = Forms.of(model, Target("P@1", None, growth=3.0), 1)
    least = forms.n_bytes.min(axis=1)
    for number, storage in forms.chosen()[1:]:
        weights = storage.weights if storage.prune is None else None
        copy = model.compress(tmp_path / "copy", weights=weights, prune=storage.prune, overwrite=True)
        found = [first_trees(copy, trees).bytes for trees in (1, 2)]
        assert forms.n_bytes[:, number].tolist() == found
        final = [forms.final_bytes(number, trees) for trees in (1, 2)]
        assert final == (least + 3 * (found - least)).tolist()


def test_screening_leaves_room_for_other_trees_if_there_is_any(data, tmp_path):
    model = train_small(tmp_path / "m", data, trees=1)
    one_tree = Forms.of(model, Target("P@1", None), 1)
    sizes, other, least = one_tree.n_bytes[0], one_tree.other_bytes, int(one_tree.n_bytes.min())
    for max_size, expected in [
        (least + (least - other), least + (least - other)),  # two trees would have no weights
        (8 * least, other + (8 * least - other) / 2),
    ]:
        forms = replace(one_tree, target=Target("P@1", max_size, 1.0, 2))
        ((number, _),) = forms.chosen()
        assert sizes[number] == max(size for size in sizes if size <= expected)
        assert sizes[number] > least


def test_the_table_tells_trees_of_the_best_from_trained_ones(capsys):
    table = LiveTable("P@1", False, Stages(quiet=True))
    candidate = Candidate(cost=1.0)
    table.report(Trial(candidate, 1.0, 3, (point(10, 50.0, trees=2), point(20, 40.0, trees=3))))
    table.report(Trial(candidate, 1.0, 3, (point(10, 40.0, trees=2), point(20, 50.0, trees=3))))
    table.report(Trial(replace(candidate, clusters=8), 1.0, 2, skipped="too large"))
    _, *lines = capsys.readouterr().err.splitlines()
    assert "100%  2 of 3       int8" in lines[0]
    assert "100%       3       int8" in lines[1]
    assert "100%       2          -" in lines[2]
    assert lines[2].endswith("clusters 8  (too large)")


def point(final_bytes, value, error=1.0, **other):
    found = {"trees": 1, "weights": "int8", "threshold": 0.1, "score": "hinge2", "score_scale": 3.0, **other}
    return Point(
        model_bytes=final_bytes, final_bytes=final_bytes, metrics={"P@1": value}, error=error, **found
    )


def test_the_best_that_fits_or_the_smallest_that_is_as_good_is_chosen():
    points = (point(10, 50.0), point(20, 59.9), point(30, 60.0), point(25, 58.0), point(40, 59.0))
    trials = [
        Trial(Candidate(cost=1.0), 1.0, 1, points),
        Trial(Candidate(cost=1.0), 0.5, 1, (point(1, 99.0),)),
    ]
    assert [each.final_bytes for _, each in frontier(trials, "P@1")] == [10, 20, 30]
    assert choose(trials, "P@1", None)[1].final_bytes == 20
    assert choose(trials, "P@1", 50)[1].final_bytes == 30


def test_final_settings():
    candidate = Candidate(clusters=32, cost=2.0)
    found = final_settings(candidate, point(1000, 1.0, trees=3), 5, 1020, None)
    assert found == {
        "clusters": 32,
        "max_depth": 6,
        "trees": 3,
        "seed": 5,
        "cost": 2.0,
        "max_cost": 2.0,
        "positive_cost": 1.0,
        "score": "hinge2",
        "max_size": 1020,
    }
    found = final_settings(candidate, point(1000, 1.0), 5, None, None)
    assert found["prune"] == 0.1
    assert "weights" not in found
    assert set(found) <= set(KEYS)


def test_candidates():
    start = Candidate(cost=1.0)
    changed = list(start.single_changes(1000, 3))
    assert all(len(other.changes(start)) == 1 for other in changed)
    assert Candidate(cost=1.0, max_depth=2) in changed
    assert not any(other.max_depth < 6 for other in start.single_changes(1000, 2))
    assert all(other.clusters < 50 for other in start.single_changes(50, 2) if other.clusters != 100)
    both = start.combined(Candidate(cost=2.0), Candidate(cost=0.5, clusters=32))
    assert both == Candidate(cost=2.0, clusters=32)
    assert both.added(Candidate(cost=0.5, max_depth=2), start) == replace(both, max_depth=2)
    assert set(both.further(start)) >= {Candidate(cost=4.0, clusters=32), Candidate(cost=2.0, clusters=16)}
    assert Candidate.from_dict(
        json.loads(json.dumps(Candidate(cost=1.0, ngrams=(1, 2), min_df=2).to_dict()))
    ) == Candidate(cost=1.0, ngrams=(1, 2), min_df=2)


def test_candidates_between_two_steps_are_new_and_allowed():
    start = candidate = Candidate(cost=0.01)
    seen = {0.01}
    for _ in range(12):
        candidate = replace(candidate, cost=candidate.cost / 2)
        between = {other.cost for other in candidate.further(start)} - {candidate.cost / 2}
        assert all(candidate.cost < cost < start.cost for cost in between)
        assert not between & seen
        seen |= between


@pytest.mark.parametrize(("hits", "chosen"), [(70, 1), (52, 0), (50, 0)])
def test_another_score_must_be_clearly_better(hits, chosen, data, tmp_path, monkeypatch):
    """Of 100 rows, the default has 50 hits and another function has more; 2 more are within two errors."""
    model = train_small(tmp_path / "m", data, trees=1)
    judge = _Judge(model, Validation.of(make_data(90, seed=1), model), "P@1", 1)
    rows = {score: np.repeat([100.0, 0.0], [50, 50]) for score in CANDIDATES}
    rows[CANDIDATES[1]] = np.repeat([100.0, 0.0], [hits, 100 - hits])
    found = {score: {"P@1": RowMetric(values / 100, np.ones(100))} for score, values in rows.items()}
    monkeypatch.setattr(judge, "measure", lambda part, score: found[score])
    assert judge.best_score(model) == CANDIDATES[chosen]


class StubbedSearch(Search):
    """A search whose trials only have the value that a function gives their candidate."""

    def __init__(self, value, directory, most_trials=100, n_rows=100_000):
        start = Candidate(cost=1.0)
        bench = SimpleNamespace(
            start=start,
            data=lambda candidate: [SimpleNamespace(n_instances=n_rows)],
            sample=lambda candidate, share: SimpleNamespace(n_labels=1000),
            plan=lambda candidate, share, trees: (None, SimpleNamespace(depth=3)),
        )
        journal = TrialJournal(directory, {}, resume=False)
        super().__init__(bench, journal, Goal("P@1", None, None), directory, 0.0, None, lambda trial: None)
        self._value_of, self._most, self.start = value, most_trials, start

    def _run_trial(self, candidate, share, trees, in_time):
        if share < 1 and len(self._journal.trials) >= self._most:
            raise OutOfTime
        found = point(10, self._value_of(candidate.changes(self.start)), trees=1)
        return Trial(candidate, share, trees, (found,), rows=10)

    def changes(self, share):
        """Return what the candidates of the trials on a share of the rows change, in their order."""
        return [each.candidate.changes(self.start) for each in self._journal.trials if each.share == share]


def interacting(changes):
    """A smaller depth helps; then less weight on positives does, and alone it harms a little."""
    value = 50.0 + 3 * (changes.get("max_depth") == 2) - 5 * ("clusters" in changes) - 2 * ("cost" in changes)
    positive = changes.get("positive_cost")
    if positive == 0.5:
        return value + (4 if len(changes) > 1 else -0.5)
    return value if positive is None else value - 5


def test_changes_that_do_not_harm_are_tried_with_the_best(tmp_path):
    search = StubbedSearch(interacting, tmp_path / "out")
    search.run()
    assert not search.out_of_time
    # Alone, it is not among the best; with the smaller depth, it is the best of all.
    assert search.changes(0.25)[0] == {}
    assert {"positive_cost": 0.5} not in search.changes(0.5)
    both = {"positive_cost": 0.5, "max_depth": 2}
    assert search.changes(1.0)[0] == {"max_depth": 2}
    assert search.changes(1.0)[-1] == both
    # What clearly harms is not tried again.
    assert {"cost", "clusters"} <= {name for changes in search.changes(0.25) for name in changes}
    assert not any({"cost", "clusters"} & set(changes) for changes in search.changes(0.5))


@pytest.mark.parametrize("by_time", [True, False])
def test_what_was_found_is_trained_before_the_search_ends(by_time, tmp_path, monkeypatch):
    whole = StubbedSearch(interacting, tmp_path / "whole")
    whole.run()
    both = {"positive_cost": 0.5, "max_depth": 2}
    found = next(
        number
        for number, each in enumerate(whole._journal.trials)
        if each.share == 0.5 and each.candidate.changes(whole.start) == both
    )
    monkeypatch.setattr(search_module, "MOST_TRIALS", 100 if by_time else found + 1)
    search = StubbedSearch(interacting, tmp_path / "out", found + 1 if by_time else 100)
    search.run()
    assert search.out_of_time == by_time
    assert search.changes(1.0)[-1] == both


def test_the_number_of_trials_is_limited_on_small_data_too(tmp_path, monkeypatch):
    monkeypatch.setattr(search_module, "MOST_TRIALS", 3)
    search = StubbedSearch(interacting, tmp_path / "out", n_rows=100)  # every trial is on all rows
    search.run()
    trials = search._journal.trials
    assert [(trial.share, trial.trees) for trial in trials] == [(1, 1), (1, 1), (1, 1), (1, 3)]
    assert not search.out_of_time
