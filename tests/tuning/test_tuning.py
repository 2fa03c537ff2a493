"""Tuning: the search is reproducible, resumes after a kill, and ends with settings that fit."""

import csv
import json
import re
import shlex
import shutil
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from helpers import contents, make_data

import labeltree
from labeltree import write_svm
from labeltree.base.extras import optional
from labeltree.errors import InputError
from labeltree.tuning import halving
from labeltree.tuning.halving import combined, single_changes
from labeltree.tuning.result import best_trial
from labeltree.tuning.rows import DataSource, TuningRows
from labeltree.tuning.trial import TuningTrial, expected_seconds
from labeltree.tuning.tune import tune

FILES = {"trials.jsonl", "trials.csv", "settings.json", "best"}


@pytest.fixture(scope="module")
def data():
    return make_data(400)


@pytest.fixture
def small_search(monkeypatch):
    shorten(monkeypatch)


def shorten(monkeypatch):
    """Make searches of few trials, whose rounds have different rows."""
    small = {"_FACTORS": (0.5,), "_CLUSTERS": (4,), "_TREES": 2, "_FEWEST_ROWS": 100}
    for name, value in small.items():
        monkeypatch.setattr(halving, name, value)


@pytest.fixture(scope="module")
def first_search(data, tmp_path_factory):
    with pytest.MonkeyPatch.context() as monkeypatch:
        shorten(monkeypatch)
        return tune(data, path=tmp_path_factory.mktemp("tuned") / "out", max_size=6_000, threads=1)


@pytest.fixture
def tuned(first_search, small_search, tmp_path):
    """A finished search, in a directory that may be changed."""
    shutil.copytree(first_search.directory, tmp_path / "out")
    return replace(first_search, directory=tmp_path / "out")


def without_time(trials):
    return [replace(trial, seconds=0.0, evaluation_seconds=0.0) for trial in trials]


# Searches


def test_a_search_ends_with_settings_of_a_model_that_fits(tuned, data, tmp_path, run):
    out = tmp_path / "out"
    assert {path.name for path in out.iterdir()} == FILES
    assert tuned.ended == "complete"
    assert tuned.settings["max_size"] == 6_000
    shares = [trial.share for trial in tuned.trials]
    assert shares == sorted(shares)
    assert len(set(shares)) == 3
    assert all(trial.model_bytes <= 6_000 for trial in tuned.trials if trial.share == 1)
    kept = labeltree.load(tuned.best_model)
    assert kept.bytes == tuned.chosen.model_bytes
    assert len(kept.trees) == tuned.settings["trees"]
    write_svm(tmp_path / "all.svm", data)
    code, _, err = run("train", tmp_path / "all.svm", tmp_path / "m", "--settings", out / "settings.json")
    assert code == 0, err
    model = labeltree.load(tmp_path / "m")
    assert model.bytes <= 6_000
    assert model.manifest["settings"]["cost"] == tuned.settings["cost"]
    assert not (tmp_path / "m.full").exists()
    for path in (None, tmp_path / "python"):
        again = labeltree.train(data, **tuned.settings, path=path)
        assert (again.bytes, again.manifest["settings"]) == (model.bytes, model.manifest["settings"])
    assert contents(tmp_path / "python").keys() == contents(tmp_path / "m").keys()
    assert not (tmp_path / "python.full").exists()
    with pytest.raises(InputError, match="the smallest possible size is"):
        labeltree.train(data, max_size=100)
    with pytest.raises(InputError, match="remove prune or max_size"):
        labeltree.train(data, max_size=100, prune=0.1)


def test_the_table_has_every_trial(tuned, data):
    with open(tuned.directory / "trials.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    report = json.loads(json.dumps(tuned.to_dict()))
    assert len(rows) == len(report["trials"]) == len(tuned.trials)
    names = {"settings", "share", "model_bytes", "weights", "prune", "P@1", "error", "difference_error"}
    assert names <= set(rows[0])
    assert labeltree.estimate(data, **tuned.settings).least_bytes <= 6_000
    assert [row["chosen"] for row in rows].count("True") == 1
    assert report["settings"] == tuned.settings
    assert repr(tuned).startswith(f"TuningResult(P@1={tuned.chosen.metrics['P@1']:.4f}±")
    assert all(0 <= row["P@1"] <= 1 for row in report["trials"])
    assert tuned.table.to_pandas().shape == (len(rows), len(rows[0]))


def test_the_defaults_on_all_rows_are_beside_the_choice(tuned):
    defaults = tuned.defaults
    variant = replace(defaults, changes={"trees": 2}, metrics=dict.fromkeys(defaults.metrics, 1.0))
    tuned = replace(tuned, chosen=variant, trials=[*tuned.trials, variant])
    assert (defaults.changes, defaults.share) == ({}, 1)
    assert defaults.metrics.keys() == tuned.chosen.metrics.keys() >= {"P@1", "P@3", "P@5", "nDCG@5", "PSP@5"}
    assert tuned.to_dict()["defaults"] == defaults.to_dict()
    assert f", defaults={defaults.metrics['P@1']:.4f}, " in repr(tuned)
    head, (first, second) = tuned.comparison()
    assert head == ["", *defaults.metrics, "size"]
    assert first[:2] == ["defaults", f"{100 * defaults.metrics['P@1']:.2f}"]
    assert second[:2] == ["chosen", f"{100 * tuned.chosen.metrics['P@1']:.2f}"]
    assert [row[0] for row in replace(tuned, chosen=defaults).comparison()[1]] == ["defaults, chosen"]
    assert f"<td>{first[1]}</td>" in tuned._repr_html_()
    early = replace(tuned, chosen=tuned.trials[1])  # the search ran out of time before all rows were used
    assert early.defaults == tuned.trials[0]
    assert early.comparison()[1][0][0] == f"defaults (on {tuned.trials[0].share:.0%} of the rows)"
    unfit = replace(tuned, trials=[trial for trial in tuned.trials if trial.changes])
    assert (unfit.defaults, unfit.to_dict()["defaults"]) == (None, None)


def test_a_killed_search_continues(tuned, data, tmp_path):
    journal = tmp_path / "out" / "trials.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(lines[:3]) + lines[3][:20])  # killed while the third trial was written
    again = tune(data, path=tmp_path / "out", max_size=6_000, threads=1, resume=True)
    assert again.settings == tuned.settings
    assert again.trials[:2] == tuned.trials[:2]
    assert without_time(again.trials) == without_time(tuned.trials)
    assert {path.name for path in (tmp_path / "out").iterdir()} == FILES


@pytest.mark.parametrize("trials", [0, 4])
def test_a_stopped_search_ends_with_the_best_so_far(trials, small_search, data, tmp_path, monkeypatch):
    train, calls = halving.train_model, []

    def stop(*args, **options):
        calls.append(1)
        if len(calls) > trials:
            raise KeyboardInterrupt
        return train(*args, **options)

    monkeypatch.setattr(halving, "train_model", stop)
    if not trials:
        with pytest.raises(KeyboardInterrupt):
            tune(data, path=tmp_path / "out", threads=1)
        return
    found = tune(data, path=tmp_path / "out", threads=1)
    assert (found.ended, len(found.trials), found.best_model) == ("stopped", 4, None)
    assert json.loads(found.settings_path.read_text()) == found.settings
    monkeypatch.setattr(halving, "train_model", train)
    whole = tune(data, path=tmp_path / "out", threads=1, resume=True)
    assert whole.ended == "complete"
    assert whole.best_model is not None


def test_another_search_is_not_continued(tuned, data, tmp_path):
    out, other = tmp_path / "out", make_data(80, seed=3)
    with pytest.raises(InputError, match="search in this directory already; use resume=True"):
        tune(data, path=out, max_size=6_000, threads=1)
    given = {"max_size": 6_000, "threads": 1, "resume": True}
    for message, changed in (
        ("a different max size", {"max_size": 7_000}),
        ("different data", {"data": make_data(300)}),
        ("different data", {"validation": 0.2}),  # the split is another one
        ("different data", {"validation": other}),
    ):
        with pytest.raises(InputError, match=f"started with {message}"):
            tune(**{"data": data, "path": out, **given, **changed})
    (out / "trials.jsonl").write_text("{}\n")
    with pytest.raises(InputError, match="not the journal of a search"):
        tune(data, path=out, **given)


@pytest.mark.parametrize("metric", ["P@5", "nDCG@5", "PSP@5", "F1"])
def test_other_metrics_and_validation_data(metric, small_search, data, tmp_path):
    found = tune(data, path=tmp_path / "out", metric=metric, threads=1, validation=make_data(80, seed=2))
    compared = [trial for trial in found.trials if trial.share == 1]
    best = max(trial.metrics[metric] for trial in compared)
    assert best - found.chosen.metrics[metric] < 3 * found.chosen.error
    # Without a size, nothing is pruned.
    assert not {"max_size", "prune", "weights"} & set(found.settings)
    assert {(row["weights"], row["prune"]) for row in found.table} == {(None, None)}
    assert labeltree.load(found.best_model).bytes == found.chosen.model_bytes


def test_with_no_time_the_defaults_are_tried(small_search, data, tmp_path):
    found = tune(data, path=tmp_path / "out", max_size=6_000, max_time=1e-6, threads=1)
    assert found.ended == "out of time"
    assert [trial.changes for trial in found.trials] == [{}]
    more = tune(data, path=tmp_path / "out", max_size=6_000, threads=1, resume=True)
    assert len(more.trials) > 4


@pytest.mark.parametrize("memory", [None, 1000])
def test_what_does_not_fit_is_not_trained(memory, small_search, data, tmp_path, monkeypatch):
    monkeypatch.setattr(halving, "train_model", None)
    message = "a model takes [0-9,]+ bytes or more, however it is pruned; use a larger max_size"
    if memory is not None:
        monkeypatch.setattr("labeltree.training.plan.usable_memory", lambda: memory)
        message = "training needs"
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "file").touch()
    for out in (tmp_path / "out", tmp_path / "own"):
        with pytest.raises(InputError, match=f"no settings were found that fit: {message}"):
            tune(data, path=out, max_size=100, threads=1)
    assert not (tmp_path / "out").exists()  # nothing is in the way of the next search
    assert [path.name for path in (tmp_path / "own").iterdir()] == ["file"]


def test_progress_in_python(small_search, data, tmp_path, capsys):
    found = tune(data, path=tmp_path / "out", threads=1, max_size=6_000, progress=True)
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == len(found.trials)
    assert re.match(r"\d+% of the rows, defaults: P@1 \d+\.\d\d ± \d", err)
    assert re.search(r"%.+: P@1 \d+\.\d\d ± \d\.\d\d, [+-]\d+\.\d\d ± \d\.\d\d from the defaults, ", err)
    tune(data, path=tmp_path / "quiet", threads=1, max_size=6_000)
    assert capsys.readouterr() == ("", "")


# What is tried, and what is chosen


def trial(hits, first=0, changes=None, share=1.0):
    """A trial with so many hits in 100 rows, from one of them on."""
    rows = np.roll(np.repeat([1.0, 0.0], [hits, 100 - hits]), first).tolist()
    return TuningTrial(changes or {}, share, metrics={"P@1": hits / 100}, rows=rows)


A, B, AB = {"trees": 3}, {"clusters": 32}, {"trees": 3, "cost": 2.0}


@pytest.mark.parametrize(
    ("trials", "chosen"),
    [
        ([trial(50), trial(51, 25, A)], 0),
        ([trial(50), trial(53, 0, A)], 0),  # by 1.8 standard errors
        ([trial(50), trial(55, 0, A)], 1),  # by 2.3
        ([trial(50), trial(55, 0, A), *(trial(50, 0, {"cost": k}) for k in range(9))], 0),  # the best of ten
        ([trial(50), trial(60, 0, A), trial(61, 25, AB)], 1),  # as good with fewer changes
        ([trial(50), trial(60, 0, A), trial(75, 0, AB)], 2),
        ([trial(60, 0, A), trial(62, 0, AB)], 0),  # the defaults do not fit
        # The last round decides, if it compared any.
        ([trial(90, 0, A, 0.5), trial(20, 0, {}, 0.5), trial(50)], 0),
        ([trial(90, 0, A, 0.5), trial(20, 0, {}, 0.5), trial(50), trial(60, 0, B)], 3),
        ([trial(90, 0, A, 0.5), trial(20, 0, {}, 0.5), trial(50), trial(52, 0, A)], 2),
    ],
)
def test_a_change_must_be_clearly_better(trials, chosen):
    assert best_trial(trials, "P@1") is trials[chosen]


@pytest.mark.parametrize(
    ("changes", "work", "seconds"),
    [
        ({}, 5, 1.0),  # less work: no longer than this
        ({}, 20, 1.6),  # twice the work of the second trial would be 3.2, and of the first 2
        ({"cost": 2.0}, 40, 1.6),  # as the defaults
        (A, 20, 8.0),  # twice the training
    ],
)
def test_times_are_expected_from_those_of_the_same_variant(changes, work, seconds):
    done = [TuningTrial({}, 0.25, seconds=1.0, work=10), TuningTrial({}, 0.5, seconds=1.6, work=40)]
    done += [TuningTrial(A, 0.25, seconds=5.0, evaluation_seconds=2.0, work=10)]
    assert expected_seconds(done, changes, work) == seconds


@pytest.mark.parametrize("max_time", [5, 8, 11, 100])
def test_the_time_is_used_but_for_the_final_training(
    max_time, small_search, data, tmp_path, monkeypatch, capsys
):
    train, now = halving.train_model, [0.0]

    def slow(*args, **options):
        now[0] += 1
        return train(*args, **options)

    clock = SimpleNamespace(perf_counter=lambda: now[0])
    for module in (halving, sys.modules["labeltree.tuning.tune"], sys.modules["labeltree.tuning.rows"]):
        monkeypatch.setattr(module, "time", clock)
    monkeypatch.setattr(halving, "train_model", slow)
    monkeypatch.setattr(halving, "_SHARES", (1.0, 1.0, 1.0))
    found = tune(data, path=tmp_path / "out", max_time=max_time, threads=1, progress=True)
    left = max_time - found.seconds
    assert found.reserved == pytest.approx(1.3)
    assert found.reserved <= left
    assert found.ended == ("complete" if left >= 2 * found.reserved else "out of time")
    assert (
        "left out for lack of time, 1.30 s are kept for the final training" in capsys.readouterr().err
    ) == (found.ended == "out of time")


def test_variants():
    defaults = {"cost": 1.0, "positive_cost": 1.0, "clusters": 100, "max_depth": 6, "trees": 1}
    changed = list(single_changes(defaults, 1000, 3))
    for change in ({"max_depth": 1}, {"max_depth": 2}, {"trees": 3}, {"clusters": 250}):
        assert change in changed
    assert 8 <= len(changed) <= 12
    assert not any(change.get("clusters", 0) > 50 for change in single_changes(defaults, 50, 2))
    terms = {**defaults, "ngrams": [1, 1], "min_df": 1}
    assert len(list(single_changes(terms, 1000, 3))) == len(changed) + 3
    assert combined([{"cost": 2.0}, {"cost": 0.5}, {"clusters": 32}]) == {"cost": 2.0, "clusters": 32}
    assert combined([{"trees": 3}, {"max_depth": 1}, {"cost": 2.0}]) == {"max_depth": 1, "cost": 2.0}


# Rows


def test_validation_rows_are_not_trained_on(data):
    rows = TuningRows(DataSource(lambda _: data, 0.25), 0, 1)
    train, held_out = rows.train, rows.held_out
    assert train.n_instances + held_out.n_instances == data.n_instances
    assert np.diff(held_out.Y.indptr).min() > 0
    assert train.Y.nnz + held_out.Y.nnz == data.Y.nnz
    half, _ = rows.plan({}, 0.5)
    assert half.n_instances == round(train.n_instances / 2)
    assert (train.X[: half.n_instances] != half.X).nnz == 0
    # Trials on a part of the rows are validated on rows that they do not use, too.
    more = rows.validation(0.5)
    unused = train.X[half.n_instances :][np.diff(train.Y.indptr)[half.n_instances :] > 0]
    assert (more.X[: held_out.n_instances] != held_out.X).nnz == 0
    assert (more.X[held_out.n_instances :] != unused).nnz == 0
    assert rows.validation(1.0) is held_out
    other = TuningRows(DataSource(lambda _: data, lambda _: data), 0, 1)  # only the given data
    assert other.validation(0.5) is other.held_out
    for found, number in ((data, "4 rows"), (make_data(100), "1 row")):
        with pytest.raises(InputError, match=f"is {number}, too few to validate on"):
            TuningRows(DataSource(lambda _, few=found: few, 0.01), 0, 1)


def test_cut_trees_are_those_of_a_smaller_depth(data):
    rows = TuningRows(DataSource(lambda _: data, 0.25), 3, 1)
    _, plan = rows.plan({"clusters": 2, "max_depth": 3, "trees": 2, "cost": 2.0}, 1.0)
    for number, part in enumerate(plan.trees):
        tree = labeltree.build_tree(rows.train, clusters=2, max_depth=3, seed=3 + number, threads=1)
        assert part.tree.children.tolist() == tree.children.tolist()
    assert plan.settings.cost == 2


def test_data_is_read_as_given(small_search, tmp_path):
    lines = ["a;b\tred round", "c\tgreen", "b\tblue flat", "\tgrey"] * 30
    (tmp_path / "d.txt").write_text("\n".join(lines))
    given = {"format": "tsv", "separator": ";", "threads": 1, "max_time": 1e-6}
    found = tune(tmp_path / "d.txt", path=tmp_path / "out", validation=0.2, **given)
    assert found.settings.items() >= {"format": "tsv", "separator": ";", "ngrams": [1, 1]}.items()
    assert not {"strict", "min_label_count"} & set(found.settings)
    model = labeltree.train(tmp_path / "d.txt", **found.settings, threads=1)
    assert set(model.label_names) == {"a", "b", "c"}
    columns = {"text": [line.split("\t")[1] for line in lines], "topics": [x.split("\t")[0] for x in lines]}
    frame = optional("polars").DataFrame(columns)
    again = tune(
        frame, "topics", path=tmp_path / "frame", separator=";", max_time=1e-6, validation=0.2, ngrams=(1, 2)
    )
    assert again.settings.items() >= {"labels": "topics", "separator": ";", "ngrams": [1, 2]}.items()
    assert set(labeltree.train(frame, **again.settings).label_names) == {"a", "b", "c"}
    with pytest.raises(InputError, match="no labels"):
        tune(tmp_path / "d.txt", path=tmp_path / "no", strict=True, **given)


# The command


@pytest.mark.parametrize("separator", [";", " "])
def test_validation_data_with_unknown_labels_is_refused(separator, run, refused, small_search, tmp_path):
    def write(path, between, number):
        labels = (between.join((f"a{i % 5}", f"b{i % 3}", f"c{i % 4}")) for i in range(number))
        path.write_text("".join(f"{i}\t{each}\tword{i % 7} text{i % 5}\n" for i, each in enumerate(labels)))
        return path

    train, other = write(tmp_path / "t.tsv", " ", 200), write(tmp_path / "v.tsv", separator, 60)
    command = ["tune", train, "-o", tmp_path / "out", "--validation", other, "--max-time", "1s"]
    if separator == " ":
        assert run(*command)[0] == 0
        return
    message = refused(*command)
    assert "no label of the validation data is in the training data; check how labels are" in message
    assert "separated (--label-separator), or use data with the labels of the training data" in message


def test_text_is_read_for_each_choice_of_terms(monkeypatch, small_search, tmp_path, run):
    monkeypatch.setattr(halving, "_TERMS", (([1, 2], 2),))
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
    assert any("ngrams 1,2, min_df 2" in trial["settings"] for trial in report["trials"])
    program, *arguments = shlex.split(report["command"])
    assert program == "labeltree"
    assert arguments[3:] == ["--settings", str(out / "settings.json")]
    code, _, err = run(*arguments, "--quiet")
    assert code == 0, err
    model = labeltree.load(out / "model")
    assert list(model.text.settings.ngrams) == report["settings"]["ngrams"]
    assert model.bytes <= 5_000


@pytest.mark.parametrize("texts", [["title"], ["title", "more"]])
def test_the_settings_say_how_data_is_read(texts, small_search, tmp_path, run):
    names = ["red", "green", "blue", "round", "flat"]
    lines = [f"{names[i % 5]} and / {names[i % 3]}x|some {names[i % 5]}|{names[i % 3]} a" for i in range(200)]
    (tmp_path / "d.txt").write_text("\n".join(["tags|title|more", *lines]))
    reading = ["--data-format", "csv", "--delimiter", "|", "--label-column", "tags", "--label-separator", "/"]
    reading += [part for text in texts for part in ("--text-column", text)]
    out = tmp_path / "out"
    command = ("tune", tmp_path / "d.txt", "-o", out, "--json", "--max-size", "5kB", "--strict")
    code, text, err = run(*command, *reading, "--validation", 0.2, "--min-df", 1, "--min-label-count", 2)
    assert code == 0, err
    report = json.loads(text)
    given = {"text": texts[0] if len(texts) == 1 else texts, "labels": "tags", "separator": "/"}
    given |= {"delimiter": "|", "format": "csv", "strict": True, "min_label_count": 2}
    assert {name: report["settings"].get(name) for name in given} == given
    code, _, err = run(*shlex.split(report["command"])[1:], "--quiet")
    assert code == 0, err
    model = labeltree.load(out / "model")
    assert set(model.label_names) == {f"{name} and" for name in names} | {f"{name}x" for name in names[:3]}
    assert (list(model.text.columns.texts), model.text.columns.labels) == (texts, "tags")


def test_the_command_shows_a_table(small_search, folder, tmp_path, run):
    out = tmp_path / "o"
    code, text, err = run(
        *("tune", folder / "train.svm", "-o", out, "--max-size", "5kB", "--metric", "P@3"),
        *("--validation", folder / "test.svm"),
    )
    assert code == 0, err
    assert "of the rows, defaults: P@3" in err
    assert err.count("rows    400 rows") == 1  # what was read is shown once
    assert re.search(r"settings +rows +size +P@3 +difference", text)
    assert re.search(r"± \d+\.\d\d +\*", text)  # the chosen one
    assert re.search(r"\n +P@1 +P@3 +P@5 +nDCG@5 +PSP@5 +size\ndefaults", text)
    assert f"train {folder / 'train.svm'} {out / 'model'} --settings {out / 'settings.json'}\n" in text


def test_mistakes(refused, folder, tmp_path):
    train, out = folder / "train.svm", tmp_path / "o"
    for arguments, message in (
        ((tmp_path / "no.svm", "-o", out), "no such file"),
        ((train, "-o", out, "--max-time", "soon"), "--max-time is 'soon', expected a time such as 20min"),
        ((train, "-o", out, "--metric", "P@2"), "--metric is 'P@2', expected one of P@1"),
        ((train, "-o", out, "--validation", 0.9), "--validation is 0.9"),
        (("-", "-o", out), "read only once"),
        ((train, "-o", train), "is a file"),
        ((train, "-o", out / "a" / "b"), "no such directory"),
    ):
        assert message in refused("tune", *arguments)
    assert list(tmp_path.iterdir()) == []
