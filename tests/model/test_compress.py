"""Compact copies of a model: complete, smaller, and written entirely or not at all; and the command."""

import json
from dataclasses import replace

import numpy as np
import pytest
from helpers import contents, disk_bytes, make_data, random_data, train_small

from labeltree import InputError, load, write_svm
from labeltree.cli import main
from labeltree.model.pack import sparse_bytes, write_compact
from labeltree.model.writer import new_model
from labeltree.settings import SolverSettings, StorageSettings

FORMS = ({"weights": "float16"}, {"weights": "int8"}, {"prune": 0.0}, {"prune": 0.1})


@pytest.fixture(scope="module")
def unbiased(tmp_path_factory):
    path = tmp_path_factory.mktemp("unbiased") / "model"
    train_small(path, random_data(), settings=SolverSettings(bias=0))
    return path


@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize("which", ["trained", "unbiased"])
def test_a_copy_keeps_all_but_the_weights(request, tmp_path, which, form):
    model = load(request.getfixturevalue(which))
    small = model.compress(tmp_path / "small", **form)
    assert small.bytes == disk_bytes(tmp_path / "small")
    assert load(tmp_path / "small", verify=True).codec == small.codec == form.get("weights", "sparse")
    for name in ("label_counts.npy", "tree-0/child_ptr.npy", "tree-1/children.npy"):
        assert (tmp_path / "small" / name).read_bytes() == (model.path / name).read_bytes()
    for key in ("instances", "features", "labels", "one_based", "trees", "settings", "notes", "score"):
        assert small.manifest.get(key) == model.manifest.get(key)
    assert small.manifest.get("pruned") == ({"threshold": form["prune"]} if "prune" in form else None)
    assert "pruned" not in model.manifest
    assert small.label_names == model.label_names
    assert [entry.name for entry in tmp_path.iterdir()] == ["small"]


def test_a_model_is_not_compressed_into_itself(model_dir):
    before = contents(model_dir.parent)
    link = model_dir.parent / "link"
    link.symlink_to(model_dir)
    for same in (model_dir, link, model_dir / ".." / model_dir.name):
        with pytest.raises(InputError, match="the same directory as the model"):
            load(model_dir).compress(same, overwrite=True)
    link.unlink()
    with pytest.raises(InputError, match="is inside the model"):
        load(model_dir).compress(model_dir / "small")
    with pytest.raises(InputError, match="contains the model"):
        load(model_dir).compress(model_dir.parent, overwrite=True)
    assert contents(model_dir.parent) == before


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_an_interrupt_leaves_nothing_new(trained, model_dir, monkeypatch, error):
    before = contents(model_dir.parent)

    def stop(*_, **__):
        raise error

    monkeypatch.setattr("labeltree.model.pack.write_small", stop)
    for target in (model_dir, model_dir.parent / "new"):
        with pytest.raises(error):
            load(trained).compress(target, overwrite=True)
    assert contents(model_dir.parent) == before
    assert len(list(model_dir.parent.iterdir())) == 1


def test_progress_rises_to_the_end(trained, tmp_path):
    for number, options in enumerate(({"prune": 0.1}, {"max_size": "1GB"}, {"max_size": 9000})):
        seen = []
        load(trained).compress(tmp_path / str(number), **options, progress=seen.append)
        assert seen == sorted(seen)
        assert seen[-1:] in ([], [1])


# The command


def test_the_command(run, folder, tmp_path):
    code, out, err = run("compress", folder / "model", tmp_path / "p", "--prune", 0.3, "--json")
    figures = json.loads(out)
    assert (code, err) == (0, "")
    assert figures["bytes_before"] == disk_bytes(folder / "model")
    assert figures["model_bytes"] == disk_bytes(tmp_path / "p")
    assert (figures["weights"], figures["threshold"]) == ("int8", 0.3)
    assert figures["nonzeros"] == load(tmp_path / "p").manifest["weights"]
    assert figures["P@1"] is figures["P@3"] is figures["P@5"] is None
    (tried,) = figures["tried"]
    assert tried.items() <= figures.items()
    code, out, err = run("compress", folder / "model", tmp_path / "p", "--prune", 0.3, "--overwrite")
    assert code == 0
    assert f"{figures['nonzeros']:,} weights kept as int8; those below 0.3 were dropped" in out
    assert f"{figures['bytes_before']:,} -> {figures['model_bytes']:,} bytes" in out
    assert [line.split()[0] for line in err.splitlines()] == ["opening", "compressing"]
    assert run("compress", folder / "model", tmp_path / "q", "--prune", 0.3, "-q") == (0, "", "")
    assert contents(tmp_path / "p") == contents(tmp_path / "q")
    assert (
        "all weights as float16"
        in run("compress", folder / "model", tmp_path / "r", "--weights", "float16")[1]
    )


def test_the_command_evaluates_what_it_writes(run, folder, tmp_path):
    command = ("compress", folder / "model", tmp_path / "p", "--validation", folder / "test.svm")
    code, out, err = run(*command, "--json")
    figures = json.loads(out)
    assert code == 0
    assert err == f"note: The threshold was chosen again: {load(tmp_path / 'p').decision}.\n"
    before, after = figures["tried"]
    assert (before["weights"], after["weights"], after["threshold"]) == ("float32", "int8", None)
    for model, trial in ((folder / "model", before), (tmp_path / "p", after)):
        found = load(model).evaluate(folder / "test.svm")
        for name in ("P@1", "P@3", "P@5"):
            assert trial[name] == pytest.approx(found[name], abs=1e-6)
    assert all(figures[key] == value for key, value in after.items())


def test_a_budget_on_the_command_line(run, folder, tmp_path):
    model, test = folder / "model", folder / "test.svm"
    command = ("compress", model, tmp_path / "p", "--max-loss", "1%", "--validation", test)
    code, out, _ = run(*command)
    assert code == 0
    head, *lines = out.splitlines()
    assert head.split() == [
        *["weights", "threshold", "non-zeros", "bytes", "P@1", "P@3", "P@5", "loss", "at", "most"]
    ]
    trials = [line for line in lines if line.lstrip().startswith(("float", "int"))]
    assert trials[0].split()[:3] == ["float32", "-", "-"]
    assert any(line.startswith("loss     P@1 ") and line.endswith("with 95% intervals") for line in lines)
    assert [line.endswith("*") for line in trials].count(True) == 1
    figures = json.loads(run(*command, "--overwrite", "--json")[1])
    assert len(figures["tried"]) == len(trials)
    assert [f"{trial['model_bytes']:,}" for trial in figures["tried"]] == [line.split()[3] for line in trials]
    for k in (1, 3, 5):
        assert figures[f"P@{k}"] >= figures["tried"][0][f"P@{k}"] - 1 - 1e-9
    assert figures["model_bytes"] == disk_bytes(tmp_path / "p") < 0.8 * disk_bytes(model)
    limit = figures["model_bytes"]
    assert run("compress", model, tmp_path / "q", "--max-size", limit, "-q") == (0, "", "")
    assert disk_bytes(tmp_path / "q") <= limit
    assert sorted(path.name for path in tmp_path.iterdir()) == ["p", "q"]


def test_info_and_explain_take_a_compact_model(run, folder, tmp_path):
    model = folder / "model"
    assert run("compress", model, tmp_path / "p", "--prune", 0.25, "-q")[0] == 0
    shown = run("info", tmp_path / "p")[1]
    stored = load(tmp_path / "p").manifest["weights"]
    assert f"stored   {stored:,} non-zero weights as int8" in shown
    assert "pruned   weights with an absolute value below 0.25" in shown
    figures = json.loads(run("info", tmp_path / "p", "--json")[1])
    assert (figures["codec"], figures["pruned"]["threshold"], figures["weights"]) == ("sparse", 0.25, stored)
    assert figures["float32_bytes"] is None
    assert run("compress", model, tmp_path / "h", "--weights", "float16", "-q")[0] == 0
    assert "stored   all weights as float16, " in run("info", tmp_path / "h")[1]
    figures = json.loads(run("info", tmp_path / "h", "--json")[1])
    assert figures["float32_bytes"] == disk_bytes(model)
    shown = run("info", model)[1]
    assert "stored" not in shown
    assert "pruned" not in shown
    assert json.loads(run("info", model, "--json")[1])["codec"] == "float32"
    for small in ("p", "h"):
        assert run("explain", tmp_path / small, "1:1", "8:1")[0] == 0
        assert run("info", tmp_path / small, "--label", "3")[0] == 0


def test_mistakes(refused, folder, tmp_path):
    model, out = folder / "model", tmp_path / "p"
    test = ("--validation", folder / "test.svm")
    assert "no such model" in refused("compress", tmp_path / "nothing", out)
    assert "is a file, not a directory" in refused("compress", folder / "test.svm", out)
    assert "the same directory" in refused("compress", model, model, "--overwrite")
    assert "already exists" in refused("compress", model, folder / "named-model")
    assert "add --data or --validation, or use --max-size" in refused(
        "compress", model, out, "--max-loss", 0.001
    )
    both = refused("compress", model, out, "--max-loss", 0.001, "--max-size", "1MB", *test)
    assert "remove --max-loss or --max-size" in both
    for given in (("--prune", 0.1), ("--weights", "int8")):
        error = refused("compress", model, out, *given, "--max-size", "1MB")
        assert error.endswith(
            f"cannot be combined with a budget, which chooses it; remove {given[0]} or --max-size"
        )
    assert "not as float16; remove --prune or --weights" in refused(
        "compress", model, out, "--prune", 0.1, "--weights", "float16"
    )
    error = refused("compress", model, out, "--max-size", 100)
    assert "the smallest possible size is " in error
    assert error.endswith("; use a larger --max-size")
    assert "no such file" in refused("compress", model, out, "--validation", tmp_path / "no.svm")
    assert list(tmp_path.iterdir()) == []
    write_svm(tmp_path / "wide.svm", make_data(20, features=99))
    error = refused("compress", model, out, "--max-loss", "1%", "--validation", tmp_path / "wide.svm")
    assert "the data has 99 features, but the model has 60" in error
    (tmp_path / "none.svm").write_text("1:1 2:1\n3:1\n")
    assert "label" in refused(
        "compress", model, out, "--max-loss", "1%", "--validation", tmp_path / "none.svm"
    )
    (tmp_path / "text.tsv").write_text("1\tsome words\n")
    error = refused("compress", model, out, "--max-loss", "1%", "--validation", tmp_path / "text.tsv")
    assert "the file is text, but the model" in error
    assert not out.exists()
    assert main(["compress", str(model), str(out), "-q"]) == 0
    error = refused(
        "compress", out, tmp_path / "again", "--max-loss", "1%", "--validation", tmp_path / "no.svm"
    )
    assert "the model is already compact" in error
    assert "; compress the float32 model" in error
    assert not (tmp_path / "again").exists()


def test_an_interrupted_command(folder, tmp_path, capsys, monkeypatch):
    calls = []

    def stop(self, *_, **__):
        calls.append(list(tmp_path.iterdir()))
        if len(calls) == 3:
            raise KeyboardInterrupt
        return predict(self, *_, **__)

    predict = load(folder / "model").predict.__func__
    monkeypatch.setattr("labeltree.model.model.Model.predict", stop)
    command = ["compress", folder / "model", tmp_path / "p", "--max-loss", "1%"]
    assert main([*map(str, command), "--validation", str(folder / "test.svm")]) == 130
    assert capsys.readouterr().err.endswith("stopped\n")
    assert all(len(seen) == 1 for seen in calls)  # one temporary directory, next to the output
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("place", [0, -1])  # the last row of a block belongs to the bias
def test_weights_that_are_not_finite_are_refused(trained, tmp_path, bad, place):
    part = load(trained).trees[0]
    weights = np.array(part.weights)
    weights[part.weight_ptr[1] + place] = bad
    damaged = replace(part, weights=weights)
    with pytest.raises(InputError, match="not finite"):
        sparse_bytes([damaged], np.array([0.1]), 1)
    with new_model(tmp_path / "m", False) as writer, pytest.raises(InputError, match="not finite"):
        write_compact(writer, [damaged], StorageSettings("int8"), 1)
