"""Models changed on purpose, by someone who knows the format: all checksums agree again."""

import contextlib
import io
import json
import shutil

import numpy as np

from labeltree._native import crc32c
from labeltree.model.layout import MANIFEST
from labeltree.model.manifest import manifest_checksum


def read_files(path):
    """Return the content of every file of a model, by name."""
    return {str(f.relative_to(path)): f.read_bytes() for f in path.rglob("*") if f.is_file()}


def write(files, path):
    """Write the files of a model to a new directory."""
    shutil.rmtree(path, ignore_errors=True)
    for name, content in files.items():
        target = path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)


def array(files, name):
    return np.load(io.BytesIO(files[name]))


def npy(value):
    stream = io.BytesIO()
    np.save(stream, value)
    return stream.getvalue()


def edit(files, /, **entries):
    """Replace entries of the manifest."""
    files[MANIFEST] = json.dumps(json.loads(files[MANIFEST]) | entries).encode()


def seal(files):
    """Recompute the checksums of the blocks, of the files and of the manifest, as far as that is possible."""
    try:
        manifest = json.loads(files[MANIFEST])
        entries = manifest.get("files")
    except (AttributeError, KeyError, ValueError, RecursionError):
        return
    for t in range(10):
        if f"tree-{t}/checksums.npy" in files:
            with contextlib.suppress(Exception):
                seal_blocks(files, f"tree-{t}/")
    for name, content in files.items():
        if isinstance(entries, dict) and isinstance(entries.get(name), dict):
            known = {"bytes": len(content), "crc32c": crc32c(np.frombuffer(content, np.uint8))}
            entries[name].update({key: known[key] for key in known.keys() & entries[name].keys()})
    manifest["crc32c"] = manifest_checksum(manifest)
    files[MANIFEST] = json.dumps(manifest).encode()


def seal_blocks(files, folder):
    """Compute the checksum of each block from the arrays as they are now."""
    arrays = {
        name: array(files, f"{folder}{name}.npy")
        for name in ("child_ptr", "feature_ptr", "features", "weights", "checksums")
    }
    sums, ptr = arrays["checksums"].copy(), arrays["feature_ptr"]
    ptr = ptr[:: max(1, (len(ptr) - 1) // max(1, len(sums)))]
    if f"{folder}weight_ptr.npy" in files:
        weight_ptr = array(files, f"{folder}weight_ptr.npy")
    else:
        weight_ptr = np.concatenate([[0], np.cumsum(np.diff(ptr) * np.diff(arrays["child_ptr"]))])
    for b in range(len(sums)):
        content = arrays["features"][ptr[b] : ptr[b + 1]].tobytes()
        content += arrays["weights"][weight_ptr[b] : weight_ptr[b + 1]].tobytes()
        sums[b] = crc32c(np.frombuffer(content, np.uint8))
    files[f"{folder}checksums.npy"] = npy(sums)


def forge(path, /, arrays=None, **entries):
    """Change arrays and entries of the manifest of a model where it is."""
    for name, values in (arrays or {}).items():
        np.save(path / f"{name}.npy", values)
    files = read_files(path)
    edit(files, **entries)
    seal(files)
    for name in files:
        if name == MANIFEST or name.endswith("checksums.npy"):
            (path / name).write_bytes(files[name])
