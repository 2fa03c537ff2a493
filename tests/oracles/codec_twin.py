"""Reading, writing and prediction in plain NumPy, from docs/model-format.md alone."""

import json
from pathlib import Path
from typing import NamedTuple

import numpy as np


class TwinTree(NamedTuple):
    """A tree, and the features and dequantised weights (features x children) of each node."""

    child_ptr: np.ndarray
    children: np.ndarray
    features: list
    weights: list
    biases: np.ndarray  # of each child; if weights are float32, in the last row of the blocks instead


def read_model(path):
    """Read the trees of a model directory."""
    path = Path(path)
    manifest = json.loads((path / "manifest.json").read_text("utf-8"))
    codec = manifest["codec"]
    read = read_sparse if codec == "sparse" else read_dense
    return [read(path / f"tree-{t}", codec, manifest["features"]) for t in range(len(manifest["trees"]))]


def read_dense(folder, codec, n_features):
    arrays = {file.stem: np.load(file) for file in folder.glob("*.npy")}
    child_ptr, children, feature_ptr = (arrays[name] for name in ("child_ptr", "children", "feature_ptr"))
    assert arrays["weights"].dtype == codec
    assert arrays["features"].dtype == np.int32
    scales = arrays.get("scales", np.ones(len(children), np.float32))
    biases = arrays.get("biases", np.zeros(len(children), np.float32))
    features, weights, at = [], [], 0
    for u in range(len(child_ptr) - 1):
        n_children = child_ptr[u + 1] - child_ptr[u]
        features.append(arrays["features"][feature_ptr[u] : feature_ptr[u + 1]])
        end = at + len(features[u]) * n_children
        stored = arrays["weights"][at:end].reshape(len(features[u]), n_children)
        weights.append(stored.astype(np.float32) * scales[child_ptr[u] : child_ptr[u + 1]])
        at = end
    assert at == len(arrays["weights"])
    return TwinTree(child_ptr, children, features, weights, biases)


def read_sparse(folder, codec, n_features):
    arrays = {file.stem: np.load(file) for file in folder.glob("*.npy")}
    child_ptr, children = arrays["child_ptr"], arrays["children"]
    types = {name: array.dtype.str for name, array in arrays.items()}
    assert (types["features"], types["weights"], types["weight_ptr"]) == ("<u2", "|u1", "<i8")
    segments = max(1, -(-n_features // 65536))
    features, weights, panel = [], [], 0
    for u in range(len(child_ptr) - 1):
        lists, blocks = [], []
        for first in range(child_ptr[u], child_ptr[u + 1], 256):
            width = min(256, child_ptr[u + 1] - first)
            ids = []
            for s in range(segments):
                start, end = arrays["feature_ptr"][panel * segments + s : panel * segments + s + 2]
                ids += [65536 * s + int(low) for low in arrays["features"][start:end]]
            block = arrays["weights"][arrays["weight_ptr"][panel] : arrays["weight_ptr"][panel + 1]]
            stored = decode_block(block.tobytes(), len(ids), width)
            lists.append(np.array(ids, np.int32))
            blocks.append(stored.astype(np.float32) * arrays["scales"][first : first + width])
            panel += 1
        used = np.unique(np.concatenate(lists))
        whole = np.zeros((len(used), child_ptr[u + 1] - child_ptr[u]), np.float32)
        for k, (ids, block) in enumerate(zip(lists, blocks, strict=True)):
            whole[np.searchsorted(used, ids), 256 * k : 256 * k + block.shape[1]] = block
        features.append(used)
        weights.append(whole)
    assert panel == len(arrays["weight_ptr"]) - 1 == len(arrays["checksums"])
    assert len(arrays["feature_ptr"]) == panel * segments + 1
    return TwinTree(child_ptr, children, features, weights, arrays["biases"])


def decode_block(block, n_rows, n_children):
    """Return the integers of a sparse block, rows x children."""
    header = np.frombuffer(block, "<u4", 4)
    first = 16
    starts, sizes = [], []
    for row in range(0, n_rows, 16):
        starts.append(int(np.frombuffer(block, "<u4", 1, first)[0]))
        group = np.frombuffer(block, np.uint8, min(16, n_rows - row), first + 4)
        sizes += (group.astype(int) + 1).tolist()
        first += 4 + group.size
    assert starts == [sum(sizes[:row]) for row in range(0, n_rows, 16)]
    assert header[0] == n_rows
    assert header[3] == sum(sizes) == len(block) - first
    out, n_bits = np.zeros((n_rows, n_children), np.int8), -(-n_children // 8)
    for row, size in enumerate(sizes):
        content = np.frombuffer(block, np.uint8, size, first)
        first += size
        if size == n_children:
            out[row] = content.view(np.int8)
        elif size >= 2 * n_bits:
            used = np.unpackbits(content[:n_bits], bitorder="little").astype(bool)
            assert not used[n_children:].any()
            out[row, used[:n_children]] = content[n_bits:].view(np.int8)
        else:
            out[row, content[::2]] = content[1::2].view(np.int8)
    return out


def scale_row(row, n_features):
    """Return a dense row as a model sees it that scales rows to length 1."""
    row = np.asarray(row, np.float32)[:n_features].astype(np.float64)
    square = np.square(row).sum()
    if abs(square - 1) > 0.002 and square > 0:
        row = row / np.sqrt(square)
    return row.astype(np.float32)


def quantise(weights, codec, threshold=0):
    """Round float32 weights, features x children; return what is stored and the scales."""
    trained = weights.astype(np.float64)
    weights = np.where(np.abs(weights) < np.float32(threshold), np.float32(0), weights).astype(np.float32)
    largest = np.abs(weights).max(axis=0, initial=0)
    if codec == "float16":
        exponent = np.maximum(np.frexp(largest)[1] - 15, -126)
        scales = np.where(largest > 0, np.ldexp(np.float32(1), exponent), 0).astype(np.float32)
    else:
        scales = largest / np.float32(127)
    steps = np.divide(weights, scales, out=np.zeros_like(weights), where=scales > 0)
    if codec == "float16":
        return np.where(np.abs(steps) < 2.0**-14, 0, steps).astype(np.float16), scales
    stored = np.clip(np.rint(steps), -127, 127).astype(np.int8)
    if codec == "sparse":  # the norm of the trained weights, summed in the order of the features
        squares = sum(row * row for row in trained) + np.zeros(scales.size)
        n_steps = (stored.astype(np.int64) ** 2).sum(axis=0)
        norms = np.sqrt(np.divide(squares, n_steps, out=np.zeros(scales.size), where=n_steps > 0))
        scales = np.minimum(norms, np.finfo(np.float32).max).astype(np.float32)
    return stored, scales
