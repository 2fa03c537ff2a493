"""Tuning: the search is reproducible, resumes after a kill, and ends with settings that fit."""

import csv
import json
import re
import shlex
import shutil
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from helpers import disk_bytes, make_data, train_small

import labeltree
from labeltree import metrics, write_svm
from labeltree.budget import Budget
from labeltree.errors import InputError, ResourceError
from labeltree.frontier import first_trees
from labeltree.limits import MAX_TIME
from labeltree.score import CANDIDATES
from labeltree.stages import Stages
from labeltree.text.settings import TextSettings
from labeltree.tuning import search as search_module
from labeltree.tuning.bench import Bench, DataSource
from labeltree.tuning.candidate import Candidate
from labeltree.tuning.comparison import compare_models, paired_differences
from labeltree.tuning.forms import Forms, Target
from labeltree.tuning.journal import TrialJournal
from labeltree.tuning.live_table import LiveTable
from labeltree.tuning.result import choose, final_settings, frontier
from labeltree.tuning.row_metrics import METRIC, RowMetric, row_metrics
from labeltree.tuning.search import Goal, OutOfTime, Search
from labeltree.tuning.settings_file import KEYS, as_arguments, read_settings, settings_bytes
from labeltree.tuning.trial import Point, Trial, _Judge
from labeltree.tuning.tune import _least_bytes, data_source, tune
from labeltree.validation import Validation

NAMES = {"trials.jsonl", "trials.csv", "tuning.png", "tuning.svg", "settings.json"}


@pytest.fixture(scope="module")
def data():
    return make_data(400)


@pytest.fixture
def small_search(monkeypatch):
    shorten(monkeypatch)


def shorten(monkeypatch):
    """Make searches of few trials, one of which has two trees."""
    monkeypatch.setattr("labeltree.tuning.candidate._COSTS", (0.5,))
    monkeypatch.setattr("labeltree.tuning.candidate._POSITIVE_COSTS", ())
    monkeypatch.setattr("labeltree.tuning.candidate._CLUSTERS", (4,))
    monkeypatch.setattr(Candidate, "further", lambda self, start: iter(()))
    monkeypatch.setattr("labeltree.tuning.forms._FITTING", (0, 3))
    monkeypatch.setattr(search_module, "_FINALISTS", 1)
    monkeypatch.setattr(search_module, "_TREES", 2)
    monkeypatch.setattr(search_module, "_MORE_TREES", 2)
    monkeypatch.setattr(search_module, "_FEWEST_ROWS", 150)


@pytest.fixture(scope="module")
def first_search(data, tmp_path_factory):
    with pytest.MonkeyPatch.context() as monkeypatch:
        shorten(monkeypatch)
        return tune(data, tmp_path_factory.mktemp("tuned") / "out", max_size=6_000, threads=1)


@pytest.fixture
def tuned(first_search, small_search, tmp_path):
    """A finished search, in a directory that may be changed."""
    shutil.copytree(first_search.directory, tmp_path / "out")
    return replace(first_search, directory=tmp_path / "out")


def test_a_search_ends_with_settings_of_a_model_that_fits(tuned, data, tmp_path, run):
    out = tmp_path / "out"
    assert {path.name for path in out.iterdir()} == NAMES
    assert tuned.point.final_bytes <= 6_000
    assert tuned.settings["max_size"] <= 6_000
    assert not tuned.out_of_time
    # First single changes on part of the rows, then the best on more, then on all with two trees; then steps
    # from there.
    shares = [trial.share for trial in tuned.trials]
    first = shares.index(1)
    assert shares[:first] == sorted(shares[:first])
    assert shares[0] < shares[first - 1] < 1
    assert {trial.trees for trial in tuned.trials if trial.share == 1} == {2}
    assert {point.trees for point in tuned.trials[first].points} == {1, 2}
    write_svm(tmp_path / "all.svm", data)
    code, _, err = run("train", tmp_path / "all.svm", tmp_path / "m", "--settings", out / "settings.json")
    assert code == 0, err
    model = labeltree.load(tmp_path / "m")
    assert model.bytes <= tuned.settings["max_size"]
    assert len(model.trees) == tuned.settings["trees"]
    assert model.manifest["settings"]["cost"] == tuned.settings["cost"]
    assert not (tmp_path / "m.full").exists()


def test_the_table_has_every_point(tuned):
    with open(tuned.directory / "trials.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == sum(max(1, len(trial.points)) for trial in tuned.trials)
    assert {"clusters", "cost", "share", "threshold", "final_bytes", "P@1", "PSP@5"} <= set(rows[0])
    report = tuned.report()
    assert json.loads(json.dumps(report))["settings"] == tuned.settings
    assert len(report["trials"]) == len(tuned.trials)


def test_a_killed_search_continues(tuned, data, tmp_path):
    journal = tmp_path / "out" / "trials.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(lines[:3]) + lines[3][:20])  # killed while the third trial was written
    seen = []
    again = tune(data, tmp_path / "out", max_size=6_000, threads=1, resume=True, report=seen.append)
    assert again.settings == tuned.settings
    assert again.trials[:2] == tuned.trials[:2]
    assert [trial.points for trial in again.trials] == [trial.points for trial in tuned.trials]
    assert seen == again.trials


def test_another_search_is_not_continued(tuned, data, tmp_path):
    out = tmp_path / "out"
    with pytest.raises(InputError, match="search in this directory already; use resume=True"):
        tune(data, out, max_size=6_000, threads=1)
    with pytest.raises(InputError, match="started with a different max size"):
        tune(data, out, max_size=7_000, threads=1, resume=True)
    with pytest.raises(InputError, match="started with different data"):
        tune(make_data(300), out, max_size=6_000, threads=1, resume=True)
    with pytest.raises(InputError, match="started with different data"):  # the split is another one
        tune(data, out, max_size=6_000, threads=1, resume=True, validation=0.2)
    (out / "trials.jsonl").write_text("{}\n")
    with pytest.raises(InputError, match="not the journal of a search"):
        tune(data, out, max_size=6_000, threads=1, resume=True)


@pytest.mark.parametrize("separator", [";", " "])
def test_validation_data_with_unknown_labels_is_refused(separator, run, refused, small_search, tmp_path):
    def write(path, between, number):
        labels = (between.join((f"a{i % 5}", f"b{i % 3}", f"c{i % 4}")) for i in range(number))
        path.write_text("".join(f"{each}\tword{i % 7} text{i % 5}\n" for i, each in enumerate(labels)))
        return path

    train, other = write(tmp_path / "t.tsv", " ", 200), write(tmp_path / "v.tsv", separator, 60)
    command = ["tune", train, "-o", tmp_path / "out", "--validation", other, "--max-time", "1s"]
    if separator == " ":
        assert run(*command)[0] == 0
        return
    message = refused(*command)
    assert "no label of the validation data is in the training data; check how labels are" in message
    assert "separated (--label-separator), or use data with the labels of the training data" in message
    with pytest.raises(InputError, match=r"separated \(columns=Columns\(separators=\"...\"\)\), or use data"):
        tune(train, tmp_path / "again", validation=other)


def test_other_validation_data_is_refused(data, tmp_path, monkeypatch):
    monkeypatch.setattr(search_module.Search, "run", lambda self: None)
    monkeypatch.setattr(TrialJournal, "discard", lambda self: None)
    given = {"threads": 1, "resume": True}
    one, other = make_data(80, seed=2), make_data(80, seed=3)
    with pytest.raises(InputError, match="no trial was finished"):
        tune(data, tmp_path / "out", validation=one, **given)
    with pytest.raises(InputError, match="no trial was finished"):
        tune(data, tmp_path / "out", validation=one, **given)
    changed = labeltree.Dataset(one.X, other.Y)
    for different in (other, changed):
        with pytest.raises(InputError, match="started with different validation data"):
            tune(data, tmp_path / "out", validation=different, **given)


def test_with_no_time_one_tree_is_trained_on_all_rows(small_search, data, tmp_path):
    found = tune(data, tmp_path / "out", max_size=6_000, max_time=1e-6, threads=1)
    assert found.out_of_time
    assert [(trial.share, trial.trees) for trial in found.trials] == [(1.0, 1)]


def test_nothing_fits(small_search, data, tmp_path):
    with pytest.raises(InputError, match=r"smallest possible size is at least 2\.0 kB .* larger max_size"):
        tune(data, tmp_path / "out", max_size=100, threads=1)
    assert not (tmp_path / "out").exists()


def test_a_directory_with_a_search_is_refused_before_data_is_read(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "trials.jsonl").touch()
    with pytest.raises(InputError, match="there is a search in this directory already"):
        tune(tmp_path / "missing.svm", tmp_path / "out")


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


def test_what_cannot_be_pruned_enough_is_not_trained(small_search, data, tmp_path, monkeypatch):
    monkeypatch.setattr(Budget, "check_least", lambda self, least, exact: None)
    monkeypatch.setattr("labeltree.tuning.trial.train_model", None)
    tried = []
    message = r"that fit: a model takes ([\d,]+) bytes or more, however it is pruned; use a larger max_size"
    with pytest.raises(InputError, match=message) as caught:
        tune(data, tmp_path / "out", max_size=100, threads=1, report=tried.append)
    # The smallest of all, and nothing that is in the way of a search with a larger size.
    least = int(re.search(message, str(caught.value))[1].replace(",", ""))
    assert least == min(trial.least_bytes for trial in tried) < max(trial.least_bytes for trial in tried)
    assert not (tmp_path / "out").exists()
    (tmp_path / "own").mkdir()
    with pytest.raises(InputError, match=message):
        tune(data, tmp_path / "own", max_size=100, threads=1)
    assert list((tmp_path / "own").iterdir()) == []


def test_the_least_size_is_that_of_a_model_without_weights(data, tmp_path):
    trees = [labeltree.build_tree(data, clusters=3, seed=seed) for seed in range(2)]
    plan = labeltree.make_plan(data, trees, threads=1)
    model = labeltree.train_model(data, plan, tmp_path / "m")
    least = model.compress(tmp_path / "least", max_size=plan.least_bytes)
    assert least.bytes == plan.least_bytes
    with pytest.raises(InputError, match=f"smallest possible size is .* .{plan.least_bytes:,} bytes"):
        model.compress(tmp_path / "less", max_size=plan.least_bytes - 1)
    # A bound for every tree of the data.
    bound = _least_bytes(data, DataSource(lambda _: data, 0.1))
    assert 1000 < bound < plan.least_bytes


def test_data_is_not_read_again_to_predict_times(data, tmp_path, small_search):
    text = [TextSettings(), TextSettings(min_df=2)]
    reads = []

    def read(settings):
        reads.append(settings)
        return data

    bench = Bench(DataSource(read, 0.2, text[0], searches_terms=True), 0, 1)
    other = replace(bench.start, min_df=2)
    bench.data(bench.start)
    bench.data(other)
    journal = TrialJournal(tmp_path / "o", {}, False)
    goal = search_module.Goal("P@1", None, 60.0)
    search = search_module.Search(bench, journal, goal, tmp_path, 0.0, None, None)
    trial = Trial(bench.start, 0.5, 1, (point(10, 1.0),), training_seconds=3.0, tree_seconds=1.0, rows=100)
    assert search._final_seconds(trial) == 4.0 * search_module._EXPECTED_TREES * data.n_instances / 100
    assert reads == text


def test_files_are_read_as_given(tmp_path):
    lines = ["a;b\tred round", "c\tgreen", "b\tblue flat", "\tgrey"] * 20
    (tmp_path / "d.txt").write_text("\n".join(lines))
    columns = labeltree.Columns(separators=(";",))
    source = data_source(tmp_path / "d.txt", 0.2, format="tsv", columns=columns)
    assert source.searches_terms
    assert set(source.read(source.text).label_names) == {"a", "b", "c"}
    with pytest.raises(InputError, match="no labels"):
        data_source(tmp_path / "d.txt", 0.2, format="tsv", strict=True).read(source.text)
    other = data_source(tmp_path / "d.txt", tmp_path / "d.txt", format="tsv", columns=columns)
    train, validation = Bench(other, 0, 1).data(Candidate(cost=1.0, ngrams=(1, 1), min_df=1))
    assert (train.n_instances, validation.X.shape[0]) == (80, 60)
    with pytest.raises(InputError, match="not a file of documents; remove them"):
        data_source(make_data(20), 0.2, TextSettings())


def test_what_needs_too_much_memory_is_not_trained(small_search, data, tmp_path, monkeypatch):
    monkeypatch.setattr("labeltree.plan.usable_memory", lambda: 1000)
    monkeypatch.setattr("labeltree.tuning.trial.train_model", None)
    with pytest.raises(InputError, match="no settings were found that fit: training needs"):
        tune(data, tmp_path / "out", threads=1)


def test_trees_of_hopeless_trials_are_not_built(small_search, data, tmp_path, monkeypatch):
    monkeypatch.setattr("labeltree.sizing.EXACT_WORK", 0)
    bench = Bench(DataSource(lambda _: data, 0.25), 0, 1)
    candidate = Candidate(cost=1.0, clusters=4)
    bench.check_size(candidate, 1.0, 1, tmp_path)
    monkeypatch.setattr("labeltree.tuning.bench.free_disk", lambda path: 1000)
    with pytest.raises(ResourceError, match=r"the model takes .* kB or more, but only 1.0 kB are free"):
        bench.check_size(candidate, 1.0, 1, tmp_path)
    bench.plan(candidate, 1.0, 1)
    bench.check_size(candidate, 1.0, 1, tmp_path)  # its plan says more
    monkeypatch.setattr("labeltree.tuning.bench.usable_memory", lambda: 1000)
    monkeypatch.setattr("labeltree.tuning.bench.build_tree", None)
    monkeypatch.setattr(Bench, "start", candidate)
    with pytest.raises(
        InputError, match=r"no settings were found that fit: training needs .* MB of memory or"
    ):
        tune(data, tmp_path / "out", threads=1)


def test_without_a_size_the_form_is_chosen(small_search, data, tmp_path):
    found = tune(data, tmp_path / "out", metric="F1", threads=1, validation=make_data(80, seed=2))
    assert "max_size" not in found.settings
    assert ("prune" in found.settings) != ("weights" in found.settings)
    assert "F1" in found.point.metrics


@pytest.mark.parametrize("metric", ["P@5", "nDCG@5", "PSP@5"])
def test_other_metrics_are_maximized(metric, small_search, data, tmp_path):
    found = tune(data, tmp_path / "out", max_size=6_000, metric=metric, threads=1)
    points = [point for trial in found.trials if trial.share == 1 for point in trial.points]
    assert found.point.metrics[metric] == max(point.metrics[metric] for point in points)


def test_validation_rows_are_not_trained_on(data):
    bench = Bench(DataSource(lambda _: data, 0.25), 0, 1)
    train, validation = bench.data(bench.start)
    assert bench.n_rows == data.n_instances == train.n_instances + validation.X.shape[0]
    assert np.diff(validation.truth.indptr).min() > 0
    assert train.Y.nnz + validation.truth.nnz == data.Y.nnz
    total = train.X.sum(axis=0) + validation.X.sum(axis=0)
    assert np.allclose(total, data.normalize().X.sum(axis=0), atol=1e-4)
    half = bench.sample(bench.start, 0.5)
    assert half.n_instances == round(train.n_instances / 2)
    assert (train.X[: half.n_instances] != half.X).nnz == 0
    # Trials on a part of the rows are validated on rows that they do not use, too.
    more = bench.validation(bench.start, 0.5)
    unused = train.X[half.n_instances :][np.diff(train.Y.indptr)[half.n_instances :] > 0]
    assert more.X.shape[0] == more.truth.shape[0] == validation.X.shape[0] + unused.shape[0]
    assert (more.X[: validation.X.shape[0]] != validation.X).nnz == 0
    assert (more.X[validation.X.shape[0] :] != unused).nnz == 0
    assert bench.validation(bench.start, 1.0) is validation
    other = Bench(DataSource(lambda _: data, lambda _: data), 0, 1)  # only the given data
    assert other.validation(other.start, 0.5) is other.data(other.start)[1]
    with pytest.raises(InputError, match="is 4 rows, too few to validate on"):
        Bench(DataSource(lambda _: data, 0.01), 0, 1).data(Candidate(cost=1.0))
    with pytest.raises(InputError, match="is 1 row, too few to validate on"):
        Bench(DataSource(lambda _: make_data(10), 0.1), 0, 1).data(Candidate(cost=1.0))


def test_cut_trees_are_those_of_a_smaller_depth(data):
    bench = Bench(DataSource(lambda _: data, 0.25), 3, 1)
    _, plan = bench.plan(Candidate(clusters=2, max_depth=3, cost=2.0), 1.0, 2)
    train = bench.sample(Candidate(cost=1.0), 1.0)
    for number, part in enumerate(plan.trees):
        tree = labeltree.build_tree(train, clusters=2, max_depth=3, seed=3 + number, threads=1)
        assert part.tree.children.tolist() == tree.children.tolist()
    assert plan.settings.cost == 2


def test_text_is_read_for_each_choice_of_terms(monkeypatch, small_search, tmp_path, run):
    monkeypatch.setattr("labeltree.tuning.candidate._COSTS", ())
    monkeypatch.setattr("labeltree.tuning.candidate._CLUSTERS", ())
    monkeypatch.setattr("labeltree.tuning.candidate._TERMS", (((1, 2), 2),))
    words = ["red", "green", "blue", "round", "flat"]
    lines = [
        f"{i}\t{words[i % 5]} {words[i % 3]}x\tsome {words[i % 5]} {words[i % 3]} thing" for i in range(200)
    ]
    (tmp_path / "d.tsv").write_text("\n".join(lines))
    out = tmp_path / "out"
    code, text, err = run(
        "tune", tmp_path / "d.tsv", "-o", out, "--json", "--validation", 0.2, "--max-size", "5kB"
    )
    assert code == 0, err
    report = json.loads(text)
    tried = {(tuple(t["candidate"]["ngrams"]), t["candidate"]["min_df"]) for t in report["trials"]}
    assert tried == {((1, 1), 1), ((1, 2), 2)}
    assert report["settings"]["ngrams"] in ([1, 1], [1, 2])
    program, *arguments = shlex.split(report["command"])
    assert program == "labeltree"
    code, _, err = run(*arguments, "--quiet")
    assert code == 0, err
    model = labeltree.load(out / "model")
    assert list(model.text.settings.ngrams) == report["settings"]["ngrams"]
    assert model.bytes <= 5_000


def test_progress_in_python(small_search, data, tmp_path, capsys):
    found = tune(data, tmp_path / "out", threads=1, max_size=6_000, progress=True)
    out, err = capsys.readouterr()
    lines = err.splitlines()
    assert out == ""
    assert lines[0].split()[:3] == ["trial", "rows", "trees"]
    assert len(lines) == 1 + len(found.trials)
    assert "defaults" in lines[1]
    assert repr(found).startswith(f"TuningResult(P@1={found.point.metrics['P@1']:.2f}, size='")
    assert len(repr(found)) < 400
    tune(data, tmp_path / "quiet", threads=1, max_size=6_000)
    assert capsys.readouterr() == ("", "")


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


def test_the_command_shows_a_table(small_search, folder, tmp_path, run):
    out = tmp_path / "o"
    code, text, err = run(
        *("tune", folder / "train.svm", "-o", out, "--max-size", "5kB", "--metric", "P@3"),
        *("--validation", folder / "test.svm"),
    )
    assert code == 0, err
    assert re.search(r"trial +rows +trees", err)
    assert "defaults" in err
    assert err.count("rows    400 rows") == 1  # what was read is shown once
    assert f"settings.json, trials.csv, tuning.png, tuning.svg in {out}" in text
    assert "frontier of P@3" in text
    assert re.search(r"\d  \*  ", text)  # the chosen one
    assert "train the final model with:" in text
    assert f"--settings {out / 'settings.json'}" in text


def test_mistakes(refused, folder, tmp_path):
    train, out = folder / "train.svm", tmp_path / "o"
    assert "no such file" in refused("tune", tmp_path / "no.svm", "-o", out)
    assert "--max-time is 'soon', expected a time such as 20min" in refused(
        "tune", train, "-o", out, "--max-time", "soon"
    )
    assert "--metric is 'P@2', expected one of P@1" in refused("tune", train, "-o", out, "--metric", "P@2")
    assert "--validation is 0.9" in refused("tune", train, "-o", out, "--validation", 0.9)
    assert "read only once" in refused("tune", "-", "-o", out)
    assert "is a file" in refused("tune", train, "-o", train)
    assert "no such directory" in refused("tune", train, "-o", out / "a" / "b")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("given", "seconds"), [("20min", 1200), ("90 s", 90), ("1.5h", 5400), (7, 7), ("8", 8)]
)
def test_times(given, seconds):
    assert MAX_TIME.plain(given) == seconds


@pytest.mark.parametrize("given", ["", "min", "-5s", "0", "1 week", True, None])
def test_wrong_times(given):
    assert MAX_TIME.plain(given) is None


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


@pytest.mark.parametrize("metric", METRIC.values)
def test_row_metrics_are_the_metrics(metric, data, tmp_path):
    model = train_small(tmp_path / "m", data, trees=1)
    test = make_data(90, seed=1)
    labels, scores = model.predict(test.X, top=20)
    propensities = metrics.propensities(model.label_counts, model.n_instances)
    truth = test.align(None, model.n_labels).Y
    found = row_metrics(truth, labels, scores, propensities, (metric,))[metric]
    if metric == "F1":
        true = truth.toarray() > 0
        dense = np.zeros(true.shape)
        np.put_along_axis(dense, np.maximum(labels, 0), np.where(labels >= 0, scores, 0), axis=1)
        expected = max(
            2 * (true & (dense >= t)).sum() / ((dense >= t).sum() + true.sum())
            for t in np.unique(scores[scores > 0])
        )
    else:
        expected = model.evaluate(test)[metric]
    assert found.value == pytest.approx(100 * expected)
    assert found.rows.mean() == pytest.approx(found.value)


def test_paired_differences():
    rng = np.random.default_rng(0)
    first = rng.random(2000) < 0.5
    better = first | (rng.random(2000) < 0.1)
    ones = np.ones(2000)
    as_metric = {name: {"P@1": RowMetric(v.astype(float), ones)} for name, v in (("a", first), ("b", better))}
    found = paired_differences(as_metric["a"], as_metric["b"], resamples=300)["P@1"]
    assert found.points == pytest.approx(100 * (better.mean() - first.mean()))
    assert found.low < found.points < found.high
    assert found.significant
    same = paired_differences(as_metric["a"], as_metric["a"], resamples=300)["P@1"]
    assert (same.points, same.p_value) == (0, 1)
    # The interval is that of the normal distribution of paired differences.
    error = 100 * (better * 1.0 - first).std() / np.sqrt(2000)
    assert (found.high - found.low) / (2 * 1.96) == pytest.approx(error, rel=0.2)


def test_compare(run, refused, folder, tmp_path, data):
    model, test = folder / "model", folder / "test.svm"
    labeltree.load(model).compress(tmp_path / "small", prune=0.5)
    code, out, err = run("compare", model, tmp_path / "small", test, "--json")
    assert code == 0, err
    report = json.loads(out)
    assert [row["model"] for row in report["models"]] == [str(model), str(tmp_path / "small")]
    assert report["test"] == "paired bootstrap"
    code, shown, _ = run("evaluate", tmp_path / "small", test, "--json")
    assert report["models"][1]["P@1"] == json.loads(shown)["P@1"]
    gap = report["models"][1]["differences"]["P@1"]
    assert gap["points"] == pytest.approx(report["models"][1]["P@1"] - report["models"][0]["P@1"], abs=1e-3)
    assert gap["low"] <= gap["points"] <= gap["high"]
    code, out, _ = run("compare", model, tmp_path / "small", test)
    assert code == 0
    assert "paired bootstrap" in out
    assert "there is nothing to compare" in refused("compare", model, test)
    assert "no such model" in refused("compare", model, tmp_path / "no", test)
    with pytest.raises(InputError, match="two or more models"):
        compare_models([labeltree.load(model)], data)


def test_compare_reads_data_as_each_model_does(run, tmp_path):
    """A file that lacks the first feature does not show whether it counts from 0 or 1."""
    (tmp_path / "zero.svm").write_text("0 0:1 2:1\n1 1:1 2:1\n" * 20)
    (tmp_path / "one.svm").write_text("0 1:1 3:1 4:1\n1 2:1 3:1\n" * 20)
    (tmp_path / "test.svm").write_text("0 2:1\n1 1:1\n0 2:1 3:1\n" * 4)
    models = []
    for name, base in (("zero", "--zero-based"), ("one", "--one-based")):
        models.append(tmp_path / name)
        assert run("train", tmp_path / f"{name}.svm", models[-1], base, "--quiet")[0] == 0
    for order in (models, models[::-1]):
        code, out, err = run("compare", *order, tmp_path / "test.svm", "--json")
        assert code == 0, err
        for path, found in zip(order, json.loads(out)["models"], strict=True):
            assert (
                found["P@1"] == json.loads(run("evaluate", path, tmp_path / "test.svm", "--json")[1])["P@1"]
            )


def test_compare_measures_f1_as_evaluate_does(run, folder, tmp_path):
    test, plain = tmp_path / "test.svm", tmp_path / "plain"
    lines = (folder / "test.svm").read_text().splitlines()
    rows = [line for line in lines if ":" in line and line != lines[0]]
    rows += ["  1:1 5:2", "77,3 2:1 7:1"]  # without labels, and with one that the models do not know
    test.write_text("\n".join(rows) + "\n")
    shutil.copytree(folder / "model", plain)
    labeltree.load(plain).store_decision(None, None)
    code, out, err = run("compare", folder / "model", plain, test, "--json")
    assert code == 0, err
    stored, best = json.loads(out)["models"]
    assert (stored["F1_threshold"], best["F1_threshold"]) == ("stored", "best")
    assert (stored["unknown_labels"], stored["rows_without_labels"]) == (1, 1)
    assert err.count("unknown to") == 2
    assert f"unknown to {plain} and counted as missed" in err
    assert err.count("has no labels: it counts as 0 in P, R, nDCG and PSP, and is left out of F1.") == 1
    report = json.loads(run("evaluate", folder / "model", test, "--thresholds", "--json")[1])
    expected = {row["stored"]: row["micro_f1"] for row in report["thresholds"]}[True]
    assert stored["F1"] == pytest.approx(100 * expected, abs=1e-3)
    most = max(row["micro_f1"] for row in report["thresholds"] if "micro_f1" in row["best"])
    assert best["F1"] == pytest.approx(100 * most, abs=1e-3)
    shown = run("compare", folder / "model", plain, test)[1]
    assert re.search(r"F1 +threshold\n", shown)
    assert "best: it has" in shown


def test_usage_lines(run):
    assert run("compare", "--help")[1].startswith("Usage: labeltree compare [OPTIONS] MODEL MODEL... DATA\n")
    assert run("serve", "--help")[1].startswith("Usage: labeltree serve [OPTIONS] MODEL...\n")


def test_settings_files(run, refused, folder, tmp_path):
    file, train = tmp_path / "s.json", folder / "train.svm"
    file.write_text(
        json.dumps({"clusters": 3, "cost": 2, "positive_cost": [0.5, 1], "trees": 2, "weights": None})
    )
    code, _, err = run("train", train, tmp_path / "m", "--settings", file, "--cost", 4, "-q")
    assert code == 0, err
    made = labeltree.load(tmp_path / "m").manifest
    assert (made["settings"]["cost"], made["settings"]["positive_cost"]) == (4, [0.5, 1])
    assert len(made["trees"]) == 2
    for content, message in (
        ('{"clusterz": 3}', "there is no setting named 'clusterz'"),
        ('{"clusters": 1}', "clusters is 1, expected an integer of at least 2"),
        ("[1]", "not a JSON object"),
        ("{", "not valid JSON"),
    ):
        file.write_text(content)
        assert f"{file}: " in refused("train", train, tmp_path / "n", "--settings", file)
        assert message in refused("train", train, tmp_path / "n", "--settings", file)
    assert "no such file" in refused("train", train, tmp_path / "n", "--settings", tmp_path / "no")
    settings = {"clusters": 5, "ngrams": [1, 2], "lowercase": False}
    file.write_bytes(settings_bytes(settings))
    assert read_settings(file) == {**settings, "ngrams": (1, 2)}
    assert as_arguments(settings) == ["--clusters", "5", "--ngrams", "1,2", "--keep-case"]
    arguments = ("train", train, tmp_path / "n", "--settings", file)
    what = "ngrams applies only to text, but DATA is in LIBSVM format; remove it, or set --data-format"
    assert refused(*arguments) == f"error: {file}: {what}"
    assert "error: --analyzer applies only to text" in refused(*arguments, "--analyzer", "char")


def test_training_to_a_size(run, refused, folder, tmp_path):
    train, model = folder / "train.svm", tmp_path / "m"
    code, out, err = run("train", train, model, "--max-size", "4kB", "--json")
    assert code == 0, err
    report = json.loads(out)
    assert report["codec"] == "sparse"
    assert labeltree.load(model).bytes <= 4000 == report["max_size"]
    assert report["model_bytes"] == disk_bytes(model)
    assert [path.name for path in tmp_path.iterdir()] == ["m"]
    error = refused("train", train, tmp_path / "n", "--max-size", 100)
    least = int(
        re.search(r"the smallest possible size is .* \((.*) bytes\); use a larger", error)[1].replace(",", "")
    )
    assert [path.name for path in tmp_path.iterdir()] == ["m"]
    assert f"({least:,} bytes)" in refused("train", train, tmp_path / "n", "--max-size", least - 1)
    assert run("train", train, tmp_path / "n", "--max-size", least, "--quiet")[0] == 0
    assert labeltree.load(tmp_path / "n").bytes == least
    assert "remove --prune or --max-size" in refused(
        "train", train, tmp_path / "o", "--max-size", "4kB", "--prune", 0.1
    )


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

    def __init__(self, value, directory, most_trials=100):
        start = Candidate(cost=1.0)
        bench = SimpleNamespace(
            start=start,
            data=lambda candidate: [SimpleNamespace(n_instances=100_000)],
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
