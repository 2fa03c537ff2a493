"""Training on a Dask cluster, with workers in processes of their own: killed, added; the same bytes."""

import json
import os
import signal
import sys
import threading
import time

import numpy as np
import pytest
from helpers import PATIENCE, contents, make_data, random_data, shell

import labeltree
from labeltree import InputError, build_plan
from labeltree.dask import cluster as cluster_module
from labeltree.settings import SolverSettings, TreeSettings
from labeltree.training.fill import train_model
from labeltree.training.parts import fill_part, join_parts, plan_parts

dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")
da = pytest.importorskip("dask.array")

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="module")
def local_cluster(tmp_path_factory):
    with distributed.LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        processes=True,
        dashboard_address=":0",
        local_directory=str(tmp_path_factory.mktemp("workers")),
        silence_logs=50,
    ) as running:
        yield running


@pytest.fixture
def client(local_cluster):
    with distributed.Client(local_cluster) as connected:
        yield connected


@pytest.fixture
def six_parts(monkeypatch):
    monkeypatch.setattr(cluster_module, "choose_parts", lambda *_: 6)


@pytest.mark.parametrize("options", [{}, {"hard_negatives": 3}, {"hard_negatives": 3, "prune": 0.05}])
def test_the_model_has_the_bytes_of_one_machine(client, tmp_path, six_parts, options):
    data, options = make_data(200), {"clusters": 3, "trees": 2, **options}
    here = labeltree.train(data, path=tmp_path / "here", **options)
    there = labeltree.train(data, path=tmp_path / "there", dask=client, **options)
    assert contents(tmp_path / "there") == contents(tmp_path / "here")
    assert not list(tmp_path.glob("*.work"))
    rows = da.from_delayed(dask.delayed(there.predict_matrix)(data.X), data.Y.shape, np.float32)
    assert (rows.compute() != here.predict_matrix(data.X)).nnz == 0


def prepare(tmp_path, hard_negatives=0):
    """A work directory with many strips, and the model of one run; the number of its levels."""
    data = random_data(instances=600, features=100, labels=80, density=0.1)
    plan = build_plan(data, TreeSettings(clusters=3), SolverSettings(hard_negatives=hard_negatives))
    train_model(data, plan, tmp_path / "local")
    plan_parts(data, plan, tmp_path / "work")
    return plan.depth


def wait_until(condition):
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.parametrize("hard_negatives", [0, 3])
def test_a_worker_is_killed_and_one_added(tmp_path, hard_negatives):
    depth = prepare(tmp_path, hard_negatives)
    with (
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            dashboard_address=":0",
            silence_logs=50,
            local_directory=str(tmp_path / "space"),
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        killed = threading.Event()
        victim = next(iter(client.run(os.getpid).values()))

        def kill():
            journals = tmp_path / "work" / "journal"
            # With hard negatives, not every worker trains in every round.
            pattern = "*" if hard_negatives else f"*-{victim}"
            wait_until(lambda: any(f.stat().st_size for f in journals.glob(pattern)))
            os.kill(victim, signal.SIGKILL)
            killed.set()
            cluster.scale(3)

        thread = threading.Thread(target=kill)
        thread.start()
        done = []
        cluster_module.fill_on_cluster(client, tmp_path / "work", 16, progress=done.append)
        thread.join()
        assert killed.is_set()
        for _ in range(depth - 1 if hard_negatives else 0):
            done.clear()
            cluster_module.fill_on_cluster(client, tmp_path / "work", 16, progress=done.append)
        assert done == sorted(done)
        assert done[-1] == 1.0
    join_parts(tmp_path / "work", tmp_path / "m")
    assert contents(tmp_path / "m") == contents(tmp_path / "local")


def test_the_command(tmp_path, folder, local_cluster, run, six_parts):
    options = ["--clusters", "5", "--json"]
    model, address = tmp_path / "m", local_cluster.scheduler_address
    code, out, err = run("train", folder / "train.svm", model, *options, "--dask", address)
    assert (code, err) == (0, "")
    assert json.loads(out)["model_bytes"] == json.loads(out)["planned_bytes"]
    assert contents(model) == contents(folder / "model")
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


def test_ctrl_c_leaves_a_directory_that_can_be_continued(tmp_path, folder, local_cluster, run):
    command = ["train", folder / "train.svm", tmp_path / "m", "--clusters", "5", "--dask"]
    with (
        distributed.LocalCluster(n_workers=0, dashboard_address=":0", silence_logs=50) as empty,
        shell(*command, empty.scheduler_address) as process,
    ):
        lines = iter(process.stderr.readline, "")
        assert any("workers, when there are any" in line for line in lines)
        process.send_signal(signal.SIGINT)
        rest = list(lines)
    assert process.returncode == 130
    assert "m.work` and `labeltree join" in rest[-1]
    assert not any("Traceback" in line for line in rest)
    assert fill_part(tmp_path / "m.work", 1, 2) > 0
    code, _, err = run(*command, local_cluster.scheduler_address, "--resume", "-q")
    assert (code, err) == (0, "")
    assert contents(tmp_path / "m") == contents(folder / "model")


def test_calls_of_the_client_are_not_interrupted():
    """Ctrl-C reaches the main thread, and Dask logs a traceback if it interrupts a call of the client."""
    assert cluster_module.interruptible(threading.current_thread) is not threading.main_thread()
    with pytest.raises(InputError, match="as it was raised"):
        cluster_module.interruptible(raising(InputError("as it was raised")))


def raising(error):
    def call():
        raise error

    return call


def test_a_missing_extra(tmp_path, folder, refused, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    message = refused("train", folder / "train.svm", tmp_path / "m", "--dask", "tcp://127.0.0.1:1")
    assert message.endswith("install it with: pip install 'labeltree[dask]'")


@pytest.mark.parametrize(
    "address", ["tcp://127.0.0.1:1", "nonsense", "tcp://no-such-host.invalid:8786", "x://y"]
)
def test_a_wrong_address(tmp_path, folder, refused, monkeypatch, address):
    monkeypatch.setattr(cluster_module, "_CONNECT_SECONDS", 0.5)
    message = refused("train", folder / "train.svm", tmp_path / "m", "--dask", address)
    assert f"no Dask scheduler can be reached at {address!r}" in message
    assert list(tmp_path.iterdir()) == []
