"""Tuning: the search is reproducible, resumes after a kill, and ends with settings that fit."""

import csv
import json
import re
import shlex
import shutil
from dataclasses import replace

import numpy as np
import pytest
from helpers import make_data

import labeltree
from labeltree import write_svm
from labeltree.errors import InputError
from labeltree.model.compress import Budget
from labeltree.settings import TextSettings
from labeltree.tuning import search as search_module
from labeltree.tuning.bench import Bench, DataSource
from labeltree.tuning.candidate import Candidate
from labeltree.tuning.journal import TrialJournal
from labeltree.tuning.trial import Trial
from labeltree.tuning.tune import _least_bytes, data_source, tune

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
    trial = Trial(bench.start, 0.5, 1, training_seconds=3.0, tree_seconds=1.0, rows=100)
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
    monkeypatch.setattr("labeltree.training.plan.usable_memory", lambda: 1000)
    monkeypatch.setattr("labeltree.tuning.trial.train_model", None)
    with pytest.raises(InputError, match="no settings were found that fit: training needs"):
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
