"""Publishing, killed before every change of a file and run again: the new model is there, and only that."""

import os
import shutil
import sys
import traceback

import pytest
from helpers import contents, random_data

from labeltree import InputError, build_tree, load, make_plan, train_model
from labeltree.evaluation.accepted import Decision
from labeltree.training.parts import fill_part, join_parts, plan_parts

OLD, NEW = random_data(5, labels=9), random_data(instances=30, labels=6)
KILLED = 9
CHANGES = ("os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.link", "os.chmod", "ctypes.dlsym")
COMMANDS = (
    "train",
    "train --overwrite",
    "join",
    "join --overwrite",
    "compress --overwrite",
    "threshold --save",
)


def plan(data):
    return make_plan(data, [build_tree(data, clusters=3)], threads=1)


def prepare(place, command):
    """Make what a command needs."""
    if "overwrite" in command or "save" in command:
        train_model(OLD, plan(OLD), place / "model")
    if "join" in command:
        plan_parts(NEW, plan(NEW), place / "work")
        fill_part(place / "work", threads=1)
    if "compress" in command:
        train_model(NEW, plan(NEW), place / "source")


def execute(place, command):
    """Run a command; what it made before is not an error."""
    model, overwrite = place / "model", "overwrite" in command
    if command == "compress --overwrite":
        load(place / "source").compress(model, overwrite=True, threads=1)
    elif command == "threshold --save":
        load(model).store_decision(Decision(0.25), None)
    elif "train" in command:
        train_model(NEW, plan(NEW), model, resume=True, overwrite=overwrite)
    else:
        join_parts(place / "work", model, overwrite=overwrite, threads=1)


def run_in_child(place, command, *, kill_at=None):
    """Run a command in another process, killed before its n-th change of a file, from the manifest on."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    seen = -1

    def watch(event, arguments):
        nonlocal seen
        opened = event == "open" and type(arguments[2]) is int and arguments[2] & (os.O_WRONLY | os.O_RDWR)
        if not opened and event not in CHANGES:
            return
        if seen >= 0 or str(arguments[0]).endswith("manifest.json.new"):
            seen += 1
            if seen == kill_at:
                os._exit(KILLED)

    try:
        sys.addaudithook(watch)
        execute(place, command)
        os._exit(0)
    except InputError as error:
        if error.what in ("already exists", "the model is complete", "no such directory"):  # it was done
            os._exit(0)
        raise
    finally:
        traceback.print_exc()
        os._exit(1)


@pytest.mark.parametrize("atomic", [True, False], ids=["exchange", "two renames"])
@pytest.mark.parametrize("command", COMMANDS)
def test_every_kill_leaves_the_old_or_the_new_model(tmp_path, monkeypatch, command, atomic):
    if not atomic:
        monkeypatch.setattr("labeltree.model.directory._exchange", lambda *_: False)
    start, place = tmp_path / "start", tmp_path / "place"
    start.mkdir()
    prepare(start, command)
    old = contents(start / "model")
    shutil.copytree(start, place)
    assert run_in_child(place, command) == 0
    complete, new = contents(place), contents(place / "model")
    assert new
    assert new != old
    kills = 0
    while True:
        shutil.rmtree(place)
        shutil.copytree(start, place)
        if run_in_child(place, command, kill_at=kills) != KILLED:
            break
        if old or (place / "model").exists():
            load(place / "model", verify=True)
        if atomic:
            assert contents(place / "model") in (old, new)
        assert run_in_child(place, command) == 0
        assert contents(place) == complete
        assert sorted(os.listdir(place)) == ["model", "source"][: 1 + ("compress" in command)]
        kills += 1
    assert kills > 10


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_finished_run_is_not_taken_for_another_model(tmp_path, monkeypatch, overwrite):
    """Killed after the move; then the model went elsewhere."""
    command = f"join{' --overwrite' * overwrite}"
    prepare(tmp_path, command)
    monkeypatch.setattr("labeltree.training.work.remove_directory", lambda _: None)
    monkeypatch.setattr("shutil.rmtree", lambda *_, **__: None)
    execute(tmp_path, command)
    assert (tmp_path / "work/model").exists() == overwrite  # the old one
    with pytest.raises(InputError, match="the run is complete, but its model no longer exists"):
        join_parts(tmp_path / "work", tmp_path / "another")
    assert not (tmp_path / "another").exists()


def test_a_damaged_model_is_replaced_by_the_same_one(tmp_path, monkeypatch):
    """The manifests are equal, so the directories are told apart by their inodes."""
    prepare(tmp_path, "join")
    shutil.copytree(tmp_path / "work", tmp_path / "again")
    good = join_parts(tmp_path / "work", tmp_path / "model").path
    (good / "tree-0/weights.npy").write_bytes(b"damaged")
    shutil.move(tmp_path / "again", tmp_path / "work")
    for kill in range(100):
        place = shutil.copytree(tmp_path, tmp_path.parent / f"place-{kill}")
        if run_in_child(place, "join --overwrite", kill_at=kill) != KILLED:
            break
        assert run_in_child(place, "join --overwrite") == 0
        load(place / "model", verify=True)
        assert os.listdir(place) == ["model"]
