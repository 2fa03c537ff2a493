"""Training in parts: any order, twice, killed; the model has the same bytes as that of one run."""

import json
import random

import pytest
from helpers import contents, make_data, random_data

from labeltree import InputError, build_plan, load
from labeltree.settings import ScoreSettings, SolverSettings, StorageSettings, TreeSettings
from labeltree.training.fill import train_model
from labeltree.training.parts import fill_part, join_parts, plan_parts


def plan_of(data, storage=None):
    settings = SolverSettings(positive_cost=(2.0, 1.0))
    return build_plan(data, TreeSettings(clusters=3, max_depth=4, trees=2), settings, storage, threads=2)


DATA = make_data(80, features=30, labels=25)


def prepare(tmp_path, storage=None):
    plan_parts(DATA, plan_of(DATA, storage), tmp_path / "work")


@pytest.mark.parametrize(
    "storage", [None, StorageSettings("float16"), StorageSettings("int8"), StorageSettings(prune=0.05)]
)
@pytest.mark.parametrize("score", ["auto", ScoreSettings("hinge3")])
def test_parts_in_any_order_give_the_bytes_of_one_run(tmp_path, storage, score):
    data = random_data(names=True) if score == "auto" else DATA
    plan, notes = plan_of(data, storage), {"by": "test"}
    train_model(data, plan, tmp_path / "at-once", score=score, notes=notes)
    plan_parts(data, plan, tmp_path / "work", score=score, notes=notes)
    order = [1, 2, 3, 4, 5, 2, 5]
    random.Random(0).shuffle(order)
    missing = [fill_part(tmp_path / "work", part, 5, threads=1) for part in order]
    assert missing[0] > 0
    assert missing[-1] == 0
    assert join_parts(tmp_path / "work", tmp_path / "m").n_labels == data.n_labels
    assert contents(tmp_path / "m") == contents(tmp_path / "at-once")
    assert {path.name for path in tmp_path.iterdir()} == {"m", "at-once"}


def test_parts_of_text(tmp_path, run):
    (tmp_path / "train.tsv").write_text(
        "".join(f"a{i % 7} b{i % 5} c\tx{i % 7},y{i % 5}\n" for i in range(60))
    )
    options = ["--clusters", "3", "--min-df", "1", "--json"]
    assert run("train", tmp_path / "train.tsv", tmp_path / "at-once", *options)[0] == 0
    code, out, _ = run("plan", tmp_path / "train.tsv", tmp_path / "work", *options)
    assert code == 0
    assert json.loads(out)["strips"] > 2
    assert json.loads(out)["data"]["rows"] == 60
    for part in ("2/3", "1/3", "3/3"):
        code, out, _ = run("fill", tmp_path / "work", "--part", part, "--json")
        assert code == 0
    assert json.loads(out)["missing"] == 0
    code, out, _ = run("join", tmp_path / "work", tmp_path / "m", "--json")
    assert code == 0
    assert contents(tmp_path / "m") == contents(tmp_path / "at-once")
    assert load(tmp_path / "m").text is not None


def test_what_is_missing_is_counted(tmp_path, refused):
    prepare(tmp_path)
    before = contents(tmp_path / "work")
    assert "strips are not trained yet" in refused("join", tmp_path / "work", tmp_path / "m")
    assert contents(tmp_path / "work") == before
    missing = fill_part(tmp_path / "work", 1, 3)
    before = contents(tmp_path / "work")
    message = refused("join", tmp_path / "work", tmp_path / "m")
    assert f"work: {missing} of" in message
    assert contents(tmp_path / "work") == before
    assert not (tmp_path / "m").exists()
    assert fill_part(tmp_path / "work") == 0
    assert join_parts(tmp_path / "work", tmp_path / "m").n_labels == 25


@pytest.mark.parametrize(
    ("storage", "file", "bits", "message"),
    [
        (None, "tree-0/weights.npy", 1, "checksum mismatch"),
        (None, "tree-1/features.npy", 0x7F, r"tree 1 are damaged \(the features"),
        (StorageSettings("int8"), "tree-1/features.npy", 0x7F, r"tree 1 are damaged \(the features"),
    ],
)
def test_damaged_blocks_are_not_joined(tmp_path, storage, file, bits, message):
    prepare(tmp_path, storage)
    fill_part(tmp_path / "work")
    damaged = tmp_path / "work/model" / file
    content = bytearray(damaged.read_bytes())
    content[-1] ^= bits
    damaged.write_bytes(content)
    with pytest.raises(InputError, match=message):
        join_parts(tmp_path / "work", tmp_path / "m")
    assert not (tmp_path / "m").exists()
    assert (tmp_path / "work").exists()


@pytest.mark.parametrize("part", ["0/3", "4/3", "3", "a/b", "", "1/0", "-1/2"])
def test_a_part_that_does_not_exist(tmp_path, refused, part):
    assert "such as 3/8" in refused("fill", tmp_path, f"--part={part}")


def test_what_is_not_a_work_directory(tmp_path, refused, folder):
    for command in (["fill"], ["join"]):
        rest = [tmp_path / "m"] * (command == ["join"])
        assert "no such directory" in refused(*command, tmp_path / "nowhere", *rest)
        assert "not a work directory" in refused(*command, folder / "model", *rest)
    assert "already exists" in refused("plan", folder / "train.svm", folder / "model")


def test_a_directory_that_is_used_is_not_joined(tmp_path):
    from labeltree.training.work import WorkDirectory

    prepare(tmp_path)
    with WorkDirectory(tmp_path / "work", shared=True):
        assert fill_part(tmp_path / "work") == 0
        with pytest.raises(InputError, match="is running and uses the work directory"):
            join_parts(tmp_path / "work", tmp_path / "m")


def test_a_plan_that_fails_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr("numpy.savez", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        prepare(tmp_path)
    assert list(tmp_path.iterdir()) == []
