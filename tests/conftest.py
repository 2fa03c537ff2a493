"""Models and data that several test files share, and an environment that does not depend on the machine's."""

import os
import shutil
from pathlib import Path

import pytest
from download_server import published, put_data, running_server
from helpers import make_data, random_data, train_small
from hypothesis import HealthCheck, settings
from hypothesis.database import DirectoryBasedExampleDatabase

from labeltree import Dataset, write_svm
from labeltree.cli import main
from labeltree.data.published import SOURCES

# Output is as wide as on no terminal, without colors; data sets are the tests' own. Subprocesses inherit it.
os.environ |= {"COLUMNS": "100", "LINES": "24", "_TYPER_FORCE_DISABLE_TERMINAL": "1"}
for name in ("FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "PYTHONIOENCODING"):
    os.environ.pop(name, None)
for name in ("LABELTREE_CACHE", "LABELTREE_DATA", "LABELTREE_MIRROR"):
    os.environ.pop(name, None)


def _check_file(file):
    os.fstat(file)


# No test cuts the power, so none has to wait for the disk, which can take longer than all else. Tests still
# check what is synchronized and in which order, and the processes that they start do wait.
os.fsync = os.fdatasync = _check_file

# `make test`: the same examples everywhere, and no limit of time. `make fuzz`: other ones, and more of them.
settings.register_profile(
    "test",
    max_examples=50,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
)
settings.register_profile(
    "fuzz",
    settings.get_profile("test"),
    max_examples=500,
    derandomize=False,
    database=DirectoryBasedExampleDatabase(".hypothesis"),
)
settings.load_profile("test")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    path = tmp_path_factory.mktemp("trained") / "model"
    train_small(path)
    return path


@pytest.fixture
def model_dir(trained, tmp_path):
    return Path(shutil.copytree(trained, tmp_path / "copy"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Data, a model of one tree, and the same data with names for labels."""
    place = tmp_path_factory.mktemp("cli")
    train, test = make_data(400), make_data(50, seed=1)
    write_svm(place / "train.svm", train)
    write_svm(place / "test.svm", test)
    names = tuple(f"größe-{label}" for label in range(train.n_labels))
    write_svm(place / "named.svm", Dataset(train.X, train.Y, names))
    for name, data in (("model", "train.svm"), ("named-model", "named.svm")):
        assert main(["train", str(place / data), str(place / name), "--clusters", "5", "--quiet"]) == 0
    return place


@pytest.fixture
def run(capsys):
    """Run a command in this process: exit code, standard output, standard error."""

    def call(*arguments):
        code = main([str(argument) for argument in arguments])
        return code, *capsys.readouterr()

    return call


@pytest.fixture
def refused(run):
    """Run a command that must fail with one sentence and exit code 2; return the sentence."""

    def call(*arguments):
        code, out, err = run(*arguments)
        assert (code, out) == (2, "")
        errors = [line for line in err.splitlines() if line.startswith("error: ")]
        assert len(errors) == 1
        assert err.endswith(errors[0] + "\n")
        assert "Traceback" not in err
        return errors[0]

    return call


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setattr("time.sleep", lambda seconds: None)  # before a download is tried again
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.setenv(name, "127.0.0.1")
    with running_server() as running:
        monkeypatch.setenv("LABELTREE_MIRROR", running.address)
        yield running


@pytest.fixture
def tiny(server, tmp_path, monkeypatch):
    """A small dataset with the name eur-lex on the server, and a directory for it that does not exist yet."""
    made = put_data(server, tmp_path / "made")
    made.directory = tmp_path / "kept"
    monkeypatch.setitem(SOURCES, "eur-lex", published(made.train, made.test))
    return made


# Published models


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A cache of the test's own for published models, and no waiting."""
    from labeltree.hub import remote

    monkeypatch.setenv("LABELTREE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(remote, "WAIT_SECONDS", 0.0)
    return tmp_path / "cache"


@pytest.fixture
def memory():
    """The file system of fsspec in memory, empty before and after."""
    system = pytest.importorskip("fsspec").filesystem("memory")
    system.store.clear()
    yield system
    system.store.clear()


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    """Another model than `trained`, with one tree instead of two."""
    path = tmp_path_factory.mktemp("other") / "model"
    train_small(path, random_data(seed=1, names=True), trees=1)
    return path
