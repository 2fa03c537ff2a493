"""Every kind of model predicts, and is evaluated, saved, pickled and verified in the same way."""

import pickle

import numpy as np
import pytest
from helpers import contents, disk_bytes, random_data

from labeltree import Dataset, LabelTree, LabelTreeClassifier, build_tree, load, make_plan, train_model
from labeltree.settings import StorageSettings
from labeltree.training.parts import fill_part, join_parts, plan_parts

DATA = random_data(names=True, instances=120)
STORAGES = {"float16": StorageSettings("float16"), "int8": StorageSettings("int8")}
STORAGES["sparse"] = StorageSettings(prune=0.05)
KINDS = ("float32", *STORAGES, "normalized", "text", "given tree", "resumed", "parts", "estimator")


def plan(kind, data=DATA):
    tree = LabelTree.from_nested([[0, 1, 2], [3, 4, 5, 6], [7, 8, 9, 10, 11]])
    trees = tree if kind == "given tree" else [build_tree(data, clusters=3, seed=seed) for seed in range(2)]
    return make_plan(data, trees, storage=STORAGES.get(kind), threads=1)


def stop(*_):
    raise KeyboardInterrupt


@pytest.fixture(scope="module", params=KINDS)
def made(request, tmp_path_factory):
    """Make a model of one kind; return it with rows to predict."""
    place, kind = tmp_path_factory.mktemp("contract"), request.param
    path = place / "model"
    if kind == "text":
        from labeltree import train

        rows = [f"{word} {other}" for word in ("tea", "oak", "car") for other in ("red", "blue")]
        lines = [f"{text},{text.split()[0]}" for text in rows]
        (place / "train.csv").write_text("\n".join(["text,labels", *lines]))
        return train(place / "train.csv", path=path, clusters=2, threads=1), rows, place / "train.csv"
    if kind == "parts":
        plan_parts(DATA, plan(kind), place / "work")
        for part in (2, 1):
            fill_part(place / "work", part, 2, threads=1)
        join_parts(place / "work", path, threads=1)
    elif kind == "estimator":
        LabelTreeClassifier(clusters=3, threads=1).fit(DATA.X, DATA.Y).save(path)
        return load(path), DATA.X, Dataset(DATA.X, DATA.Y)
    else:
        data = DATA.normalize() if kind == "normalized" else DATA
        if kind == "resumed":
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr("labeltree.model.writer.ModelWriter.finish", stop)
                with pytest.raises(KeyboardInterrupt):
                    train_model(data, plan(kind), path)
        train_model(data, plan(kind, data), path, resume=kind == "resumed")
    return load(path), DATA.X, DATA


def same(one, other):
    return all(np.array_equal(a, b) for part in range(2) for a, b in zip(one[part], other[part], strict=True))


@pytest.mark.filterwarnings("ignore:The data looks like the training data")
def test_predict_and_evaluate(made):
    model, rows, data = made
    labels, scores = model.predict(rows, top=2, threads=1)
    assert same((labels, scores), model.predict(rows, top=2, threads=2))
    assert all(0 <= score <= 1 for row in scores for score in row)
    metrics = model.evaluate(data)
    assert metrics.rows == len(labels)
    assert 0.3 < metrics["P@1"] <= 1


def test_save_pickle_and_verify(made, tmp_path):
    model, rows, _ = made
    assert model.bytes == disk_bytes(model.path)
    model.verify()
    model.save(tmp_path / "copy")
    assert contents(tmp_path / "copy") == contents(model.path)
    for copy in (load(tmp_path / "copy", verify=True), pickle.loads(pickle.dumps(model))):
        copy.verify()
        assert same(copy.predict(rows), model.predict(rows))
