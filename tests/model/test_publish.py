"""Where a model may be written, and what it may replace."""

import json
import os
import shutil

import numpy as np
import pytest
import replace_under_readers
from helpers import contents, random_data, train_small

from labeltree import InputError, load
from labeltree.model import directory
from labeltree.model import open as opening
from labeltree.model.directory import check_target
from labeltree.model.layout import CARD, CARD_MARK, MANIFEST, REPORTS
from labeltree.model.writer import ModelWriter, new_model

# What is put into a model directory and is not the model's, by what it is called.
FOREIGN = {
    "NOTES.md": lambda path: path.write_text("trained on Monday"),
    "tree-0/notes.txt": lambda path: path.write_text("trained on Monday"),
    "tree-0/weights-2.npy": lambda path: shutil.copy(path.parent / "weights.npy", path),
    "sources/": lambda path: path.mkdir(),
    "label_counts.npy (a special file)": lambda path: path.symlink_to(path.rename(f"{path.parent}-counts")),
    "tree-7 (a special file)": lambda path: path.symlink_to(path.parents[1]),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_a_model_with_other_files_is_not_replaced(model_dir, name):
    FOREIGN[name](model_dir / name.removesuffix(" (a special file)"))
    before = contents(model_dir.parent)
    with pytest.raises(InputError) as caught:
        train_small(model_dir, overwrite=True)
    assert caught.value.what == f"contains {name}, which is not part of the model, so it is not replaced"
    with pytest.raises(InputError, match="not part of the model"):
        load(shutil.copytree(model_dir, model_dir.parent / "source", symlinks=True)).compress(
            model_dir, overwrite=True
        )
    shutil.rmtree(model_dir.parent / "source")
    assert contents(model_dir.parent) == before


def test_reports_and_cards_follow_the_model(run, refused, folder, tmp_path):
    """`threshold` keeps what labeltree wrote about a model, `train --overwrite` drops it."""
    target, data = tmp_path / "model", folder / "test.svm"
    shutil.copytree(folder / "model", target)
    assert run("evaluate", target, data, "--per-label", target / "precision.csv", "-q")[0] == 0
    assert run("compress", target, "--report", target, "--validation", data, "-q")[0] == 0
    card = run("push", target, f"file://{tmp_path}/published", "--dry-run")[1]
    (target / "README.md").write_text(card.replace("## Labels", "## Our labels"))
    assert run("page", target, "-o", target / "page.html", "-q")[0] == 0
    written = {name: (target / name).read_bytes() for name in (*REPORTS, CARD)}
    train = ("train", folder / "train.svm", target, "--overwrite", "-q")

    assert run("threshold", target, data, "-q")[0] == 0
    assert {name: (target / name).read_bytes() for name in written} == written
    load(target, verify=True)

    assert run(*train)[0] == 0
    assert not any((target / name).exists() for name in written)

    (target / "README.md").write_text(card.replace(CARD_MARK, ""))  # somebody's own work
    assert run("threshold", target, data, "-q")[0] == 0
    assert "contains README.md, which is not part of the model" in refused(*train)
    assert "## Labels" in (target / "README.md").read_text()
    (target / "README.md").unlink()
    (target / "notes.txt").write_text("mine")
    assert "contains notes.txt" in refused("threshold", target, data)


def test_training_data_in_the_directory_is_not_replaced(refused, folder, tmp_path):
    target = tmp_path / "um"
    shutil.copytree(folder / "model", target)
    shutil.copy(folder / "train.svm", target)
    before = contents(target)
    for name in (target, f"{target}/", target / "tree-0" / ".."):
        message = refused("train", target / "train.svm", name, "--overwrite")
        assert ": contains train.svm, which is not part of the model" in message
    assert contents(target) == before


@pytest.mark.parametrize(
    "kind",
    [
        *("file", "link", "directory", "", "{", "{}", "[]", '{"name": "my app", "start_url": "/"}'),
        *('{"format": "labeltree tree"}', '{"format": ["labeltree model"]}'),
    ],
)
def test_what_is_not_a_model_is_never_replaced(tmp_path, trained, kind):
    """Not with a manifest of something else, either."""
    target = tmp_path / "precious"
    if kind == "file":
        target.write_text("mine")
    elif kind == "link":
        target.symlink_to(trained)
    else:
        (target / "src").mkdir(parents=True)
        (target / "src/index.js").write_text("code")
        if kind != "directory":
            (target / MANIFEST).write_text(kind)
    before = contents(tmp_path)
    with pytest.raises(InputError, match="not a model directory, so it is not replaced"):
        train_small(target, overwrite=True)
    assert contents(tmp_path) == before
    assert target.is_symlink() == (kind == "link")


@pytest.mark.parametrize("damage", ["truncated", "checksum", "no files", "newer"])
def test_a_damaged_model_is_replaced(model_dir, damage):
    manifest = model_dir / MANIFEST
    content = json.loads(manifest.read_text())
    (model_dir / "tree-0/weights.npy").unlink()
    if damage == "truncated":
        manifest.write_bytes(manifest.read_bytes()[:300])
    else:
        change = {"checksum": {"crc32c": 1}, "no files": {"files": 3}, "newer": {"format_version": 99}}
        manifest.write_text(json.dumps(content | change[damage]))
    train_small(model_dir, overwrite=True)
    assert load(model_dir).n_labels == 12


def test_a_damaged_model_with_other_files_is_not_replaced(model_dir):
    (model_dir / MANIFEST).write_bytes((model_dir / MANIFEST).read_bytes()[:300])
    (model_dir / "package.json").write_text("{}")
    with pytest.raises(InputError, match=r"contains package\.json"):
        train_small(model_dir, overwrite=True)


@pytest.mark.parametrize("overwrite", [False, True])
def test_what_appears_during_training_is_kept(trained, tmp_path, monkeypatch, overwrite):
    finish, target = ModelWriter.finish, tmp_path / "model"
    if overwrite:
        shutil.copytree(trained, target)

    def appear(writer, manifest):
        finish(writer, manifest)
        shutil.copytree(trained, target, dirs_exist_ok=True)
        if overwrite:
            (target / "late.txt").write_text("mine")

    monkeypatch.setattr(ModelWriter, "finish", appear)
    with pytest.raises(InputError, match=r"contains late\.txt" if overwrite else "already exists"):
        train_small(target, random_data(5), overwrite=overwrite)
    (target / "late.txt").unlink(missing_ok=True)
    assert contents(target) == contents(trained)


@pytest.mark.parametrize("place", [".", "..", "../..", "here", "link"])
@pytest.mark.parametrize("empty", [True, False])
def test_the_current_directory_is_never_replaced(model_dir, tmp_path, monkeypatch, place, empty):
    inner = tmp_path / "outer/here"
    inner.mkdir(parents=True) if empty else shutil.copytree(model_dir, inner)
    (tmp_path / "link").symlink_to(inner)
    monkeypatch.chdir(inner)
    target = {"here": inner, "link": tmp_path / "link"}.get(place, place)
    before = contents(tmp_path)
    for overwrite in (False, True):
        with pytest.raises(InputError, match="the current directory, contains it or is a mount point"):
            train_small(target, overwrite=overwrite)
    assert contents(tmp_path) == before


def test_a_mount_point_is_never_replaced(tmp_path, monkeypatch):
    monkeypatch.setattr("os.path.ismount", lambda path: path == tmp_path / "disk")
    (tmp_path / "disk").mkdir()
    with pytest.raises(InputError, match="mount point"):
        check_target(tmp_path / "disk", True)


# Replacement, while others read


def test_readers_see_the_old_or_the_new_model():
    seen = replace_under_readers.run(120)
    assert set(seen) == {"first", "second"}


@pytest.mark.parametrize("removed", [True, False])
def test_a_model_replaced_while_it_is_read(model_dir, monkeypatch, removed):
    other, read, times = random_data(5, labels=9), opening.read_manifest, []
    if not removed:
        monkeypatch.setattr("shutil.rmtree", lambda *_, **__: None)

    def replace(*arguments):
        manifest = read(*arguments)
        if not times:
            times.append(1)
            train_small(model_dir, other, trees=1, overwrite=True)
        return manifest

    monkeypatch.setattr(opening, "read_manifest", replace)
    assert load(model_dir).n_labels == (9 if removed else 12)


@pytest.mark.parametrize("atomic", [True, False])
def test_a_new_model_is_on_the_disk_before_the_old_one_goes(model_dir, monkeypatch, atomic):
    steps = []

    def record(module, function, label):
        call = getattr(module, function)

        def recorded(*arguments, **options):
            steps.append((label, arguments[0]))
            return call(*arguments, **options)

        monkeypatch.setattr(module, function, recorded)

    if not atomic:
        monkeypatch.setattr("ctypes.CDLL", lambda *_, **__: None)
    record(directory, "sync_path", "sync")
    record(directory, "_replace", "rename")
    record(shutil, "rmtree", "remove")
    train_small(model_dir, overwrite=True)
    names = [(label, os.fspath(path)) for label, path in steps]
    rename = next(i for i, (label, _) in enumerate(names) if label == "rename")
    work = names[rename][1]
    written = {f"{work}/{name.relative_to(model_dir)}" for name in (model_dir, *model_dir.rglob("*"))}
    synced = {os.path.normpath(path) for label, path in names[:rename]}
    assert {*map(os.path.normpath, written)} <= synced
    assert any("/published." in path for path in synced)
    assert {label for label, _ in names[:rename]} == {"sync"}
    assert names[rename + 1] == ("sync", os.fspath(model_dir.parent))
    assert names[rename + 2][0] == "remove"
    assert os.listdir(model_dir.parent) == [model_dir.name]
    assert load(model_dir).n_labels == 12


def test_without_sync_nothing_waits_for_the_disk(model_dir, monkeypatch):
    monkeypatch.setattr("os.fsync", lambda _: pytest.fail("fsync"))
    with new_model(model_dir.parent / "new", False, sync=False) as writer:
        writer.write("label_counts.npy", np.zeros(3))
    assert (model_dir.parent / "new/label_counts.npy").exists()


def test_ctrl_c_after_the_replacement_is_reported_as_complete(model_dir, monkeypatch):
    remove = shutil.rmtree

    def stop(path, **options):
        monkeypatch.setattr("shutil.rmtree", remove)
        raise KeyboardInterrupt

    monkeypatch.setattr("shutil.rmtree", stop)
    with pytest.raises(KeyboardInterrupt, match="the new model is complete"):
        train_small(model_dir, random_data(5, labels=9), overwrite=True)
    assert load(model_dir).n_labels == 9
    assert os.listdir(model_dir.parent) == [model_dir.name]


def test_a_pipe_in_place_of_a_file_is_not_waited_for(model_dir):
    (model_dir / "tree-0/weights.npy").unlink()
    os.mkfifo(model_dir / "tree-0/weights.npy")
    with pytest.raises(InputError, match=r"weights\.npy: the file is missing"):
        load(model_dir)


def test_a_model_directory_that_cannot_be_listed_can_be_read(model_dir):
    model_dir.chmod(0o311)
    try:
        assert load(model_dir).n_labels == 12
    finally:
        model_dir.chmod(0o755)
