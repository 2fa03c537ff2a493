"""Standard streams that are closed or full: the work is done, and nothing is reported that is not so."""

import os
import re
import subprocess
import sys

import pytest
from helpers import contents

import labeltree
from labeltree import InputError, load
from labeltree import __main__ as program

PYTHON = f"{sys.executable} -m labeltree"
needs_full = pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")


def shell(command, **options):
    return subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False, **options)


def train(folder, model, redirection):
    return shell(f"{PYTHON} train {folder}/train.svm {model} --clusters 5 --threads 1 {redirection}")


@pytest.mark.parametrize("redirection", ["2>&-", "2>&- <&-", pytest.param("2>/dev/full", marks=needs_full)])
def test_messages_that_cannot_be_written_do_not_stop_the_work(folder, tmp_path, redirection):
    done = train(folder, tmp_path / "m", redirection)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("model ")
    assert load(tmp_path / "m").n_labels == 40
    assert [entry.name for entry in tmp_path.iterdir()] == ["m"]
    done = shell(f"{PYTHON} info {tmp_path}/nothing {redirection}")
    assert (done.returncode, done.stdout, done.stderr) == (2, "", "")


@pytest.mark.parametrize("redirection", [">&-", ">&- <&-", pytest.param(">/dev/full", marks=needs_full)])
def test_results_that_cannot_be_written_are_an_error_and_the_model_stays(folder, tmp_path, redirection):
    done = train(folder, tmp_path / "m", redirection)
    assert done.returncode == 2
    *_, last = done.stderr.splitlines()
    assert re.fullmatch(r"error: standard output cannot be written \((bad file|no space).*\)", last)
    assert "Traceback" not in done.stderr
    assert load(tmp_path / "m").n_labels == 40
    assert contents(tmp_path / "m").keys() == contents(folder / "model").keys()


@pytest.mark.parametrize(
    "command", ["--help", "--version", "info {model}", "predict {model} {data}", "train --help"]
)
@pytest.mark.parametrize("redirection", [">&-", pytest.param(">/dev/full", marks=needs_full)])
def test_every_output_is_checked(folder, command, redirection):
    arguments = command.format(model=folder / "model", data=folder / "test.svm")
    done = shell(f"{PYTHON} {arguments} {redirection}")
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("error: standard output cannot be written (")
    assert "Traceback" not in done.stderr
    assert "Exception" not in done.stderr


@pytest.mark.parametrize("redirection", [">&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_without_results_closed_output_is_no_error(folder, tmp_path, redirection):
    done = train(folder, tmp_path / "m", f"--quiet {redirection}")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    output = tmp_path / "p.tsv"
    command = f"{PYTHON} predict {tmp_path}/m {folder}/test.svm -o {output} --quiet {redirection}"
    assert shell(command).returncode == 0
    assert output.read_text().startswith("row\tlabel\tscore\n0\t")
    # No file got the number of a closed stream, and so what is printed to it.
    assert load(tmp_path / "m", verify=True).n_labels == 40


def test_closed_input_is_empty(folder):
    done = shell(f"{PYTHON} predict {folder}/model - <&-")
    assert (done.returncode, done.stdout) == (2, "")
    assert "error: standard input: the input is empty" in done.stderr


# Too little memory to open what was written


@pytest.mark.parametrize("error", [MemoryError, OSError(12, "Cannot allocate memory")])
def test_a_model_that_cannot_be_opened_is_not_called_damaged(trained, monkeypatch, error):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr("mmap.mmap", fail)
    with pytest.raises(InputError, match=r"\.npy: not enough memory to open the file of .* B; raise"):
        load(trained)


def test_an_error_of_the_disk_is_reported_as_such(trained, monkeypatch):
    def fail(*_, **__):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("mmap.mmap", fail)
    with pytest.raises(InputError, match=r"\.npy: cannot be read \(Input/output error\)$"):
        load(trained)


@pytest.mark.parametrize("command", ["train", "compress"])
def test_a_model_that_was_written_is_called_complete(folder, tmp_path, refused, monkeypatch, command):
    def fail(*_, **__):
        raise MemoryError

    load_model = labeltree.model.model.load
    with monkeypatch.context() as patch:
        patch.setattr("labeltree.model.model.load", fail)
        source = folder / "train.svm" if command == "train" else folder / "model"
        if command == "compress":
            patch.setattr(
                "labeltree.model.model.load",
                lambda path, **options: fail() if path == tmp_path / "m" else load_model(path, **options),
            )
        message = refused(command, source, tmp_path / "m")
    assert f"{tmp_path}/m: the model is complete, but could not be opened: not enough memory; open" in message
    assert "--force" not in message
    assert load(tmp_path / "m", verify=True).n_labels == 40


def test_ctrl_c_while_the_program_is_imported(tmp_path, monkeypatch, capsys):
    (tmp_path / "cli.py").write_text("raise KeyboardInterrupt")
    monkeypatch.delitem(sys.modules, "labeltree.cli")
    monkeypatch.setattr(labeltree, "__path__", [str(tmp_path)])
    assert program.run() == 130
    assert capsys.readouterr().err == "stopped\n"
