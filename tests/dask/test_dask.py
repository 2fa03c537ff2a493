"""Training on a Dask cluster, with workers in processes of their own: killed, added; the same bytes."""

import json
import os
import pickle
import signal
import sys
import threading
import time

import numpy as np
import pytest
from helpers import PATIENCE, contents, make_data, random_data, shell
from scipy import sparse
from sklearn.base import clone

from labeltree import InputError, LabelTreeClassifier, TextSettings, build_plan, load
from labeltree.dask import DaskLabelTreeClassifier
from labeltree.dask import cluster as cluster_module
from labeltree.settings import TreeSettings
from labeltree.training.fill import train_model
from labeltree.training.parts import fill_part, join_parts, plan_parts

distributed = pytest.importorskip("distributed")
da = pytest.importorskip("dask.array")
bag = pytest.importorskip("dask.bag")

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


def blocks(matrix, rows=50):
    """A dask array of sparse blocks."""
    parts = [matrix[i : i + rows] for i in range(0, matrix.shape[0], rows)]
    meta = sparse.csr_matrix((0, 0), dtype=matrix.dtype)
    return da.concatenate([da.from_array(p, chunks=p.shape, asarray=False, meta=meta) for p in parts])


@pytest.fixture(scope="module")
def fitted():
    data = make_data(200)
    return data, LabelTreeClassifier(clusters=4, trees=2, positive_cost=2.0).fit(data.X, data.Y)


@pytest.mark.parametrize("form", ["sparse", "dense", "memory"])
def test_the_model_has_the_bytes_of_one_machine(client, tmp_path, fitted, six_parts, form):
    data, local = fitted
    X, Y = data.X, data.Y
    if form == "sparse":
        X, Y = blocks(X), blocks(Y, 30)
    elif form == "dense":
        X, Y = (da.from_array(m.toarray(), chunks=(60, 25)) for m in (X, Y))
    made = DaskLabelTreeClassifier(client, work_dir=tmp_path, clusters=4, trees=2, positive_cost=2.0).fit(
        X, Y
    )
    assert made.client_ is client
    made.save(tmp_path / "made")
    local.save(tmp_path / "local")
    assert contents(tmp_path / "made") == contents(tmp_path / "local")


def test_prediction_in_partitions(client, fitted):
    data, local = fitted
    made = DaskLabelTreeClassifier(client, clusters=4, trees=2, positive_cost=2.0).fit(data.X, data.Y)
    X = blocks(data.X)
    for method in ("predict", "predict_proba", "decision_function"):
        lazy, now = getattr(made, method)(X), getattr(local, method)(data.X)
        assert lazy.shape == now.shape
        assert lazy.dtype == now.dtype
        assert lazy.numblocks[0] == X.numblocks[0]
        parts = client.gather(client.compute(list(lazy.to_delayed().ravel())))
        assert (sparse.vstack(parts) != now).nnz == 0
        assert (getattr(made, method)(data.X) != now).nnz == 0
    labels, scores = made.predict_top(X, 3)
    assert labels.shape == (200, 3)
    for lazy, now in zip((labels, scores), local.predict_top(data.X, 3), strict=True):
        np.testing.assert_array_equal(lazy.compute(), now)
    top = made.predict(X, top=2)
    assert made.score(X, blocks(data.Y)) == pytest.approx(local.score(data.X, data.Y))
    del made  # the results keep the directory of the model
    assert client.compute(top.to_delayed()[0, 0]).result().sum() == 100


def test_copies(client, tmp_path, fitted):
    data, local = fitted
    made = DaskLabelTreeClassifier(client, work_dir=tmp_path, clusters=4, trees=2, positive_cost=2.0)
    assert clone(made).client is client
    made.fit(data.X, data.Y)
    (place,) = tmp_path.iterdir()
    mine = made.to_local()
    assert type(mine) is LabelTreeClassifier
    assert mine.get_params() == local.get_params()
    copy = pickle.loads(pickle.dumps(made))
    assert copy.client is None
    made.save(tmp_path / "saved")
    del made
    assert not place.exists()
    wanted = local.predict_top(data.X, 4)[0]
    np.testing.assert_array_equal(mine.predict_top(data.X, 4)[0], wanted)
    loaded = DaskLabelTreeClassifier.load(tmp_path / "saved")
    for estimator in (copy, loaded):
        estimator.client = client
        np.testing.assert_array_equal(estimator.predict_top(blocks(data.X), 4)[0].compute(), wanted)


def test_one_class_per_row(client):
    data = make_data(120)
    classes = np.array([f"c{j % 5}" for j in np.asarray(data.Y.argmax(axis=1)).ravel()])
    local = LabelTreeClassifier(clusters=3).fit(data.X, classes)
    X = blocks(data.X, 40)
    made = DaskLabelTreeClassifier(client, clusters=3).fit(X, da.from_array(classes, chunks=40))
    assert made.classes_.tolist() == local.classes_.tolist()
    assert made.predict(X).compute().tolist() == local.predict(data.X).tolist()
    np.testing.assert_array_equal(made.predict_proba(X).compute(), local.predict_proba(data.X))


def documents():
    rng = np.random.default_rng(0)
    texts = [" ".join(f"w{w}" for w in rng.integers(i % 7 * 3, i % 7 * 3 + 9, 6)) for i in range(90)]
    return texts, [[f"l{i % 7}", f"m{i % 3}"] if i % 10 else [] for i in range(90)]


def test_text(client, tmp_path, run):
    texts, labels = documents()
    lines = (json.dumps({"text": t, "labels": n}) for t, n in zip(texts, labels, strict=True))
    (tmp_path / "d.jsonl").write_text("\n".join(lines))
    assert run("train", tmp_path / "d.jsonl", tmp_path / "m", "--clusters", "3", "--min-df", "2")[0] == 0
    X, y = bag.from_sequence(texts, npartitions=3), bag.from_sequence(labels, npartitions=3)
    made = DaskLabelTreeClassifier(client, work_dir=tmp_path, clusters=3, text=TextSettings(min_df=2)).fit(
        X, y
    )
    assert contents(made.model_.path) == contents(tmp_path / "m")
    model = load(tmp_path / "m")
    wanted = model.predict(model.text.transform(texts), top=3)[0]
    np.testing.assert_array_equal(made.predict_top(X, 3)[0].compute(), wanted)
    np.testing.assert_array_equal(made.predict_top(texts, 3)[0], wanted)


def test_data_frames(client, tmp_path):
    pandas = pytest.importorskip("pandas")
    dd = pytest.importorskip("dask.dataframe")
    texts, _ = documents()
    frame = pandas.DataFrame({"text": texts, "class": [f"c{i % 7}" for i in range(90)]})
    lazy = dd.from_pandas(frame, npartitions=3)
    made = DaskLabelTreeClassifier(client, clusters=3).fit(lazy["text"], lazy["class"])
    empty = lazy[lazy["class"] == "c0"].partitions[:1]["text"]
    assert made.predict(lazy[["text"]]).compute().tolist() == made.predict(texts).tolist()
    assert set(made.predict(empty[empty == ""]).compute()) == set()
    numbers = pandas.DataFrame(np.eye(90, 12), columns=[f"f{j}" for j in range(12)])
    X, Y = (dd.from_pandas(f, npartitions=2) for f in (numbers, (numbers > 0).astype(int)))
    wide = DaskLabelTreeClassifier(client, clusters=3).fit(X, Y)
    assert wide.feature_names_in_.tolist() == list(numbers)
    assert wide.classes_.tolist() == list(numbers)
    assert wide.score(X, Y) == LabelTreeClassifier(clusters=3).fit(numbers, numbers).score(numbers, numbers)


def prepare(tmp_path):
    """A work directory with many panels, and the model of one run."""
    data = random_data(instances=600, features=100, labels=80, density=0.1)
    plan = build_plan(data, TreeSettings(clusters=3))
    train_model(data, plan, tmp_path / "local")
    plan_parts(data, plan, tmp_path / "work")


def wait_until(condition):
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_worker_is_killed_and_one_added(tmp_path):
    prepare(tmp_path)
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
            wait_until(lambda: any(f.stat().st_size for f in journals.glob(f"*-{victim}")))
            os.kill(victim, signal.SIGKILL)
            killed.set()
            cluster.scale(3)

        thread = threading.Thread(target=kill)
        thread.start()
        done = []
        cluster_module.fill_on_cluster(client, tmp_path / "work", 16, progress=done.append)
        thread.join()
        assert killed.is_set()
        assert done == sorted(done)
        assert done[-1] == 1.0
    join_parts(tmp_path / "work", tmp_path / "m")
    assert contents(tmp_path / "m") == contents(tmp_path / "local")


def test_an_adaptive_cluster(tmp_path, fitted, six_parts):
    data, local = fitted
    with (
        distributed.LocalCluster(
            n_workers=0,
            threads_per_worker=1,
            dashboard_address=":0",
            silence_logs=50,
            local_directory=str(tmp_path / "space"),
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        cluster.adapt(minimum=0, maximum=2, interval="100ms")
        made = DaskLabelTreeClassifier(client, clusters=4, trees=2, positive_cost=2.0).fit(
            blocks(data.X), blocks(data.Y)
        )
        np.testing.assert_array_equal(made.predict_top(data.X)[1], local.predict_top(data.X)[1])


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
        assert any("The cluster has no workers" in line for line in lines)
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


def test_what_cannot_be_trained(client, tmp_path):
    data = make_data(100)
    made = DaskLabelTreeClassifier(client, work_dir=tmp_path)
    for X, y, message in (
        (blocks(data.X), data.Y, "only one of X and y is a Dask collection"),
        (blocks(data.X), blocks(data.Y)[:50], "X has 2 partitions and y has 1"),
        (data.X, None, "y is None"),
        (blocks(data.X), da.from_array(np.full((100, 2), 3)), "partition|value 3"),
        (data.X, data.Y[:50], "X has 100 rows and that of y has 50"),
    ):
        with pytest.raises(InputError, match=message):
            made.fit(X, y)
    with pytest.raises(InputError, match="no such directory"):
        DaskLabelTreeClassifier(client, work_dir=tmp_path / "nowhere").fit(data.X, data.Y)
    with pytest.raises(InputError, match="does not see the directory"):
        client.submit(cluster_module.check_visible, str(tmp_path / "nowhere")).result()
    assert list(tmp_path.iterdir()) == []


def test_no_client():
    with pytest.raises(InputError, match="there is no Dask client"):
        _ = DaskLabelTreeClassifier().client_
