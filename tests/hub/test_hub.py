"""Published models: addresses, the cache, and what a command makes of them."""

import json
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from helpers import flipped, random_data, run_python

import labeltree
from labeltree import InputError, LabelTreeClassifier
from labeltree.base.system import cache_directory
from labeltree.errors import ResourceError
from labeltree.hub import loading, remote
from labeltree.hub.address import Address, is_address
from labeltree.hub.loading import fetch, load
from labeltree.model.layout import MANIFEST
from labeltree.model.manifest import manifest_checksum
from labeltree.serve.models import Models

pytestmark = pytest.mark.usefixtures("cache")


@pytest.fixture
def put(trained, memory):
    """Put the model into the memory, at memory://shelf/model."""

    def publish(source=trained):
        memory.put(f"{source}/", "/shelf/model/", recursive=True)
        return "memory://shelf/model"

    return publish


@pytest.fixture
def web(server, trained):
    """Put the model on a web server; its address."""
    for file in trained.rglob("*"):
        if file.is_file():
            server.files[f"model/{file.relative_to(trained).as_posix()}"] = file.read_bytes()
    return f"{server.address}/model"


def same(one, another):
    X = random_data().X
    return all(np.array_equal(a, b) for a, b in zip(one.predict(X), another.predict(X), strict=True))


def files(directory):
    return {p.relative_to(directory).as_posix(): p.read_bytes() for p in directory.rglob("*") if p.is_file()}


def contents(cache):
    """What is in the cache: the files of models, and anything that should not be there."""
    return sorted(path.relative_to(cache).as_posix() for path in cache.rglob("*") if path.name != ".lock")


# Addresses


def test_places_and_addresses(tmp_path):
    places = ["model", "/a/b", "C:/a", "./hf:/a", "a:/", tmp_path, "1a://b"]
    assert [place for place in places if is_address(place)] == []
    assert is_address("hf://a/b")
    names = {
        "hf://user/name": "name",
        "hf://user/name@v1/": "name",
        "hf://other/name": "name",
        "s3://bucket/a/b c": "b_c",
        "gs://bucket/a/b c": "b_c",
        "https://host/m?key=/../x": "m",
        "https://host/m?key=y": "m",
        "https://host/..": "model",
        "memory://..": "model",
    }
    addresses = [Address(url) for url in names]
    assert [address.name for address in addresses] == list(names.values())
    # Each has a place of its own in the cache.
    assert len({address.key for address in addresses}) == len(names)
    for address in addresses:
        place = cache_directory("models", tmp_path) / address.key / address.name
        assert Path(os.path.normpath(place)).parent.parent == tmp_path
    assert Address("s3://a/m/").key == Address("s3://a/m").key
    assert Address("https://u:pw@host/m?key=1").file("a/b") == "https://u:pw@host/m/a/b?key=1"
    hub = Address("hf://user/name@v1/sub/folder").hub
    assert (hub.repo, hub.revision, hub.file("a/b")) == ("user/name", "v1", "sub/folder/a/b")


@pytest.mark.parametrize(
    "url",
    ["https://u:pw@host/m?key=1", "https://pw@host/m", "https://u:a@pw@host/m", "ftp://u:a@pw@host/m"],
)
def test_messages_show_no_secrets(url):
    address = Address(url)
    assert address.shown != url
    assert not any(word in address.shown_file("a") for word in ("pw", "key"))


@pytest.mark.parametrize(
    ("url", "what"),
    [
        ("http://example.com/m", "http:// does not protect the model"),
        ("zip://m::http://example.com/m.zip", "chained addresses are not supported"),
        ("https:///m", "the address has no host"),
        ("https://[/m", "the address has no host"),
        ("s3://", "the address has no path"),
        ("nosuch://a/b", "nosuch:// is not known to fsspec"),
        ("hf://name", "not an address on the Hugging Face Hub"),
        ("hf://a/b/../../c", "not an address on the Hugging Face Hub"),
        ("file://shelf/x", "write file:///"),
    ],
)
def test_addresses_that_are_refused(url, what):
    with pytest.raises(InputError, match=what):
        load(url)


@pytest.mark.parametrize(
    ("package", "url", "hint"),
    [
        ("fsspec", "memory://m", "pip install 'labeltree[hub]'"),
        ("aiohttp", "https://host/m", "pip install 'labeltree[hub]'"),
        ("huggingface_hub", "hf://a/b", "pip install 'labeltree[hub]'"),
        ("s3fs", "s3://bucket/m", "not installed; install s3fs"),
    ],
)
def test_missing_packages(package, url, hint, monkeypatch, refused):
    monkeypatch.setitem(sys.modules, package, None)
    assert hint in refused("info", url)


# The cache


def test_where_the_cache_is(monkeypatch, tmp_path):
    assert cache_directory("models") == tmp_path / "cache"
    assert cache_directory("models", tmp_path / "given") == tmp_path / "given"
    monkeypatch.delenv("LABELTREE_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_directory("models") == tmp_path / "xdg" / "labeltree" / "models"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_directory("models") == tmp_path / ".cache" / "labeltree" / "models"


def test_a_model_is_downloaded_once(put, trained, memory, cache, tmp_path):
    model = labeltree.load(put())
    assert same(model, labeltree.load(trained))
    assert files(model.path) == files(trained)
    assert model.path.is_relative_to(cache)
    inode = (model.path / MANIFEST).stat().st_ino
    for name in files(trained):
        if name != MANIFEST:  # which is enough to know that nothing has changed
            memory.rm_file(f"/shelf/model/{name}")
    again = labeltree.load("memory://shelf/model")
    assert (again.path, (again.path / MANIFEST).stat().st_ino) == (model.path, inode)
    with pytest.raises(InputError, match="no such file"):
        labeltree.load("memory://shelf/model", cache=tmp_path / "elsewhere")


def test_a_model_on_a_web_server(web, server, trained):
    server.troubles["model/label_counts.npy"] = [503, "half"]
    model = load(web)
    assert files(model.path) == files(trained)
    server.requests.clear()
    load(web)
    assert server.requests == ["model/manifest.json"]


@pytest.mark.parametrize(
    ("name", "statuses", "what"),
    [
        ("label_counts.npy", [503] * remote.N_TRIES, r"label_counts.npy: cannot be read .*503"),
        ("manifest.json", [403], r"may not be read .*403.*check your credentials"),
        ("manifest.json", [404], r"no model at this address: it has no manifest.json"),
        ("label_counts.npy", [404], r"label_counts.npy: no such file; publish the model again"),
    ],
)
def test_a_server_that_fails(name, statuses, what, web, server, cache):
    server.troubles[f"model/{name}"] = statuses
    with pytest.raises(InputError, match=what):
        load(web)
    assert contents(cache) in ([], [Address(web).key])


def test_no_model_at_an_address(memory, trained):
    for url in ("memory://shelf/none", f"file://{trained}/none"):
        with pytest.raises(InputError, match=r"no model at this address: it has no manifest.json"):
            load(url)


def test_a_changed_model_is_downloaded_again(put, other, memory, cache):
    old = load(put())
    memory.store.clear()
    new = load(put(other))
    assert new.path == old.path
    assert (len(old.trees), len(new.trees)) == (2, 1)
    assert files(new.path) == files(other)
    assert same(old, old)  # its files are still mapped
    assert len(os.listdir(new.path.parent)) == 2  # the model and the lock


def test_the_earlier_download_is_used_if_there_is_no_answer(web, server, refused, run):
    place = load(web).path
    server.troubles["model/manifest.json"] = [503, 503, 404]
    with pytest.warns(UserWarning, match="503.*from an earlier download is used"):
        assert load(web).path == place
    code, _, err = run("verify", web)
    assert code == 0
    assert err.startswith(f"note: {web}/manifest.json cannot be read")
    assert "no model at this address" in refused("verify", web)


def test_damage_in_the_cache_is_found(put, trained, refused):
    url = put()
    place = load(url).path
    (place / "label_counts.npy").write_bytes(b"short")  # of another size: downloaded again
    assert files(load(url).path) == files(trained)
    weights = next(place.rglob("weights.npy"))
    weights.write_bytes(flipped(weights.read_bytes()))
    assert "checksum mismatch" in refused("info", url)


def test_the_cache_is_kept_if_a_new_version_is_refused(put, other, memory):
    place = load(put()).path
    (place / "notes.txt").write_text("mine")
    before = files(place)
    memory.store.clear()
    url = put(other)
    with pytest.raises(InputError, match=r"contains notes.txt.*remove the directory"):
        load(url)
    memory.pipe_file("/shelf/model/label_counts.npy", b"x")
    with pytest.raises(InputError, match=r"label_counts\.npy"):
        load(url)
    assert files(place) == before


# Damaged and malicious models


@pytest.mark.parametrize("name", ["tree-0/weights.npy", "tree-1/features.npy", "label_names.json"])
@pytest.mark.parametrize(
    "damage", [flipped, lambda content: content[:-5], lambda content: content + b"x", None]
)
def test_a_damaged_model_is_never_used(name, damage, put, memory, cache):
    url = put()
    path = f"/shelf/model/{name}"
    content = memory.cat(path)
    memory.rm_file(path)
    if damage is not None:
        memory.pipe_file(path, damage(content))
    with pytest.raises(InputError) as caught:
        load(url)
    assert caught.value.file.startswith(url)
    assert "publish the model again" in caught.value.hint
    assert contents(cache) == [Address(url).key]


def forge(memory, change):
    """Change the manifest in the memory, with a correct checksum."""
    path = f"/shelf/model/{MANIFEST}"
    manifest = json.loads(memory.cat(path))
    change(manifest)
    manifest["crc32c"] = manifest_checksum(manifest)
    memory.pipe_file(path, json.dumps(manifest).encode())


@pytest.mark.parametrize("name", ["../../escaped", "/tmp/escaped", "tree-0/../../x", "tree-0/x", "README.md"])
def test_names_never_leave_the_cache(name, put, memory, cache, tmp_path):
    url = put()
    forge(memory, lambda manifest: manifest["files"].update({name: {"bytes": 1, "crc32c": 0}}))
    memory.pipe_file(f"/shelf/model/{name}", b"x")
    before = {*tmp_path.rglob("*"), cache}
    with pytest.raises(InputError, match="is listed, which is not a file of a model"):
        load(url)
    assert {path for path in tmp_path.rglob("*") if cache not in path.parents} == before
    assert contents(cache) == [Address(url).key]


def test_a_model_larger_than_the_disk(put, memory, cache):
    url = put()
    forge(memory, lambda manifest: manifest["files"]["tree-0/weights.npy"].update(bytes=2**62))
    with pytest.raises(ResourceError, match=r"the model has 4611\.7 PB, but only .* are free"):
        load(url)
    assert contents(cache) == [Address(url).key]


def test_files_that_are_longer_than_announced(web, server, cache, monkeypatch):
    server.files["model/tree-0/weights.npy"] += b"x" * 10**6
    with pytest.raises(InputError, match=r"weights.npy: has more than the [\d,]+ bytes that were expected"):
        load(web)
    monkeypatch.setattr(loading, "MANIFEST_BYTES", 100)
    with pytest.raises(InputError, match=r"manifest.json: has more than the 100 bytes"):
        load(web)
    assert contents(cache) == [Address(web).key]


def test_a_cache_that_cannot_be_written(put, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"cannot be written .*set LABELTREE_CACHE"):
        load(put(), cache=tmp_path / "file")


# Many at once


def test_threads_download_once(web, monkeypatch):
    url = web  # threads that read a file in the memory share its position
    downloads, start = [], threading.Barrier(4)
    download = loading._download
    monkeypatch.setattr(loading, "_download", lambda *arguments: (downloads.append(1), download(*arguments)))

    def work(_):
        start.wait()
        return load(url).path

    with ThreadPoolExecutor(4) as pool:
        assert len(set(pool.map(work, range(4)))) == 1
    assert len(downloads) == 1


def test_processes_without_locks_do_no_harm(trained, cache, tmp_path):
    script = (
        "import fcntl, sys, labeltree\n"
        "fcntl.flock = lambda *_: (_ for _ in ()).throw(OSError)\n"
        "for _ in range(3): print(labeltree.load(sys.argv[1]).path)\n"
    )
    with ThreadPoolExecutor(2) as pool:
        outputs = pool.map(lambda _: run_python(script, f"file://{trained}"), range(2))
        (place,) = {line for output in outputs for line in output.split()}
    assert files(Path(place)) == files(trained)


# Commands


def test_commands_take_addresses(folder, run, tmp_path):
    url, directory, test = f"file://{folder}/model", folder / "model", folder / "test.svm"
    place = fetch(url)
    for command in (
        ["info", "MODEL"],
        ["info", "MODEL", "--label", "3", "--json"],
        ["explain", "MODEL", "--file", test, "--row", "0"],
        ["predict", "MODEL", test, "--quiet"],
        ["evaluate", "MODEL", test, "--quiet"],
    ):
        results = [
            run(*(model if word == "MODEL" else word for word in command)) for model in (url, directory)
        ]
        assert [code for code, *_ in results] == [0, 0]
        assert results[0][1].replace(str(place), str(directory)) == results[1][1]
    code, out, err = run("verify", url, "--json")
    assert (code, json.loads(out)["valid"], err) == (0, True, "")
    code, out, _ = run("compress", url, tmp_path / "small", "--weights", "int8", "--quiet")
    assert code == 0
    code, out, _ = run("compare", url, tmp_path / "small", test, "--json")
    assert [report["model"] for report in json.loads(out)["models"]] == [url, str(tmp_path / "small")]


def test_a_download_is_a_stage_of_the_command(folder, run):
    url = f"file://{folder}/model"
    assert run("verify", url)[2].startswith(f"downloading {url} ...\n")
    assert run("verify", url)[2] == ""


def test_commands_that_are_refused_before_the_download(folder, refused, cache):
    url = f"file://{folder}/model"
    assert "--top" in refused("predict", url, folder / "test.svm", "--top", "0")
    assert "expected a directory" in refused("threshold", url, folder / "test.svm")  # it changes the model
    assert not cache.exists()


def test_the_service_and_estimators_take_addresses(put):
    (served,) = Models([fetch(put())])
    assert served.name == "model"
    assert LabelTreeClassifier.load(put()).model_.n_labels == 12


def test_nothing_is_imported_for_directories(trained):
    script = (
        "import sys, labeltree; labeltree.load(sys.argv[1]);"
        "print(*{'fsspec', 'aiohttp', 'huggingface_hub'} & sys.modules.keys())"
    )
    assert run_python(script, trained) == "\n"
