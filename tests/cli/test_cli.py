"""The command line as a shell sees it: output, exit codes, and what is on disk afterwards."""

import gzip
import inspect
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import asdict

import numpy as np
import pytest
from helpers import PATIENCE, contents, disk_bytes, make_data, shell, topic_data

from labeltree import Dataset, ScoreSettings, load, read_svm, write_svm
from labeltree.base.system import human_bytes

PLAN_KEYS = {
    *("instances", "features", "labels", "nodes", "depth", "weights", "model_bytes"),
    *("paper_tree_bytes", "paper_ovr_bytes", "ratio", "training_memory_bytes"),
}
METRIC_KEYS = [f"{name}@{k}" for name in ("P", "R", "RP", "nDCG", "PSP", "PSnDCG") for k in (1, 3, 5)]


# Each command


@pytest.mark.parametrize(("trees", "weights"), [(1, "float32"), (3, "float32"), (1, "float16"), (1, "int8")])
def test_the_estimate_is_the_size_on_disk(run, folder, tmp_path, trees, weights):
    options = ["--clusters", 5, "--trees", trees, "--weights", weights, "--json"]
    code, out, err = run("estimate", folder / "train.svm", *options)
    report = json.loads(out)
    assert (code, err) == (0, "")
    assert set(report) >= PLAN_KEYS
    assert report["fits"]
    code, out, err = run("train", folder / "train.svm", tmp_path / "model", *options)
    trained = json.loads(out)
    assert (code, err) == (0, "")
    assert set(trained["seconds"]) == {"read", "tree", "plan", "train"}
    assert trained["peak_memory_bytes"] > 1e6
    assert report["model_bytes"] == trained["model_bytes"] == disk_bytes(tmp_path / "model")
    assert report["model_bytes_at_most"] == trained["planned_bytes"] == report["model_bytes"]
    assert (trained["codec"], trained["nonzeros"]) == (weights, None)
    assert load(tmp_path / "model").codec == weights
    assert len(list((tmp_path / "model").glob("tree-*"))) == trees
    assert {f.name for f in tmp_path.iterdir()} == {"model"}


def test_the_estimate_of_pruned_weights_is_a_bound(run, folder, tmp_path):
    options = ["--clusters", 5, "--prune", 0.1]
    report = json.loads(run("estimate", folder / "train.svm", *options, "--json")[1])
    trained = json.loads(run("train", folder / "train.svm", tmp_path / "model", *options, "--json")[1])
    assert trained["model_bytes"] == disk_bytes(tmp_path / "model") <= report["model_bytes_at_most"]
    assert report["model_bytes"] is report["bytes_per_weight"] is report["ovr_bytes"] is None
    assert trained["codec"] == "sparse"
    assert trained["nonzeros"] == load(tmp_path / "model").manifest["weights"] < trained["weights"]
    out = run("estimate", folder / "train.svm", *options)[1]
    bound = f"{report['model_bytes_at_most']:,}"
    assert re.search(rf"^model   at most .*B on disk \({bound} bytes, if no weight is pruned\)$", out, re.M)
    assert re.search(r"^disk    at most .*B needed", out, re.M)
    assert "ovr" not in out
    out = run("train", folder / "train.svm", tmp_path / "other", *options)[1]
    assert f"planned: at most {bound}" in out
    assert f"{trained['nonzeros']:,} of them kept" in out
    assert "labeltree compress" not in out


def test_a_bound_larger_than_the_disk_is_no_reason_to_refuse(run, folder, tmp_path, monkeypatch):
    monkeypatch.setattr("labeltree.training.plan.free_disk", lambda path: 10)
    command = ["train", folder / "train.svm", tmp_path / "model", "--quiet"]
    assert run(*command)[0] == 2
    assert run(*command, "--prune", 0.1)[0] == 0


def test_train_ends_with_what_compress_would_save(run, folder, tmp_path):
    out = run("train", folder / "train.svm", tmp_path / "model", "--clusters", 5)[1]
    small = human_bytes(load(tmp_path / "model").compress(tmp_path / "int8").bytes)
    assert out.splitlines()[-1] == f"`labeltree compress` would reduce it to {small} or less."
    out = run("train", folder / "train.svm", tmp_path / "small", "--weights", "int8")[1]
    assert "labeltree compress" not in out


def test_estimate(run, folder):
    code, out, err = run("estimate", folder / "train.svm", "--clusters", 5)
    assert code == 0
    assert "on disk (exactly" in out
    assert "bytes per weight" in out
    assert "alpha" in out
    assert out.endswith("It fits.\n")
    assert "reading" in err
    assert run("estimate", folder / "train.svm", "--quiet")[2] == ""
    code, out, _ = run("estimate", folder / "train.svm", "--memory-limit", "1MB")
    assert code == 0
    assert "1.0 MB allowed" in out
    assert out.splitlines()[-1].startswith("It does not fit: training needs")


def test_estimate_compares_with_one_vs_rest_in_the_same_format(run, tmp_path):
    rng = np.random.default_rng(0)
    dense = Dataset.from_matrices(rng.random((200, 30)), rng.random((200, 40)) < 0.2)
    sparse = topic_data(topics=8)
    for name, data in (("dense", dense), ("sparse", sparse)):
        write_svm(tmp_path / f"{name}.svm", data)
        options = (tmp_path / f"{name}.svm", "--clusters", 8)
        report = json.loads(run("estimate", *options, "--json")[1])
        one_vs_rest = json.loads(run("estimate", *options, "--max-depth", 1, "--json")[1])
        assert report["ovr_bytes"] == one_vs_rest["ovr_bytes"] == one_vs_rest["model_bytes"]
        assert one_vs_rest["ovr_ratio"] == 1
        more = report["model_bytes"] / report["ovr_bytes"] - 1
        out = run("estimate", *options, "--quiet")[1]
        assert f"as one-vs-rest in the same format, ratio {1 + more:.3g}" in out
        assert (f"The tree is {more:.1%} larger than one-vs-rest" in out) == (name == "dense") == (more > 0)
    out = run("estimate", tmp_path / "sparse.svm", "--clusters", 8, "--trees", 9, "--quiet")[1]
    assert "The 9 trees together are" in out


def test_estimate_and_train_take_the_same_options():
    from labeltree.cli.commands.train import estimate, train

    ours, theirs = (inspect.signature(command).parameters for command in (estimate, train))
    own = {"model", "force", "overwrite", "dask", "holdout", "max_size", "resume", "settings", "sync"}
    assert set(theirs) == set(ours) | own
    assert all(theirs[name].default == ours[name].default for name in ours.keys() & theirs.keys())


def test_train_shows_stages_and_a_summary(run, folder, tmp_path):
    code, out, err = run("train", folder / "train.svm", tmp_path / "m")
    assert code == 0
    assert "as planned" in out
    stages = ["reading", "rows", "labels", "most", "note:", "building", "planning", "training"]
    assert [line.split()[0] for line in err.splitlines()] == stages
    assert run("train", folder / "train.svm", tmp_path / "m", "--overwrite", "--quiet") == (0, "", "")


def test_settings_are_stored_in_the_model(run, folder, tmp_path):
    options = (
        "--loss squared-hinge --cost 2 --tolerance 0.01 --max-iterations 700 --bias 0 --seed 3 --clusters 4 "
        "--positive-cost 3,0.5 --hard-negatives 5 --foreign-cost 0.3"
    )
    assert run("train", folder / "train.svm", tmp_path / "m", "--quiet", *options.split())[0] == 0
    manifest = load(tmp_path / "m").manifest
    assert manifest["notes"] == {"clusters": 4, "max_depth": 6}
    assert manifest["settings"] == {
        "loss": "squared_hinge",
        "cost": 2.0,
        "max_cost": 2.0,
        "positive_cost": [3.0, 0.5],
        "tolerance": 0.01,
        "max_iterations": 700,
        "bias": 0.0,
        "hard_negatives": 5,
        "foreign_cost": 0.3,
        "seed": 3,
    }


def test_evaluate(run, folder):
    code, out, err = run("evaluate", folder / "model", folder / "test.svm", "--json")
    figures = json.loads(out)
    assert (code, err.count("note: 14% of the rows have the same features as a training row")) == (0, 1)
    missed = {"rows_without_labels", "skipped_rows", "unknown_labels", "rows_in_training"}
    accepted = {"micro_F1", "macro_F1", "rows_with_accepted_label"}
    assert set(figures) == {*METRIC_KEYS, *accepted, "rows", "seconds", "milliseconds_per_row", *missed}
    assert figures["rows"] == 50
    assert 0.5 < figures["P@1"] <= 1
    code, out, _ = run("evaluate", folder / "model", folder / "test.svm", "--score", "hinge3", "--beam", 50)
    assert code == 0
    assert out.splitlines()[0].split() == ["%", "@1", "@3", "@5"]
    assert out.endswith(" ms per row\n")
    assert "accepted" not in out  # the threshold is one of other scores


def test_train_reports_the_score_that_it_chose(run, folder, tmp_path, monkeypatch):
    chosen = ScoreSettings("sigmoid", 5.0)
    monkeypatch.setattr("labeltree.training.fill.choose_score", lambda *_: chosen)
    given = ["train", folder / "train.svm", tmp_path / "m", "--clusters", 5, "--overwrite"]
    for more, expected, line in (
        ([], chosen, "score   sigmoid(5 x margin), chosen automatically\n"),
        (["--score", "auto"], chosen, "score   sigmoid(5 x margin), chosen automatically\n"),
        (["--score-scale", 2], ScoreSettings("sigmoid", 2.0), "score   sigmoid(2 x margin)\n"),
        (["--score", "hinge2"], ScoreSettings("hinge2"), "score   exp(-max(0, 1 - margin)^2)\n"),
    ):
        report = json.loads(run(*given, *more, "--json")[1])
        assert report["score"] == asdict(expected)
        assert load(tmp_path / "m").score == expected
        assert report["planned_bytes"] == report["model_bytes"]
        assert line in run(*given, *more)[1]


def test_predict_formats_agree(run, folder, tmp_path):
    model, data = load(folder / "model"), read_svm(folder / "test.svm")
    labels, scores = model.predict(data.X, top=3)
    code, tsv, err = run("predict", folder / "model", folder / "test.svm", "--top", 3, "--quiet")
    assert (code, err) == (0, "")
    head, *lines = tsv.splitlines()
    assert head == "row\tlabel\tscore"
    rows, found, values = zip(*(line.split("\t") for line in lines), strict=True)
    assert list(map(int, rows)) == np.repeat(np.arange(50), 3).tolist()
    assert list(map(int, found)) == labels.ravel().tolist()
    np.testing.assert_allclose(np.array(values, float), scores.ravel(), rtol=1e-5)

    out_file = tmp_path / "p.svm"
    command = ("predict", folder / "model", folder / "test.svm", "--top", 3)
    assert run(*command, "-q", "--format", "svm", "-o", out_file) == (0, "", "")
    pairs = [line.split() for line in out_file.read_text().splitlines()]
    flat = [f"{label}:{value}" for label, value in zip(found, values, strict=True)]
    assert [pair for row in pairs for pair in row] == flat
    assert len(pairs) == 50

    code, out, err = run(*command, "--json")
    answer = json.loads(out)
    assert (code, err, answer["rows"]) == (0, "", 50)
    assert [row["labels"] for row in answer["predictions"]] == labels.tolist()
    assert answer["predictions"][7]["row"] == 7


def test_predict_to_a_file_with_json(run, folder, tmp_path):
    target = tmp_path / "p.tsv.gz"
    code, out, _ = run("predict", folder / "model", folder / "test.svm", "--json", "-o", target)
    assert code == 0
    assert json.loads(out)["output"] == str(target)
    assert gzip.decompress(target.read_bytes()).startswith(b"row\tlabel\tscore\n")
    assert [f.name for f in tmp_path.iterdir()] == [target.name]


def test_predict_replaces_a_file_only_with_overwrite(run, refused, folder, tmp_path):
    target = tmp_path / "p.tsv"
    target.write_text("years of work")
    command = ["predict", folder / "model", folder / "test.svm", "-q", "-o"]
    assert "p.tsv: already exists; choose another name, or use --overwrite" in refused(*command, target)
    assert "p.tsv: already exists" in refused("predict", "no-model", "no-data", "-o", target)  # at once
    assert target.read_text() == "years of work"
    assert run(*command, target, "--overwrite") == (0, "", "")
    assert target.read_text().startswith("row\t")
    assert run(*command, os.devnull) == (0, "", "")


def test_quiet_commands_print_only_results(run, folder, tmp_path):
    data, model = folder / "train.svm", tmp_path / "m"
    for command in (
        ["train", data, model],
        ["compress", model, tmp_path / "p", "--prune", "0.01"],
        ["synth", tmp_path / "s", "--scale", "0.01"],
        ["predict", model, data, "-o", tmp_path / "p.tsv"],
    ):
        assert run(*command, "--quiet") == (0, "", "")
    for command, lines in ((["estimate", data], 12), (["evaluate", model, data], 9)):
        code, out, err = run(*command, "-q")
        assert (code, len(out.splitlines())) == (0, lines)
        assert all(line.startswith("note: The data looks like the training") for line in err.splitlines())
    code, out, err = run("evaluate", model, data, "-q", "--json")
    assert set(json.loads(out)) > set(METRIC_KEYS)


def test_predict_needs_no_labels_and_reads_standard_input(folder):
    with shell("predict", folder / "model", "-", "--json", stdin=subprocess.PIPE) as process:
        out, err = process.communicate("1:1 8:1\n 3:0.5\n\n2:1\n")
    assert (process.returncode, err) == (0, "")
    assert json.loads(out)["rows"] == 4


def test_info(run, folder):
    code, out, err = run("info", folder / "model", "--json")
    figures = json.loads(out)
    assert (code, err) == (0, "")
    assert figures["model_bytes"] == disk_bytes(folder / "model")
    assert figures["one_based"] is True
    assert sum(row["weights"] for row in figures["depths"]) == figures["weights"]
    report = json.loads(run("estimate", folder / "train.svm", "--clusters", 5, "--json")[1])
    assert figures["depths"] == report["depths"]
    assert (figures["ovr_bytes"], figures["ovr_ratio"]) == (report["ovr_bytes"], report["ovr_ratio"])
    assert "as one-vs-rest in the same format, ratio " in run("info", folder / "model")[1]
    assert "named labels" in run("info", folder / "named-model")[1]
    out = run("predict", folder / "named-model", folder / "test.svm", "--quiet")[1]
    assert all(line.split("\t")[1].startswith("größe-") for line in out.splitlines()[1:])


def test_synth(run, refused, tmp_path):
    options = ["--like", "eur-lex", "--scale", 0.01, "--seed", 3]
    code, out, err = run("synth", tmp_path / "new" / "s", *options, "--json")
    result = json.loads(out)
    assert (code, err) == (0, "")
    assert read_svm(result["train"]["path"]).n_instances == result["train"]["instances"]
    before = contents(tmp_path)
    assert "train.svm: already exists" in refused("synth", tmp_path / "new" / "s", *options)
    assert run("synth", tmp_path / "new" / "s", *options, "--overwrite", "-q")[:2] == (0, "")
    assert contents(tmp_path) == before
    assert "--like is 'nothing'" in refused("synth", tmp_path / "other", "--like", "nothing")
    assert "--scale is 0.0, expected a positive number;" in refused("synth", tmp_path / "other", "--scale", 0)
    assert not (tmp_path / "other").exists()


def test_demo(run, refused, tmp_path):
    code, out, _ = run("demo", "--out", tmp_path / "d")
    size = disk_bytes(tmp_path / "d" / "model")
    assert code == 0
    assert f"exactly {size:,} bytes" in out
    assert f"{size:,} bytes, as planned" in out
    assert out.count("$ labeltree ") == 5
    assert "already exists" in refused("demo", "--out", tmp_path / "d")


# The index of the first feature


def test_the_first_index_of_test_data_is_that_of_the_training_data(run, tmp_path):
    train, test = tmp_path / "train.svm", tmp_path / "test.svm"
    train.write_text("0 0:1\n1 1:1\n2 2:1\n3 3:1\n" * 5)
    test.write_text("1 1:1\n2 2:1\n")
    assert run("train", train, tmp_path / "m", "-q")[0] == 0
    assert load(tmp_path / "m").one_based is False
    assert json.loads(run("evaluate", tmp_path / "m", test, "--json")[1])["P@1"] == 1
    assert json.loads(run("evaluate", tmp_path / "m", test, "--json", "--one-based")[1])["P@1"] == 0
    predicted = json.loads(run("predict", tmp_path / "m", test, "--json", "--top", 1)[1])
    assert [row["labels"] for row in predicted["predictions"]] == [[1], [2]]


def test_given_first_index(run, refused, folder, tmp_path):
    (tmp_path / "d.svm").write_text("0 1:1\n1 2:1\n")
    assert run("train", tmp_path / "d.svm", tmp_path / "m", "-q", "--zero-based")[0] == 0
    assert load(tmp_path / "m").n_features == 3
    (tmp_path / "d.svm").write_text("0 0:1\n1 2:1\n")
    message = refused("train", tmp_path / "d.svm", tmp_path / "m2", "--one-based")
    assert "d.svm:1:" in message
    assert "--zero-based" in message
    assert "d.svm:1:" in refused("predict", folder / "model", tmp_path / "d.svm")


# Signals and pipes


@pytest.fixture
def hang_up():
    """Let SIGHUP end processes that a test starts, even if the tests run under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("hang_up")
@pytest.mark.parametrize(
    ("sent", "code", "last_line"),
    [
        (signal.SIGINT, 130, "stopped; the same command with --resume continues"),
        (signal.SIGTERM, 143, "training 1 tree, 1 node ..."),
        (signal.SIGHUP, 129, "training 1 tree, 1 node ..."),
    ],
)
def test_a_signal_leaves_the_old_model_as_it_was(folder, tmp_path, sent, code, last_line):
    """It is sent once the first block is being trained, which would go on for ever."""
    data = tmp_path / "data.svm"
    write_svm(data, make_data(300, features=40, labels=30))
    shutil.copytree(folder / "model", tmp_path / "m")
    before = contents(tmp_path / "m")
    endless = ["--tolerance", "1e-30", "--max-iterations", "2000000000", "--cost", "1e6", "--loss", "hinge"]
    with shell("train", data, tmp_path / "m", "--overwrite", *endless) as process:
        deadline = time.monotonic() + PATIENCE
        while not list(tmp_path.glob("m.work/model/tree-0/weights.npy")):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.01)
        process.send_signal(sent)
        try:
            out, err = process.communicate(timeout=PATIENCE)
        finally:
            process.kill()
    assert (process.returncode, out) == (code, "")
    assert err.splitlines()[-1].startswith(last_line)
    assert contents(tmp_path / "m") == before
    assert {f.name for f in tmp_path.iterdir()} == {"m", "m.work", "data.svm"}


def test_a_closed_pipe_is_quiet(folder):
    arguments = [sys.executable, "-m", "labeltree", "predict", folder / "model", folder / "train.svm", "-q"]
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.close()  # before anything was read, as `| true` does
    err = process.stderr.read()
    process.stderr.close()
    assert (process.wait(), err) == (141, b"")
