"""Publishing models: on a stand-in for the Hugging Face Hub, in stores of fsspec and in directories."""

import json
import os
import shutil
import subprocess
import sys
from types import SimpleNamespace

import fsspec
import numpy as np
import pytest
from helpers import flipped, random_data
from hub_server import running_hub
from huggingface_hub import constants
from test_hub import files

import labeltree
from labeltree import InputError, Model
from labeltree.hub import push as push_module
from labeltree.model.layout import MANIFEST

pytestmark = pytest.mark.usefixtures("cache")


@pytest.fixture
def hub(monkeypatch, tmp_path):
    """A hub, to which huggingface_hub is pointed."""
    with running_hub() as running:
        monkeypatch.setattr(constants, "ENDPOINT", running.address)
        template = running.address + "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hf"))
        monkeypatch.setenv("HF_TOKEN", "hf_test")
        for name in ("no_proxy", "NO_PROXY"):
            monkeypatch.setenv(name, "127.0.0.1")
        yield running


def stored(memory, top="/shelf/model/"):
    return {path.removeprefix(top): memory.cat(path) for path in memory.find(top)}


# The Hugging Face Hub


def test_a_model_on_the_hub(hub, trained, other, run, refused):
    done = labeltree.push(trained, "hf://me/tagger", private=True)
    assert (done["files"], done["card"]) == (len(files(trained)) + 1, "written")
    assert done["commit"].startswith(f"{hub.address}/me/tagger/commit/")
    assert hub.private == {"me/tagger"}
    assert len(hub.repos["me/tagger"]) == 2  # the empty repository, and one commit
    there = hub.files("me/tagger")
    assert there.keys() == {*files(trained), ".gitattributes", "README.md"}
    assert {name: there[name] for name in files(trained)} == files(trained)
    assert b'labeltree.load("hf://me/tagger")' in there["README.md"]

    model = labeltree.load("hf://me/tagger")
    assert files(model.path) == files(trained)
    before = len(hub.requests)
    labeltree.load("hf://me/tagger")
    assert not [path for _, path in hub.requests[before:] if "resolve" in path and MANIFEST not in path]

    assert "already exists" in refused("push", other, "hf://me/tagger")
    code, out, _ = run("push", other, "hf://me/tagger", "--overwrite", "--json")
    assert code == 0
    assert json.loads(out)["card"] == "written"
    assert hub.files("me/tagger").keys() == {*files(other), ".gitattributes", "README.md"}
    assert files(labeltree.load("hf://me/tagger").path) == files(other)
    first = hub.repos["me/tagger"][1][0]
    assert files(labeltree.load(f"hf://me/tagger@{first}").path) == files(trained)


def test_a_directory_in_a_repository(hub, trained):
    labeltree.push(trained, "hf://me/models/small", card=False)
    assert {f"small/{name}" for name in files(trained)} < hub.files("me/models").keys()
    assert files(labeltree.load("hf://me/models/small").path) == files(trained)


def test_what_is_not_on_the_hub(hub, trained):
    labeltree.push(trained, "hf://me/tagger")
    for url in ("hf://me/none", "hf://me/tagger@none", "hf://me/tagger/none"):
        with pytest.raises(InputError, match=r"it has no manifest.json.* needs a token, see `hf auth login`"):
            labeltree.load(url)


def test_a_hub_without_permission(hub, trained):
    hub.token = "another"
    with pytest.raises(InputError, match=r"may not be written.*check your credentials"):
        labeltree.push(trained, "hf://me/tagger")
    assert hub.repos == {}


def test_a_repository_that_changes_meanwhile(hub, trained, monkeypatch):
    labeltree.push(trained, "hf://me/tagger")
    card = push_module.model_card

    def change(*arguments, **options):
        hub.repos["me/tagger"].append(("1" * 40, {}))
        return card(*arguments, **options)

    hub.repos["me/tagger"][-1][1].pop("README.md")
    monkeypatch.setattr(push_module, "model_card", change)
    with pytest.raises(InputError, match="cannot be written"):
        labeltree.push(trained, "hf://me/tagger", overwrite=True)
    assert hub.files("me/tagger") == {}


def test_a_damaged_model_on_the_hub(hub, trained, cache):
    labeltree.push(trained, "hf://me/tagger")
    name = "tree-0/weights.npy"
    hub.damage[name] = flipped(hub.files("me/tagger")[name])
    with pytest.raises(InputError, match=r"hf://me/tagger/tree-0: checksum mismatch"):
        labeltree.load("hf://me/tagger")
    hub.files("me/tagger")[name] += b"more"
    with pytest.raises(InputError, match=r"has more than the"):
        labeltree.load("hf://me/tagger")
    assert not list(cache.rglob(MANIFEST))


def test_the_command_with_an_endpoint(hub, trained):
    environment = {**os.environ, "HF_ENDPOINT": hub.address, "HF_HUB_DISABLE_XET": "1"}
    for command in (["push", trained, "hf://me/tagger", "--quiet"], ["verify", "hf://me/tagger"]):
        words = [sys.executable, "-m", "labeltree", *map(str, command)]
        done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
        assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
    assert "is valid" in done.stdout
    assert "downloading hf://me/tagger ..." in done.stderr


# Stores


@pytest.fixture(params=["memory", "file"])
def shelf(request, memory, tmp_path):
    """A store: the address of a model, and a file system with its path."""
    (tmp_path / "shelf").mkdir()
    path = f"{tmp_path if request.param == 'file' else ''}/shelf/model"
    return SimpleNamespace(
        url=f"{request.param}://{path}", path=path, system=fsspec.filesystem(request.param)
    )


def test_a_model_in_a_store(shelf, trained, other, run, refused):
    top = f"{shelf.path}/"
    code, out, _ = run("push", trained, shelf.url, "--quiet", "--json")
    assert code == 0
    assert json.loads(out)["bytes"] == labeltree.load(trained).bytes
    assert stored(shelf.system, top).keys() == {*files(trained), "README.md"}
    assert files(labeltree.load(shelf.url).path) == files(trained)
    assert "already exists" in refused("push", other, shelf.url)
    mapped = labeltree.load(shelf.path) if shelf.url.startswith("file") else None
    shelf.system.pipe_file(f"{top}notes.txt", b"mine")
    code, out, _ = run("push", other, shelf.url, "--overwrite")
    assert code == 0
    assert "README.md, written" in out
    assert stored(shelf.system, top).keys() == {*files(other), "README.md", "notes.txt"}
    assert files(labeltree.load(shelf.url).path) == files(other)
    if mapped is not None:  # whoever has the old model keeps it
        X = random_data().X
        assert np.array_equal(mapped.predict(X)[0], labeltree.load(trained).predict(X)[0])


@pytest.mark.parametrize("fail_at", [0, 5, "manifest.json"])
def test_a_push_that_fails_leaves_no_manifest(memory, trained, other, fail_at, monkeypatch):
    url = "memory://shelf/model"
    labeltree.push(trained, url)
    put, written = type(memory).put_file, []

    def fail(self, source, path, **options):
        if len(written) == fail_at or path.endswith(str(fail_at)):
            raise OSError("the store is full")
        written.append(path)
        put(self, source, path, **options)

    monkeypatch.setattr(type(memory), "put_file", fail)
    with pytest.raises(InputError, match=r"cannot be written \(the store is full\)"):
        labeltree.push(other, url, overwrite=True)
    assert MANIFEST not in stored(memory)
    with pytest.raises(InputError, match=r"has no manifest.json"):
        labeltree.load(url)
    monkeypatch.undo()
    labeltree.push(other, url, overwrite=True)
    assert files(labeltree.load(url).path) == files(other)


def test_a_model_that_is_replaced_meanwhile(memory, model_dir, monkeypatch):
    put = type(memory).put_file

    def replace(self, source, path, **options):
        (model_dir / MANIFEST).write_text("{}")
        put(self, source, path, **options)

    monkeypatch.setattr(type(memory), "put_file", replace)
    with pytest.raises(InputError, match="was replaced while it was published"):
        labeltree.push(model_dir, "memory://shelf/model")
    assert MANIFEST not in stored(memory)


# Refusals


def test_a_model_is_not_pushed_onto_itself(model_dir, tmp_path, refused):
    before = files(model_dir)
    (tmp_path / "link").symlink_to(model_dir)
    for place in (model_dir, tmp_path / "link"):
        error = refused("push", model_dir, place.as_uri(), "--overwrite")
        assert "is the directory of the model itself" in error
    assert files(model_dir) == before


def test_a_damaged_model_is_not_published(memory, model_dir):
    weights = model_dir / "tree-0" / "weights.npy"
    weights.write_bytes(flipped(weights.read_bytes()))
    with pytest.raises(InputError, match="checksum mismatch"):
        labeltree.push(model_dir, "memory://shelf/model")
    assert stored(memory) == {}


def test_models_and_addresses_that_are_refused(trained, refused):
    unsaved = Model.__new__(Model)
    unsaved.path = None
    with pytest.raises(InputError, match="the model has no directory; save it first"):
        labeltree.push(unsaved, "memory://m")
    for url, what in (
        ("https://host/m", "nothing can be published at this address; copy the directory"),
        ("zip://m::memory://m.zip", "chained addresses are not supported"),
        ("model", "not an address of a model; write an address such as hf://"),
        ("memory://a\nb", "not an address of a model"),
    ):
        assert what in refused("push", trained, url)
    assert "--no-card is given with" in refused("push", trained, "memory://m", "--no-card", "--title", "x")


def test_the_card_of_a_model(memory, model_dir, run):
    url = "memory://shelf/model"
    (model_dir / "README.md").write_text("my card")
    assert run("push", model_dir, url, "--quiet")[0] == 0
    assert stored(memory)["README.md"] == b"my card"
    (model_dir / "README.md").write_text("better")
    labeltree.push(model_dir, url, overwrite=True)
    assert stored(memory)["README.md"] == b"better"
    run("push", model_dir, url, "--title", "From options", "--license", "mit", "--overwrite", "--quiet")
    assert b"# From options" in stored(memory)["README.md"]
    assert labeltree.push(model_dir, "memory://bare", card=False)["card"] is None
    assert not memory.exists("/bare/README.md")


@pytest.mark.parametrize("url", ["memory://shelf/model", "hf://me/tagger", "file://{}/shelf/model"])
def test_a_card_is_kept_once_it_is_edited(url, memory, hub, trained, other, tmp_path):
    def card():
        if url.startswith("hf"):
            return hub.files("me/tagger")["README.md"]
        return stored(memory)["README.md"] if url.startswith("memory") else (place / "README.md").read_bytes()

    place = tmp_path / "shelf" / "model"
    place.parent.mkdir()
    url = url.format(tmp_path)
    labeltree.push(trained, url)
    first = card()
    assert labeltree.push(other, url, overwrite=True)["card"] == "written"
    assert card() != first
    edited = card().rpartition(b"<!--")[0] + b"And more."
    if url.startswith("hf"):
        hub.repos["me/tagger"][-1][1]["README.md"] = edited
    elif url.startswith("memory"):
        memory.pipe("/shelf/model/README.md", edited)
    else:
        (place / "README.md").write_bytes(edited)
    assert labeltree.push(trained, url, overwrite=True)["card"] == "kept"
    assert card() == edited


def test_a_card_is_made_only_for_what_can_be_published(hub, memory, trained, refused):
    def card():
        raise InputError("no card")

    for url in ("hf://me/new", "memory://new"):
        with pytest.raises(InputError, match="no card"):
            labeltree.push(trained, url, card=card)
    assert hub.repos == {}
    assert not memory.exists("/new")
    labeltree.push(trained, "memory://shelf/model")
    assert "already exists" in refused("push", trained, "memory://shelf/model", "--test", "nowhere.tsv")


@pytest.mark.parametrize("scheme", ["file", "local"])
def test_a_directory_needs_no_packages(scheme, trained, other, tmp_path, monkeypatch):
    for package in ("fsspec", "aiohttp", "huggingface_hub", "tqdm"):
        monkeypatch.setitem(sys.modules, package, None)
    url, place = f"{scheme}://{tmp_path}/new/shelf", tmp_path / "new" / "shelf"
    assert labeltree.push(trained, url)["card"] == "written"
    (place / "notes.txt").write_text("mine")
    assert files(labeltree.load(url).path) == files(trained)
    with pytest.raises(InputError, match="already exists"):
        labeltree.push(other, url)
    labeltree.push(other, url, overwrite=True)
    assert files(labeltree.load(url).path) == files(other)
    assert (place / "notes.txt").read_text() == "mine"
    with pytest.raises(InputError, match="is the directory of the model itself"):
        labeltree.push(place, url)
    (place / "label_counts.npy").unlink()
    fetched = labeltree.load(url).path  # from the cache: the manifest is the same
    shutil.rmtree(fetched)
    with pytest.raises(InputError, match=r"label_counts.npy: no such file; publish the model again"):
        labeltree.load(url)
    (place / "label_counts.npy").write_bytes(bytes(10_000))
    with pytest.raises(InputError, match=r"has more than the .* bytes that were expected"):
        labeltree.load(url)
    (place / "manifest.json").unlink()
    with pytest.raises(InputError, match=r"there is no model at this address: it has no manifest.json"):
        labeltree.load(url)
