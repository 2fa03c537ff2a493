"""Thresholds and calibration: figures agree with scikit-learn, choices with brute force, models keep both."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from forgery import forge
from helpers import make_data, train_small
from sklearn.metrics import f1_score, precision_score, recall_score

import labeltree
from labeltree import InputError, load
from labeltree.data.svm import write_svm
from labeltree.evaluation.accepted import Candidates, Decision
from labeltree.evaluation.calibration import (
    Calibration,
    calibration_gain,
    choose_threshold,
    cross_validate,
    fit_calibration,
    reliability,
)


def ranked(rows=60, labels=12, top=6, seed=0):
    """Random rankings whose scores have ties, and labels that are true more often if the score is high."""
    rng = np.random.default_rng(seed)
    found = np.array([rng.permutation(labels)[:top] for _ in range(rows)], np.int32)
    scores = -np.sort(-np.round(rng.random((rows, top)), 2) - 0.005, axis=1).astype(np.float32)
    truth = rng.random((rows, labels)) < 0.1
    np.put_along_axis(truth, found.astype(np.int64), rng.random((rows, top)) < scores**2, axis=1)
    truth[:, 0] = False  # a label that does not occur
    found[3, 4:], scores[3, 4:] = -1, 0
    return sp.csr_matrix(truth.astype(np.float32)), found, scores


@pytest.fixture(scope="module")
def candidates():
    return Candidates.of(*ranked())


def accepted(found, scores, minimum, n_labels):
    flags = np.zeros((len(found), n_labels + 1), bool)
    np.put_along_axis(flags, found.astype(np.int64), scores >= minimum, axis=1)
    return flags[:, :n_labels]


@pytest.mark.parametrize("threshold", [0.0, 0.205, 0.5, 0.73, 1.0])
def test_figures_are_those_of_scikit_learn(candidates, threshold):
    truth, found, scores = ranked()
    Y, P = truth.toarray() > 0, accepted(found, scores, np.float32(threshold), 12)
    got = {name: values[0] for name, values in candidates.at(threshold).items()}
    with_labels, known = Y.any(axis=1), Y.any(axis=0)
    expected = {
        "precision": precision_score(Y, P, average="micro", zero_division=0),
        "recall": recall_score(Y, P, average="micro"),
        "micro_f1": f1_score(Y, P, average="micro", zero_division=0),
        "macro_f1": f1_score(Y, P, average="macro", zero_division=0),
        "row_f1": f1_score(Y[with_labels], P[with_labels], average="samples", zero_division=0),
        "coverage": (Y & P)[:, known].any(axis=0).mean(),
        "labels_per_row": P.sum() / len(P),
        "rows_without": (~P.any(axis=1)).mean(),
    }
    assert got == pytest.approx(expected)
    # Labels that the model does not know follow its own.
    wide = sp.csr_matrix(sp.hstack([truth, np.ones((60, 2))]))
    assert Candidates.of(wide, found, scores, 12).at(threshold)["macro_f1"][0] == got["macro_f1"]


@pytest.mark.parametrize("metric", ["micro_f1", "macro_f1", "row_f1"])
def test_the_chosen_threshold_is_the_best_of_all(candidates, metric):
    decision = choose_threshold(candidates, metric)
    every = candidates.at(np.unique(candidates.scores))[metric]
    assert candidates.measure(decision)[metric] == pytest.approx(every.max())
    assert decision.rows == 60


def test_targets(candidates):
    precise, complete = (choose_threshold(candidates, name, 0.7) for name in ("precision", "recall"))
    every = candidates.at(np.unique(candidates.scores))
    got = candidates.measure(precise)
    assert got["precision"] >= 0.7
    assert got["recall"] == pytest.approx(every["recall"][every["precision"] >= 0.7].max())
    got = candidates.measure(complete)
    assert got["recall"] >= 0.7
    assert got["precision"] == pytest.approx(every["precision"][every["recall"] >= 0.7].max())
    with pytest.raises(InputError, match="no threshold reaches a recall of 1 on the"):
        choose_threshold(candidates, "recall", 1.0)


def test_labels_get_their_own_thresholds_if_that_is_better():
    rng = np.random.default_rng(0)
    found = np.tile(np.arange(3, dtype=np.int32), (600, 1))
    scores = rng.random((600, 3)).astype(np.float32)
    # Label 0 is true from 0.2 on, label 1 from 0.8 on, and label 2 never.
    truth = sp.csr_matrix((scores >= np.array([0.2, 0.8, 2.0])).astype(np.float32))
    candidates = Candidates.of(truth, found, scores)
    decision = choose_threshold(candidates, "macro_f1", n_labels=4)
    assert decision.thresholds[:2] == pytest.approx([0.2, 0.8], abs=0.03)
    assert (decision.thresholds[2:] == np.float32(decision.threshold)).all()
    assert candidates.measure(decision)["macro_f1"] > 0.97 * 2 / 3
    labels, kept = decision.accept(found, scores)
    assert (labels[:, 0] >= 0).tolist() == (scores[:, 0] >= decision.thresholds[0]).tolist()
    assert (kept[labels < 0] == 0).all()


def test_noise_gives_no_label_its_own_threshold_far_from_the_common_one():
    """Every label has the same distribution: what few instances suggest must not win."""
    rng = np.random.default_rng(1)
    found = np.array([rng.permutation(200)[:8] for _ in range(500)], np.int32)
    scores = -np.sort(-rng.random((500, 8)), axis=1).astype(np.float32)
    truth = np.zeros((500, 200), np.float32)
    np.put_along_axis(
        truth, found.astype(np.int64), (rng.random((500, 8)) < scores).astype(np.float32), axis=1
    )
    half = np.arange(500) < 250
    whole = Candidates.of(sp.csr_matrix(truth), found, scores)
    one, other = whole.of_rows(half), whole.of_rows(~half)
    own = choose_threshold(one, "macro_f1", n_labels=200)
    common = Decision(own.threshold)
    assert other.measure(own)["macro_f1"] > other.measure(common)["macro_f1"] - 0.02


def test_calibration_keeps_the_order_and_makes_scores_probabilities():
    rng = np.random.default_rng(2)
    scores = -np.sort(-rng.random((2000, 5)), axis=1).astype(np.float32)
    found = np.tile(np.arange(5, dtype=np.int32), (2000, 1))
    truth = sp.csr_matrix((rng.random((2000, 5)) < scores**3).astype(np.float32))
    candidates = Candidates.of(truth, found, scores)
    assert calibration_gain(candidates) > 0.05
    calibration = fit_calibration(candidates)
    grid = np.linspace(0.001, 1, 500, dtype=np.float32)
    assert (np.diff(calibration.apply(grid)) > 0).all()
    np.testing.assert_allclose(calibration.apply(grid), grid**3, atol=0.06)
    assert calibration.apply(np.zeros(2, np.float32)).tolist() == [0, 0]
    calibrated = replace(candidates, scores=calibration.apply(candidates.scores))
    assert reliability(calibrated)[1] < 0.02 < 0.2 < reliability(candidates)[1]
    assert abs(calibration_gain(calibrated)) < 0.01


def test_reliability_by_hand():
    found, scores = np.array([[0, 1], [1, 0]], np.int32), np.array([[0.95, 0.15], [0.91, 0.12]], np.float32)
    bins, error = reliability(Candidates.of(sp.csr_matrix([[1.0, 0.0], [0.0, 0.0]]), found, scores))
    assert [(row["low"], row["labels"], row["observed"]) for row in bins] == [(0.1, 2, 0), (0.9, 2, 0.5)]
    assert error == pytest.approx((0.135 + 0.43) / 2)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("decisions")
    data = make_data(300)
    train_small(folder / "model", data, trees=1)
    write_svm(folder / "data.svm", data)
    return folder, data


@pytest.fixture
def place(trained, tmp_path):
    shutil.copytree(trained[0] / "model", tmp_path / "model")
    return tmp_path / "model"


def some_decision(n_labels):
    return Decision(0.25, "macro_f1", rows=9, thresholds=np.linspace(0, 1, n_labels, dtype=np.float32))


CALIBRATION = Calibration((0.0, 0.5, 1.0), (0.0, 0.2, 0.9))


def test_training_chooses_a_threshold_on_held_out_rows(trained):
    model = load(trained[0] / "model")
    assert model.decision.held_out
    assert (model.decision.metric, model.decision.rows) == ("micro_f1", 300)
    labels, scores = model.predict(trained[1].X, threshold="stored")
    assert (scores[labels >= 0] >= np.float32(model.decision.threshold)).all()
    assert labels.shape == (300, min(100, model.n_labels))


def test_stored_choices_are_kept_by_copies(trained, place, tmp_path):
    data, original = trained[1], load(place)
    inode = (place / "tree-0" / "weights.npy").stat().st_ino
    decision = some_decision(original.n_labels)
    stored = load(place).store_decision(decision, CALIBRATION)
    assert (place / "tree-0" / "weights.npy").stat().st_ino == inode  # linked, not copied
    assert [entry.name for entry in place.parent.iterdir()] == ["model"]
    stored.save(tmp_path / "copy")
    stored.compress(tmp_path / "small", weights="float16")
    for model in (stored, load(tmp_path / "copy"), load(tmp_path / "small")):
        model.verify()
        np.testing.assert_array_equal(model.decision.thresholds, decision.thresholds)
        assert (model.decision.entry(), model.calibration) == (decision.entry(), CALIBRATION)
    labels, scores = original.predict(data.X)
    again, calibrated = stored.predict(data.X)
    np.testing.assert_array_equal(labels, again)
    np.testing.assert_array_equal(CALIBRATION.apply(scores), calibrated)
    np.testing.assert_array_equal(stored.predict(data.X, calibrated=False)[1], scores)
    np.testing.assert_array_equal(*(m.predict(data.X, score="hinge2")[1] for m in (original, stored)))
    plain = stored.store_decision(None, None)
    assert not (place / "thresholds.npy").exists()
    with pytest.raises(InputError, match="the model has no threshold"):
        plain.predict(data.X, threshold="stored")
    with pytest.raises(InputError, match="for its own scores"):
        load(tmp_path / "copy").predict(data.X, threshold="stored", score="hinge3")


def test_a_large_one_vs_rest_model_has_no_threshold_unless_rows_are_held_out(monkeypatch):
    data = make_data(300)
    monkeypatch.setattr("labeltree.training.score.STRIP_BYTES", 1000)
    with pytest.warns(UserWarning, match="gets no threshold in training: use `choose_threshold`"):
        model = labeltree.train(data, max_depth=1)
    with pytest.raises(InputError, match="the model has no threshold; choose one with `choose_threshold`"):
        model.predict(data, threshold="stored")
    assert labeltree.train(data, max_depth=1, holdout=0.2).decision is not None


def test_a_model_that_was_replaced_is_not_overwritten(place):
    first = load(place)
    load(place).store_decision(Decision(0.5), None)
    with pytest.raises(InputError, match="was replaced"):
        first.store_decision(Decision(0.1), None)
    assert load(place).decision.threshold == 0.5


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"threshold": 2.0}, "decision.threshold is 2.0"),
        ({"threshold": "0.5"}, "decision.threshold is '0.5'"),
        ({"metric": "luck"}, "decision.metric is 'luck'"),
        ({"rows": -1}, "decision.rows is -1"),
        ({"held_out": 1}, "decision.held_out is 1"),
        ({"target": 7}, "decision.target is 7"),
        ({"thresholds": [0.5]}, "'thresholds' is not known"),
        ({"file": "x"}, "'file' is not known"),
        ({"scores": [0, 1], "probabilities": [0.5, 0.5]}, "calibration"),
        ({"scores": [0, 1], "probabilities": [0.5]}, "calibration"),
        ({"scores": [0.1, 1], "probabilities": [0.1, 0.9]}, "calibration"),
        ({"scores": [0, 1], "probabilities": [0.1, float("inf")]}, "Infinity"),
        ({"scores": [k / 100 for k in range(101)]} | {"probabilities": [1] * 101}, "calibration"),
        ({"scores": "01", "probabilities": [0, 1]}, "calibration"),
    ],
)
def test_forged_choices_are_refused(place, entry, message):
    if "scores" in entry:
        forge(place, calibration=entry)
    else:
        forge(place, decision=load(place).manifest["decision"] | entry)
    with pytest.raises(InputError, match=message):
        load(place)


@pytest.mark.parametrize("forged", ["nan", "negative", "short", "double", "missing", "damaged"])
def test_forged_thresholds_are_refused(place, forged):
    model = load(place)
    model = model.store_decision(some_decision(model.n_labels), None)
    file = place / "thresholds.npy"
    values = np.load(file)
    if forged in ("nan", "negative"):
        values[1] = {"nan": np.nan, "negative": -0.1}[forged]
    np.save(file, {"short": values[1:], "double": values.astype(np.float64)}.get(forged, values))
    if forged == "damaged":
        file.write_bytes(file.read_bytes()[:-1] + b"x")
    else:
        content = np.fromfile(file, np.uint8)
        entry = {"bytes": content.size, "crc32c": labeltree._native.crc32c(content)}
        forge(place, decision=model.manifest["decision"] | {"thresholds": entry})
    if forged == "missing":
        file.unlink()
    with pytest.raises(InputError):
        load(place)


def test_choices_are_checked(trained):
    folder, data = trained
    model = load(folder / "model")
    with pytest.raises(InputError, match="one goal"):
        model.choose_threshold(data, metric="row_f1", min_recall=0.5)
    with pytest.raises(InputError, match="metric is 'f1'"):
        model.choose_threshold(data, metric="f1")
    with pytest.warns(UserWarning, match="looks like the training data"):
        choice = model.choose_threshold(data, calibrate=True)
    assert choice.figures()["micro_f1"] > 0.3


@pytest.mark.filterwarnings("ignore:.*looks like the training data")
def test_commands(run, refused, trained, place, tmp_path):
    data = trained[0] / "data.svm"
    code, out, err = run("threshold", place, data, "--metric", "row-f1", "--calibrate", "--json")
    assert code == 0
    assert "looks like the training data" in err
    figures = json.loads(out)
    assert figures["metric"] == "row_f1"
    code, out, _ = run("predict", place, data, "--accepted", "--json")
    labels = [len(row["labels"]) for row in json.loads(out)["predictions"]]
    assert np.mean(labels) == pytest.approx(figures["labels_per_row"])
    assert np.mean(np.array(labels) == 0) == pytest.approx(figures["rows_without"])
    code, out, _ = run("predict", place, data, "--threshold", figures["threshold"], "--json")
    assert [len(row["labels"]) for row in json.loads(out)["predictions"]] == labels
    assert f"scores from {figures['threshold']:.4g}; chosen by row F1" in run("info", place)[1]
    assert "*" in run("evaluate", place, data, "--thresholds", "--reliability")[1]
    code, out, _ = run("evaluate", place, data, "--thresholds", "--reliability", "--json")
    found = json.loads(out)
    (row,) = [row for row in found["thresholds"] if row["stored"]]
    assert row["row_f1"] == pytest.approx(figures["row_f1"])
    accepted = {"micro_F1": row["micro_f1"], "macro_F1": row["macro_f1"]}
    accepted["rows_with_accepted_label"] = 1 - row["rows_without"]
    plain = json.loads(run("evaluate", place, data, "--json")[1])
    for name, share in accepted.items():
        assert plain[name] == found[name] == pytest.approx(share)
    line = f"accepted labels: micro F1 {plain['micro_F1']:.2%}, macro F1 {plain['macro_F1']:.2%}; "
    assert line in run("evaluate", place, data)[1]
    assert "row_f1" in row["best"]
    assert sum(row["labels"] for row in found["reliability"]) > 0
    assert found["calibration_error"] < 0.1
    before = (place / "manifest.json").read_bytes()
    assert "--min-recall is 0.0" in refused("threshold", place, data, "--min-recall", 0)
    assert "exclude each other" in refused("predict", place, data, "--accepted", "--threshold", 0.5)
    assert (place / "manifest.json").read_bytes() == before


@pytest.fixture(scope="module")
def validation(trained, tmp_path_factory):
    """A file of rows that the model was not trained on."""
    file = tmp_path_factory.mktemp("validation") / "validation.svm"
    write_svm(file, make_data(300, seed=7))
    return file


@pytest.mark.parametrize(
    ("option", "value", "metric", "figure"),
    [("--min-precision", 0.3, "precision", "precision"), ("--min-recall", 0.3, "recall", "recall")],
)
def test_targets_are_reached_and_stored(run, place, validation, option, value, metric, figure):
    code, out, _ = run("threshold", place, validation, option, value, "--json")
    found = json.loads(out)
    assert (code, found["metric"], found["target"]) == (0, metric, value)
    assert found[figure] >= value
    assert found["cross_validated"] is None
    decision = load(place).decision
    assert (decision.threshold, decision.target, decision.rows) == (found["threshold"], value, found["rows"])
    out = run("threshold", place, validation, option, value)[1]
    assert "measured   on the rows that the choice was made on, which is optimistic\n" in out


def documents(n_rows, seed, separator=" "):
    """Return rows of labels and text; words of half of the labels are often missing, and some are added."""
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(n_rows):
        chosen = sorted({int(j) for j in rng.integers(0, 12, rng.integers(1, 4))})
        words = [f"word{j}" for j in chosen if j < 6 or rng.random() < 0.4]
        words += [f"word{j}" for j in rng.integers(0, 12, 2) if rng.random() < 0.5]
        rows.append(f"{separator.join(f'tag{j}' for j in chosen)}\tcommon {' '.join(words)}\n")
    return rows


@pytest.fixture(scope="module")
def tagged(tmp_path_factory):
    """A model of documents."""
    folder = tmp_path_factory.mktemp("tagged")
    (folder / "train.tsv").write_text("".join(documents(300, 0)))
    labeltree.train(folder / "train.tsv", path=folder / "model", clusters=3, threads=1)
    return folder / "model"


@pytest.fixture
def tagger(tagged, tmp_path):
    return shutil.copytree(tagged, tmp_path / "tagger")


@pytest.fixture
def tsv(tmp_path):
    """Write lines to a file, and return its path."""

    def write(lines):
        (tmp_path / "data.tsv").write_text("".join(lines))
        return tmp_path / "data.tsv"

    return write


def test_thresholds_per_label(run, tmp_path):
    tagger, data = tmp_path / "tagger", "examples/catalog-test.tsv"
    labeltree.train("examples/catalog-train.tsv", path=tagger, clusters=10)
    code, out, _ = run("threshold", tagger, data, "--metric", "macro_f1", "--json")
    found = json.loads(out)
    assert (code, found["metric"]) == (0, "macro_f1")
    model = load(tagger)
    np.testing.assert_array_equal(model.decision.thresholds, np.float32(found["thresholds"]))
    assert np.unique(model.decision.thresholds).size > 1
    assert 0 < found["cross_validated"]["macro_f1"] < found["macro_f1"]
    out = run("threshold", tagger, data, "--metric", "macro_f1")[1]
    assert "on the rows that the choice was made on, which is optimistic\n" in out
    assert f"macro {100 * found['cross_validated']['macro_f1']:.2f}% on other rows, by cross-" in out
    answers = json.loads(run("predict", tagger, data, "--accepted", "--json")[1])["predictions"]
    labels, scores = model.predict(labeltree.read_data(data, like=model).X, top=100)
    expected = [
        {model.label_names[j] for j, score in zip(*row, strict=True) if score >= model.decision.thresholds[j]}
        for row in zip(labels, scores, strict=True)
    ]
    assert [set(row["labels"]) for row in answers] == expected
    report = json.loads(run("evaluate", tagger, data, "--json")[1])
    assert report["macro_F1"] == pytest.approx(found["macro_f1"])


def test_cross_validation_by_hand():
    whole = Candidates.of(*ranked(400, seed=3))
    half = whole.random_half
    total = 0
    for chosen, used in ((half, ~half), (~half, half)):
        decision = choose_threshold(whole.of_rows(chosen), "macro_f1", n_labels=12)
        part = whole.of_rows(used)
        total += part.hits[part.accepted(decision)].sum()
    found = cross_validate(whole, 12)
    assert found["recall"] == pytest.approx(total / whole.n_true)


def test_data_with_mostly_unknown_labels_is_refused(run, refused, tagger, tsv):
    before = (tagger / "manifest.json").read_bytes()
    wrong = tsv(documents(200, 1, "+"))
    message = refused("threshold", tagger, wrong)
    assert "label occurrences in the validation data are known to the model; check how labels are" in message
    assert "(--label-separator)" in message
    model = load(tagger)
    with pytest.raises(InputError, match=r"^only \d+ of \d+ label occurrences .* \(separator\)"):
        model.choose_threshold(labeltree.read_data(wrong, like=model))
    assert (tagger / "manifest.json").read_bytes() == before
    assert run("threshold", tagger, wrong, "--label-separator", "+")[0] == 0
    # Many labels are unknown, but each is rare.
    rare = tsv([f"rare{i} {line}" for i, line in enumerate(documents(200, 1))])
    code, _, err = run("threshold", tagger, rare)
    assert code == 0
    assert "200 of the 212 labels in the data are unknown to the model and counted as missed.\n" in err


def test_few_rows_are_noted(run, tagger, tsv):
    data = tsv([*documents(2, 1), "\tcommon word1\n"])
    code, _, err = run("threshold", tagger, data)
    assert code == 0
    assert (
        "note: The validation data has 2 rows with labels; with fewer than 50, the best threshold is" in err
    )
    assert load(tagger).decision.rows == 2
    assert "random" not in run("threshold", tagger, tsv(documents(50, 1)))[2]
    model = load(tagger)
    with pytest.warns(UserWarning, match="the best threshold is mostly random"):
        model.choose_threshold(labeltree.read_data(tsv(documents(49, 1)), like=model))


def test_goals_are_checked_before_anything_is_read(refused, tmp_path):
    goals = "--min-precision", 0.5, "--min-recall", 0.5
    assert "one goal" in refused("threshold", tmp_path / "no-model", tmp_path / "no-data", *goals)


def test_suspicious_labels_are_noted(run, tagger, tsv):
    wrong = tsv(documents(200, 1, ";"))
    for command in ("evaluate", "threshold"):
        assert "If ';' separates labels, use --label-separator ';'." in run(command, tagger, wrong)[2]
    err = run("evaluate", tagger, wrong)[2]
    assert "label occurrences are known: check that the data belongs to the model, and how" in err
    with pytest.warns(UserWarning, match="label") as caught:
        load(tagger).evaluate(wrong)
    messages = [str(warning.message) for warning in caught]
    assert "use separator=';'" in messages[0]
    assert "label occurrences are known" in messages[1]
    assert {warning.filename for warning in caught} == {__file__}
    assert len(messages) == 2
    notes = [
        line
        for line in run("evaluate", tagger, wrong, "--label-separator", ";")[2].splitlines()
        if "note:" in line
    ]
    assert all("of the rows have the same words as a training row" in note for note in notes)


def test_labels_that_the_model_knows_are_not_suspicious(run, tmp_path, tsv):
    lines = documents(200, 0, ";")
    with pytest.warns(UserWarning, match="';' separates labels"):
        labeltree.train(tsv(lines), path=tmp_path / "model", clusters=3, threads=1)
    assert "note:" not in run("evaluate", tmp_path / "model", tsv(lines[:5]))[2]


def test_data_without_a_known_label_is_noted(run, tagger, tsv):
    data = tsv([line.replace("tag", "other") for line in documents(60, 1)])
    code, _, err = run("evaluate", tagger, data)
    note = "No label in the data is known to the model, so every metric is 0: check that the data belongs to"
    assert (code, f"note: {note}" in err) == (0, True)
    assert "unknown" not in err
    with pytest.warns(UserWarning, match=note):
        assert load(tagger).evaluate(labeltree.read_data(data, like=load(tagger)))["P@1"] == 0


def test_python_reports_what_the_command_reports(run, tagger, tsv):
    lines = [*documents(80, 1), "\tcommon word1\n", "tag1\t\n", "tag1 new\tword1\n"]
    data = tsv(lines)
    report = json.loads(run("evaluate", tagger, data, "--json")[1])
    found = load(tagger).evaluate(data)
    counts = {"rows": 82, "rows_without_labels": 1, "skipped_rows": 1, "unknown_labels": 1}
    assert {name: getattr(found, name) for name in counts} == counts
    speed = {name: report.pop(name) for name in ("seconds", "milliseconds_per_row")}
    assert all(value > 0 for value in speed.values())
    assert found.to_dict() == report == {**found, **counts, "rows_in_training": found.rows_in_training}
    assert {"P@1", "micro_F1", "macro_F1", "rows_with_accepted_label"} < found.keys()
    line = f"{found['rows_with_accepted_label']:.2%} of the labeled rows have at least one accepted label\n"
    assert line in run("evaluate", tagger, data)[1]
    plain = load(tagger).store_decision(None, None)
    assert plain.evaluate(data).keys() == {name for name in found if "@" in name}
    with pytest.raises(InputError, match="or set threshold to a number instead"):
        plain.predict(["word1"], threshold="stored")


def test_the_estimator_uses_the_threshold(trained):
    data = trained[1]
    classifier = labeltree.LabelTreeClassifier(threads=1).fit(data.X, data.Y)
    threshold = classifier.model_.decision.threshold
    default = classifier.predict(data.X)
    assert (default != classifier.predict(data.X, threshold=threshold)).nnz == 0
    # Another score function has other scores.
    classifier.set_params(score_function="hinge3")
    assert (classifier.predict(data.X) != classifier.predict(data.X, threshold=0.5)).nnz == 0
