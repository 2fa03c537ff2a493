"""Errors on the command line: one clear sentence, exit code 2, and nothing lost."""

import contextlib
import errno
import gzip
import json
import os
import shutil

import pytest
from helpers import contents

import labeltree
from labeltree import InputError, load


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "empty"),
        (b"1 1:1\n3,4 1:x\n", ":2:"),
        (b"1:1\n2:1\n", "no line has labels"),
        (gzip.compress(b"1 1:1\n" * 100, mtime=0)[:-10], "truncated"),
    ],
)
def test_bad_data(refused, folder, tmp_path, content, message):
    data = tmp_path / "bad.svm"
    data.write_bytes(content)
    for command in (
        ["estimate", data],
        ["train", data, tmp_path / "m"],
        ["evaluate", folder / "model", data],
    ):
        error = refused(*command)
        assert str(data) in error
        assert message in error
    assert {f.name for f in tmp_path.iterdir()} == {"bad.svm"}


def test_missing_data_and_directories(refused, folder, tmp_path):
    for command in (["estimate"], ["evaluate", folder / "model"], ["predict", folder / "model"]):
        assert "no such file" in refused(*command, tmp_path / "nothing.svm")
        assert "directory" in refused(*command, tmp_path)
    for command in (["evaluate"], ["predict"]):
        assert "no such model" in refused(*command, tmp_path / "nothing", folder / "test.svm")
        assert "is a file" in refused(*command, folder / "test.svm", folder / "test.svm")
        assert "not a model directory" in refused(*command, tmp_path, folder / "test.svm")
    assert "no such directory" in refused("train", folder / "train.svm", tmp_path / "no" / "model")
    assert "no" in refused("predict", folder / "model", folder / "test.svm", "-o", tmp_path / "no" / "p.tsv")
    assert "directory" in refused("predict", folder / "model", folder / "test.svm", "-o", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_more_features_than_the_model_give_one_note(run, folder, tmp_path):
    (tmp_path / "d.svm").write_text("0 1:1 900:1\n1 2:1 901:3\n")
    for command in ("evaluate", "predict"):
        code, out, err = run(command, folder / "model", tmp_path / "d.svm", "--json")
        json.loads(out)
        assert code == 0
        assert err.count("\n") == 1
        assert "ignored" in err


def test_not_enough_memory_or_disk_space(run, refused, folder, tmp_path, monkeypatch):
    command = ["train", folder / "train.svm", tmp_path / "m"]
    error = refused(*command, "--memory-limit", "100kB")
    assert error.endswith(", or use --force to train anyway")
    assert "the data alone need" in error
    with monkeypatch.context() as patched:
        patched.setattr("labeltree.training.plan.free_disk", lambda path: 1000)
        smaller = "use --prune, or fewer --clusters with a larger --max-depth, or use --force to train anyway"
        assert f"are free on this disk; {smaller}" in refused(*command, "--trees", 3)
    assert not (tmp_path / "m").exists()
    assert run(*command, "--memory-limit", "100kB", "--force", "-q")[0] == 0


@pytest.mark.parametrize(
    "error", [MemoryError(), OSError(28, "No space left on device"), PermissionError(13, "No")]
)
def test_errors_of_the_machine_are_no_traceback(run, refused, folder, tmp_path, monkeypatch, error):
    def fail(*arguments, **options):
        raise error

    monkeypatch.setattr("labeltree.training.fill._native.train_strips", fail)
    message = refused("train", folder / "train.svm", tmp_path / "m")
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        what = "the disk is full, but what is trained is kept; free some space, then continue with --resume"
        assert message == f"error: {tmp_path / 'm.work'}: {what}"
        with pytest.raises(InputError, match="then continue with resume=True"):
            labeltree.train(folder / "train.svm", path=tmp_path / "m", resume=True)
    assert [path.name for path in tmp_path.iterdir()] == ["m.work"]
    monkeypatch.undo()
    assert run("train", folder / "train.svm", tmp_path / "m", "--resume", "-q")[0] == 0


@pytest.mark.parametrize(
    ("command", "function", "hint"),
    [
        ("synth {}/s", "labeltree.data.synthetic.synthesize", "use a smaller --scale"),
        ("estimate train.svm", "labeltree.training.train.build_plan", "use a machine with more memory"),
        ("train train.svm {}/m", "labeltree.training.train.build_plan", "run `labeltree estimate`"),
    ],
)
def test_memory_that_runs_out(refused, folder, tmp_path, monkeypatch, command, function, hint):
    def fail(*arguments, **options):
        raise MemoryError

    monkeypatch.chdir(folder)
    monkeypatch.setattr(function, fail)
    assert f"not enough memory; {hint}" in refused(*command.format(tmp_path).split())


def test_spaces_in_file_names_are_kept(refused, tmp_path):
    name = tmp_path / "two  spaces and a\nline"
    assert "/two  spaces and a line: no such file" in refused("estimate", name)


def test_the_target_of_compress_is_checked_before_data_is_read(refused, folder, tmp_path, monkeypatch):
    (tmp_path / "p").mkdir()
    command = [
        "compress",
        folder / "model",
        tmp_path / "p",
        "--max-loss",
        "1%",
        "--validation",
        "nothing.svm",
    ]
    assert "already exists" in refused(*command)
    assert "no such directory" in refused(*command[:2], tmp_path / "no" / "p", *command[3:])
    assert "the same directory" in refused(*command[:2], folder / "model", *command[3:], "--overwrite")
    monkeypatch.setattr("os.access", lambda path, mode: not mode & os.W_OK)
    assert "no write permission" in refused(*command, "--overwrite")


def test_a_disk_that_fails_during_training(refused, folder, tmp_path, monkeypatch):
    @contextlib.contextmanager
    def read_only(writer, name, spec):
        with open(os.devnull, "rb") as file:
            yield file.fileno(), 0

    monkeypatch.setattr("labeltree.model.writer.ModelWriter.reserve", read_only)
    assert "bad file descriptor" in refused("train", folder / "train.svm", tmp_path / "m")
    assert [path.name for path in tmp_path.iterdir()] == ["m.work"]


# Damaged models, and models that exist


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda m: (m / "tree-0/weights.npy").unlink(), "the file is missing"),
        (lambda m: os.truncate(m / "tree-0/weights.npy", 200), "bytes, but the manifest records"),
        (lambda m: (m / "manifest.json").write_text("{"), "cannot be read"),
        (lambda m: (m / "manifest.json").unlink(), "not a model directory"),
    ],
)
def test_damaged_model(refused, folder, tmp_path, damage, message):
    model = tmp_path / "m"
    shutil.copytree(folder / "model", model)
    damage(model)
    for command in (["info", model], ["predict", model, folder / "test.svm"]):
        error = refused(*command)
        assert message in error
        assert str(model) in error


def test_a_model_is_replaced_only_when_the_new_one_is_complete(run, refused, folder, tmp_path):
    model, bad = tmp_path / "m", tmp_path / "bad.svm"
    shutil.copytree(folder / "model", model)
    before = contents(model)
    assert "--overwrite" in refused("train", folder / "train.svm", model)
    bad.write_text("1 1:1\n1 2:x\n")
    refused("train", bad, model, "--overwrite")
    refused("train", folder / "train.svm", model, "--overwrite", "--memory-limit", "1MB")
    assert contents(model) == before
    assert run("train", folder / "train.svm", model, "--overwrite", "--clusters", 3, "-q")[0] == 0
    assert contents(model) != before
    assert load(model).manifest["notes"]["clusters"] == 3
    assert {f.name for f in tmp_path.iterdir()} == {"m", "bad.svm"}


@pytest.mark.parametrize("command", ["estimate", "train"])
def test_a_list_of_names_is_refused(refused, tmp_path, command):
    (tmp_path / "labels.txt").write_text("bread\nbutter\n")
    target = [tmp_path / "m"] if command == "train" else []
    assert "no row has any features" in refused(command, tmp_path / "labels.txt", *target)
    assert not (tmp_path / "m").exists()


def test_errors_and_paths_cannot_control_the_terminal(refused, tmp_path):
    message = refused("info", tmp_path / "a\x1b[31m\x07b\udcff")
    assert "a\\x1b[31m\\x07b\\udcff: no such model directory" in message
