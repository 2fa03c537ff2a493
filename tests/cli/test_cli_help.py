"""The command line before any work is done: help, shell completion, errors in the arguments, imports."""

import os
import subprocess
import sys

import pytest

from labeltree import __version__
from labeltree.cli.app import COMMANDS


def test_version(run):
    assert run("--version") == (0, f"labeltree {__version__}\n", "")


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_fits_a_terminal(run, monkeypatch, command):
    monkeypatch.setenv("COLUMNS", "80")
    code, out, err = run(*command.split(), "--help")
    assert (code, err) == (0, "")
    assert out.lstrip().startswith(f"Usage: labeltree {command}".rstrip() + " [OPTIONS]")
    assert max(map(len, out.splitlines())) <= 80


def test_help_all(run):
    short, long = run("train", "--help")[1], run("train", "--help-all")[1]
    for option in ("--clusters", "--seed", "--cost", "--weights", "--ngrams"):
        assert option in short
    for option in ("--max-iterations", "--sync", "--tree-rest", "--no-lowercase"):
        assert option not in short
        assert option in long


def test_help_without_arguments(run):
    assert run() == run("--help")


def test_every_command_is_listed_in_one_line(run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    lines = run("--help")[1].split(" Every day ")[1].splitlines()
    listed = [line.strip("\u2502 ") for line in lines if line.startswith("\u2502")]
    assert [line.split()[0] for line in listed] == list(COMMANDS)
    assert all(line.endswith(".") for line in listed)


# Errors in the arguments


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            "train d m --clusters ten",
            "--clusters is 'ten', expected an integer of at least 2; see `labeltree train",
        ),
        ("train d m --clusters 1", "--clusters is 1, expected an integer of at least 2;"),
        ("train d m --clusters 99999999999", "--clusters is 99999999999, expected at most 2,147,483,647;"),
        ("train d m --threads 1.5", "--threads is '1.5', expected an integer from 1 to 1,024;"),
        ("train d m --cost nan", "--cost is nan, expected a number"),
        ("train d m --tolerance 0", "--tolerance is 0.0, expected a positive number"),
        ("train d m --loss squared", "--loss is 'squared', expected one of squared_hinge, hinge, logistic;"),
        ("train d m --memory-limit lots", "--memory-limit is 'lots', expected a number of bytes such as 8GB"),
        ("train d m --clusterz 5", "no such option: --clusterz (Possible options: --clusters, --cost);"),
        ("train d m -x", "no such option: -x; see `labeltree train --help`"),
        ("train d m --clusters", "option '--clusters' requires an argument; see"),
        ("train d m --json=1", "option '--json' does not take a value; see"),
        ("train d", "missing argument 'MODEL'; see `labeltree train --help`"),
        ("demo d", "got unexpected extra argument(s) (d); see `labeltree demo --help`"),
        ("estimate d --weights double", "--weights is 'double', expected one of float32, float16, int8;"),
        ("compress m o --prune -1", "--prune is -1.0, expected a number from 0 to 1e+15;"),
        ("compress m o --weights float32", "--weights is 'float32', expected float16 or int8;"),
        ("predict m d --score cosine", "--score is 'cosine', expected one of sigmoid, hinge2, hinge3;"),
        ("predict m d --score-scale 0", "--score-scale is 0.0, expected a number from 0.001 to 1000;"),
        ("predict m d --format xml", "--format is 'xml', expected one of tsv, csv, jsonl, svm;"),
        ("download mnist", "NAME is 'mnist', expected one of eur-lex,"),
        ("trian d m", "no such command 'trian'; did you mean 'train'?"),
        ("--verson", "no such option: --verson (Possible options: --version); see `labeltree --help`"),
    ],
)
def test_errors_in_the_arguments(refused, arguments, message):
    error = refused(*arguments.split())
    assert error.startswith(f"error: {message}")
    assert error.endswith((" --help`", "?"))
    assert error.count("; ") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("train d m --weights float16 --prune 0.1", "as int8, not as float16; remove --prune or --weights"),
        ("estimate d --tree-rest", "--tree-rest is given without --tree; add --tree FILE"),
        ("estimate d --tree nothing", "nothing: no such file"),
        ("compare m d", "there is nothing to compare; pass two or more models"),
        ("compress m", "no output is given; add OUT, or --report DIR"),
        ("fill w --part 3", "--part is '3', expected a part and the number of parts, such as 3/8"),
    ],
)
def test_options_that_do_not_go_together(refused, arguments, message):
    assert message in refused(*arguments.split())


# Shell completion


def complete(words, shell="bash"):
    """Return what the shell offers for the last of the words."""
    environment = {
        **os.environ,
        "_LABELTREE_COMPLETE": f"complete_{shell}",
        "COMP_WORDS": words,
        "COMP_CWORD": str(words.count(" ")),
        "_TYPER_COMPLETE_ARGS": words,
    }
    command = [sys.executable, "-m", "labeltree"]
    finished = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert finished.stderr == ""
    return finished.stdout.split("\n")[:-1]


@pytest.mark.parametrize(
    ("words", "offers"),
    [
        ("labeltree ", list(COMMANDS)),
        ("labeltree e", ["estimate", "evaluate", "explain"]),
        ("labeltree train --c", ["--clusters", "--cost"]),
        ("labeltree estimate d --loss ", ["squared_hinge", "hinge", "logistic"]),
        ("labeltree predict m d --score h", ["hinge2", "hinge3"]),
        ("labeltree download wiki", ["wiki10-31k", "wiki-500k"]),
        ("labeltree train tr", [""]),  # the shell completes names of files
    ],
)
def test_completion(words, offers):
    assert complete(words) == offers


def test_completion_in_other_shells():
    assert complete("labeltree tra", "zsh") == ["""_arguments '*: :(("train":"Train a model."))'"""]


def test_completion_can_be_installed(run, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr("shellingham.detect_shell", lambda: ("bash", "/bin/bash"))
    with pytest.raises(SystemExit) as stop:
        run("--install-completion")
    assert stop.value.code == 0
    assert "_LABELTREE_COMPLETE" in (tmp_path / ".bash_completions" / "labeltree.sh").read_text()


# Start-up


def test_help_needs_no_large_import():
    program = (
        "import sys; from labeltree.cli import main; code = main(['--help']);"
        "large = {'matplotlib', 'numpy', 'pooch', 'requests', 'scipy', 'sklearn'} & set(sys.modules);"
        "sys.exit(str((code, large or None)))"
    )
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert finished.stderr == "(0, None)\n"


def test_a_command_imports_no_other():
    program = (
        "import sys; from labeltree.cli.app import COMMANDS, main; main(['compress', '--help']);"
        "sys.exit(str([name for name in COMMANDS if f'labeltree.cli.commands.{name}' in sys.modules]))"
    )
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert finished.stderr == "['compress']\n"
