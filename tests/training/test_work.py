"""Interrupted runs: what is kept, who may continue it, and that the result has the same bytes."""

import fcntl
import json
import os
import time

import numpy as np
import pytest
from helpers import Killed, contents, killed_after, make_data

from labeltree import InputError, _native, build_plan
from labeltree.settings import SolverSettings, StorageSettings, TreeSettings
from labeltree.training.fill import train_model
from labeltree.training.journal import Journal, read_journals
from labeltree.training.tree_plan import shares
from labeltree.training.work import WorkDirectory, work_path

STORED = {
    "float32": StorageSettings(),
    "float16": StorageSettings("float16"),
    "int8": StorageSettings("int8"),
    "sparse": StorageSettings(prune=0.05),
}


def plan_of(data, codec="float32", clusters=3, **settings):
    trees = TreeSettings(clusters=clusters, max_depth=4, trees=2)
    return build_plan(data, trees, SolverSettings(**settings), STORED[codec], threads=2)


DATA = make_data(80, features=30, labels=25)


def interrupted(monkeypatch, path):
    """Train until two strips are recorded; return the plan."""
    plan = plan_of(DATA)
    with killed_after(monkeypatch, 2):
        train_model(DATA, plan, path)
    return plan


@pytest.mark.parametrize("codec", STORED)
def test_a_run_that_is_continued_has_the_same_bytes(tmp_path, monkeypatch, codec):
    plan = plan_of(DATA, codec)
    train_model(DATA, plan, tmp_path / "at-once")
    for n_strips in (1, 2, 2):
        with killed_after(monkeypatch, n_strips):
            train_model(DATA, plan, tmp_path / "m", resume=True)
    records = read_journals(work_path(tmp_path / "m") / "journal")
    assert len(records[0]) == 5
    trained = []
    train = _native.train_strips
    monkeypatch.setattr(
        "labeltree.training.fill._native.train_strips",
        lambda *arguments, **options: trained.append(options["strips"].size) or train(*arguments, **options),
    )
    train_model(DATA, plan, tmp_path / "m", resume=True)
    assert trained == [len(plan.trees[0].strips) - 5, len(plan.trees[1].strips)]
    assert contents(tmp_path / "m") == contents(tmp_path / "at-once")
    assert {entry.name for entry in tmp_path.iterdir()} == {"m", "at-once"}


@pytest.mark.parametrize("codec", ["int8", "sparse"])
@pytest.mark.parametrize("step", ["labeltree.training.fill.choose_score", "labeltree.training.work.publish"])
def test_a_run_that_stops_after_the_last_strip(tmp_path, monkeypatch, codec, step):
    plan = plan_of(DATA, codec)
    train_model(DATA, plan, tmp_path / "at-once")

    def stop(*_, **__):
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(step, stop)
        with pytest.raises(Killed):
            train_model(DATA, plan, tmp_path / "m")
    monkeypatch.delattr("labeltree.training.fill._native.train_strips")
    train_model(DATA, plan, tmp_path / "m", resume=True)
    assert contents(tmp_path / "m") == contents(tmp_path / "at-once")
    assert {entry.name for entry in tmp_path.iterdir()} == {"m", "at-once"}


def test_packing_sparse_blocks_continues_where_it_was(tmp_path, monkeypatch):
    plan = plan_of(DATA, "sparse")
    train_model(DATA, plan, tmp_path / "at-once")
    monkeypatch.setattr("labeltree.model.pack._RELEASED_AT_ONCE", 1)
    release, calls = _native.release_range, []

    def stop(*arguments):
        release(*arguments)
        calls.append(arguments)
        if len(calls) % 4 == 0:
            raise Killed

    monkeypatch.setattr("labeltree.model.pack._native.release_range", stop)
    for attempt in range(50):
        try:
            train_model(DATA, plan, tmp_path / "m", resume=True)
            break
        except Killed:
            assert attempt < 49
    assert len(calls) > 8
    assert contents(tmp_path / "m") == contents(tmp_path / "at-once")


def test_an_unfinished_run_is_named_and_not_touched(tmp_path, monkeypatch):
    plan = interrupted(monkeypatch, tmp_path / "m")
    before = contents(tmp_path)
    with pytest.raises(InputError, match=r"m\.work: there is an unfinished run; use resume=True to continue"):
        train_model(DATA, plan, tmp_path / "m")
    assert contents(tmp_path) == before


@pytest.mark.parametrize(
    ("settings", "clusters", "seed", "what"),
    [
        ({"cost": 2.0}, 3, 0, r"other solver \(cost: 0.5 before, 2.0 now, max_cost: 1.0 before, 2.0 now\)"),
        ({}, 3, 1, "other data"),
        ({}, 4, 0, "tree 0 is not that of the unfinished run"),
    ],
)
def test_other_data_settings_or_trees_are_refused(tmp_path, monkeypatch, settings, clusters, seed, what):
    interrupted(monkeypatch, tmp_path / "m")
    before = contents(tmp_path)
    other = make_data(80, features=30, labels=25, seed=seed)
    with pytest.raises(InputError, match=what):
        train_model(other, plan_of(other, clusters=clusters, **settings), tmp_path / "m", resume=True)
    assert contents(tmp_path) == before


def test_a_second_process_is_refused(tmp_path):
    with WorkDirectory.of_model(tmp_path / "m", {}):
        handle = os.open(work_path(tmp_path / "m"), os.O_RDONLY)
        with pytest.raises(BlockingIOError):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(handle)
        for resume in (False, True):
            owner = rf"process {os.getpid()} on \S+ is running and uses the work directory; wait"
            with pytest.raises(InputError, match=owner) as caught:
                WorkDirectory.of_model(tmp_path / "m", {}, resume=resume)
            assert "remove" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_description_is_refused(tmp_path, monkeypatch):
    plan = interrupted(monkeypatch, tmp_path / "m")
    file = work_path(tmp_path / "m") / "work.json"
    content = json.loads(file.read_text())
    for damaged in ("{", "[]", "{}", json.dumps({**content, "labeltree_version": "0.0"})):
        file.write_text(damaged)
        with pytest.raises(InputError, match="remove the directory"):
            train_model(DATA, plan, tmp_path / "m", resume=True)


def test_an_entry_that_was_killed_after_ends_the_journal(tmp_path):
    journal = Journal(tmp_path, sync=True)
    records = [number.to_bytes(8, "little") + b"x" * number for number in range(4)]
    journal._append(7, records)
    journal.close()
    (file,) = tmp_path.iterdir()
    content = file.read_bytes()
    assert read_journals(tmp_path) == {7: dict(enumerate(records))}
    for size in range(len(content)):
        file.write_bytes(content[:size])
        found = read_journals(tmp_path).get(7, {})
        assert list(found.values()) == records[: len(found)]
        damaged = bytearray(content)
        damaged[size] ^= 1
        file.write_bytes(damaged)
        assert len(read_journals(tmp_path).get(7, {})) < 4


def test_shares_are_disjoint_balanced_and_complete():
    work = np.random.default_rng(0).integers(1, 1000, 500)
    part = shares(work, 8)
    loads = [work[part == p].sum() for p in range(8)]
    assert sum(loads) == work.sum()
    assert max(loads) <= work.sum() / 8 + work.max()
    assert (shares(work, 8) == part).all()


def test_info_tells_how_far_a_run_is(tmp_path, monkeypatch, run):
    plan = interrupted(monkeypatch, tmp_path / "m")
    code, out, _ = run("info", work_path(tmp_path / "m"), "--json")
    status = json.loads(out)
    n_strips = [len(part.strips) for part in plan.trees]
    assert (code, status["trained"], status["strips"]) == (0, 2, sum(n_strips))
    assert 0 < status["done"] < 1
    assert not status["running"]
    assert not status["complete"]
    code, out, _ = run("info", work_path(tmp_path / "m"))
    assert "% trained (2 of" in out
    assert "--resume" in out
    with WorkDirectory(work_path(tmp_path / "m"), shared=True):
        assert json.loads(run("info", work_path(tmp_path / "m"), "--json")[1])["running"]
        assert f"running (process {os.getpid()} on " in run("info", work_path(tmp_path / "m"))[1]


def test_leftovers_of_killed_processes_are_removed(tmp_path):
    from labeltree.base.files import temporary_directory

    stale = tmp_path / ".m.1.partial"
    stale.mkdir()
    (stale / "weights.npy").write_bytes(b"x")
    with temporary_directory(tmp_path, ".m.") as work:
        assert not stale.exists()
        with temporary_directory(tmp_path, ".m."):
            assert work.exists()  # its owner lives
    assert not list(tmp_path.iterdir())


def test_a_journal_that_cannot_be_written_is_tried_again(tmp_path, monkeypatch):
    plan = plan_of(DATA)
    train_model(DATA, plan, tmp_path / "at-once")
    write, failures = os.pwrite, []

    def fail(file, content, at):
        if len(failures) < 3 and "/journal/" in os.readlink(f"/proc/self/fd/{file}"):
            write(file, content[:5], at)
            failures.append(file)
            raise OSError(28, "No space left on device")
        return write(file, content, at)

    monkeypatch.setattr("labeltree.training.journal.INTERVAL", 0.001)
    monkeypatch.setattr("os.pwrite", fail)
    train_strips = _native.train_strips

    def slowly(*arguments, **options):
        train_strips(*arguments, **options)
        deadline = time.monotonic() + 10
        while len(failures) < 3 and time.monotonic() < deadline:
            time.sleep(0.01)

    monkeypatch.setattr("labeltree.training.fill._native.train_strips", slowly)
    train_model(DATA, plan, tmp_path / "m")
    assert len(failures) == 3
    assert contents(tmp_path / "m") == contents(tmp_path / "at-once")


def test_data_that_cannot_reach_the_disk_is_not_recorded(tmp_path, monkeypatch):
    plan = plan_of(DATA)

    def fail(file):
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr("os.fdatasync", fail)
        with pytest.raises(OSError, match="Input/output error"):
            train_model(DATA, plan, tmp_path / "m")
    assert list(tmp_path.iterdir()) == []  # nothing was recorded
