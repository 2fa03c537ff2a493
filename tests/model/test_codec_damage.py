"""Damaged compact weights with correct checksums: named by the default load, and never a crash."""

import contextlib
import shutil
from pathlib import Path

import numpy as np
import pytest
from codec_models import make_model, store_model, wide_tree
from forgery import forge
from helpers import examples, run_portable
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from labeltree import InputError
from labeltree.model.model import load

TREE = "tree-0"
N_LABELS, N_FEATURES = 300, 70_000  # two panels, the second with 44 children; two segments


def pruned_root(place, tree, n_labels, n_features):
    """A model of one root, whose weights are not zero at the same places."""
    source = store_model(place / "float32", ([tree], n_features, n_labels, 0.0))
    return source.compress(place / "pruned", prune=0)


@pytest.fixture(scope="module")
def pruned(tmp_path_factory):
    """A root whose panels have rows of all forms: many bits, few pairs, some in full."""
    rng = np.random.default_rng(7)

    def draw(shape):
        shares = np.resize([0.02, 0.2, 1.0], shape[0])[:, None]
        return np.where(rng.random(shape) < shares, rng.choice([-1, 1], shape), 0).astype(np.float32)

    tree = wide_tree(rng, N_LABELS, N_FEATURES, draw, n_used=60)
    return pruned_root(tmp_path_factory.mktemp("damage"), tree, N_LABELS, N_FEATURES).path


@pytest.fixture
def damaged(pruned, tmp_path):
    return Path(shutil.copytree(pruned, tmp_path / "model"))


class Panel:
    """The parts of the first block of a model, to be changed in place."""

    def __init__(self, path):
        self.path = path
        names = "feature_ptr", "features", "weight_ptr", "weights", "scales", "biases"
        self.arrays = {name: np.load(path / TREE / f"{name}.npy") for name in names}
        n_rows = self.arrays["feature_ptr"][2]
        block = self.arrays["weights"][: self.arrays["weight_ptr"][1]]
        self.features = self.arrays["features"][:n_rows]
        self.header = block[:16].view("<u4")
        # Every sixteen sizes come after the start of the first of these rows.
        n_groups = -(-n_rows // 16)
        groups = block[16 : 16 + 4 * n_groups + n_rows]
        place = np.arange(groups.size)
        self._groups, self._starts, self._sizes = groups, place[place % 20 < 4], place[place % 20 >= 4]
        self.starts = groups[self._starts].view("<u4")
        self.sizes = groups[self._sizes]
        self.rows = block[16 + groups.size :]

    def row(self, form):
        """Return the first row of a form."""
        sizes = self.sizes.astype(int) + 1
        forms = np.where(sizes == 256, "full", np.where(sizes >= 64, "bits", "pairs"))
        row = int(np.flatnonzero(forms == form)[0])
        start = sizes[:row].sum()
        return self.rows[start : start + sizes[row]]

    def write(self):
        """Write all arrays, with the checksums that belong to them."""
        self._groups[self._starts] = self.starts.view(np.uint8)
        self._groups[self._sizes] = self.sizes
        forge(self.path, {f"{TREE}/{name}": array for name, array in self.arrays.items()})


def change(path, edit):
    panel = Panel(path)
    edit(panel)
    panel.write()


def put(part, place, value):
    """Set an entry of an array of the panel, or of the tree."""

    def edit(panel):
        array = getattr(panel, part) if hasattr(panel, part) else panel.arrays[part]
        array[place] = value

    return edit


def put_in_row(form, place, value):
    def edit(panel):
        panel.row(form)[place] = value

    return edit


def swap(part, form=None):
    def edit(panel):
        array = getattr(panel, part) if form is None else panel.row(form)
        array[[0, 2]] = array[[2, 0]]

    return edit


def exchange_sizes(panel):
    """Two rows of one group have other sizes, and the same sum."""
    sizes = panel.sizes[:16].astype(int)
    a, b = np.argsort(sizes)[[0, -1]]
    panel.sizes[[a, b]] = panel.sizes[[b, a]] - [1, 0] + [0, 1]


def odd_pairs(panel):
    at = int(np.flatnonzero(panel.sizes[:15] < 60)[0])
    panel.sizes[at] += 1
    panel.sizes[at + 1] -= 1


# What can be read safely, and is wrong.
WRONG_BLOCKS = {
    "sizes that overflow": (put("sizes", slice(None), 255), "sizes of its rows do not add up"),
    "a size too large": (put("sizes", -1, 255), "sizes of its rows do not add up|impossible size"),
    "sizes of zero": (put("sizes", slice(None), 0), "sizes of its rows do not add up|impossible size"),
    "exchanged sizes": (exchange_sizes, "impossible size|out of range|do not add up"),
    "an odd number of bytes": (odd_pairs, "impossible size|do not add up|out of range"),
    "a start beyond the end": (put("starts", 0, 2**32 - 1), "sizes of its rows do not add up"),
    "all starts beyond the end": (put("starts", slice(None), 2**32 - 1), "do not add up"),
    "a start in the middle": (put("starts", 1, 7), "sizes of its rows do not add up"),
    "other rows in the header": (put("header", 0, 7), "its header is wrong"),
    "too many bytes in the header": (put("header", 3, 2**32 - 1), "its header is wrong"),
    "children out of order": (swap("rows", "pairs"), "a child is out of order or out of range"),
    "more bits than weights": (put_in_row("bits", slice(0, 8), 255), "a row has an impossible size"),
    "no bits": (put_in_row("bits", slice(0, 32), 0), "a row has an impossible size"),
    "features out of order": (swap("features"), "features are out of order or out of range"),
    "a feature twice": (lambda p: put("features", 1, p.features[0])(p), "features are out of order"),
    "a feature out of range": (put("features", -1, 65_535), "features are out of order or out of range"),
}
# What is checked before anything else, even without verification.
WRONG_ARRAYS = {
    "scale NaN": (put("scales", 5, np.nan), "scales.npy: a scale is negative, not finite or too large"),
    "scale infinite": (put("scales", 5, np.inf), "scales.npy: a scale is negative, not finite or too large"),
    "scale negative": (put("scales", -1, -1), "scales.npy: a scale is negative, not finite or too large"),
    "bias infinite": (put("biases", 0, np.inf), "biases.npy: a bias is not finite"),
    "bias NaN": (put("biases", -1, np.nan), "biases.npy: a bias is not finite"),
    "a block too short": (put("weight_ptr", 1, 20), "a sparse block is too short for its rows"),
    "blocks that overlap": (put("weight_ptr", 1, -5), "_ptr.npy: the pointers do not start at 0"),
    "a block beyond the end": (put("weight_ptr", -1, 2**62), "weights.npy: the array is"),
    "lists that overlap": (put("feature_ptr", 1, -1), "_ptr.npy: the pointers do not start at 0"),
    "a list beyond the end": (put("feature_ptr", -1, 2**40), "more features than the data"),
}


def queries():
    rng = np.random.default_rng(0)
    rows = sparse.random(20, N_FEATURES, 0.01, "csr", np.float32, rng=rng)
    every = sparse.csr_matrix(np.ones((2, N_FEATURES), np.float32))
    return sparse.csr_matrix(sparse.vstack([rows, every]))


def assert_predicts(model, rows):
    for some in (rows, rows[-1:]):
        labels, scores = model.predict(some, top=7, threads=1)
        assert np.all((labels >= 0) & (labels < model.n_labels))
        assert np.all(np.isfinite(scores))


@pytest.mark.parametrize("case", [*WRONG_BLOCKS, *WRONG_ARRAYS])
def test_damage_is_named(damaged, case):
    edit, message = (WRONG_BLOCKS | WRONG_ARRAYS)[case]
    load(damaged, verify=True)
    change(damaged, edit)
    for verify in (None, True) if case in WRONG_BLOCKS else (None, True, False):
        with pytest.raises(InputError, match=message) as caught:
            load(damaged, verify=verify)
        assert "\n" not in str(caught.value)
        assert str(damaged) in str(caught.value)
        assert str(caught.value).endswith("restore the model from a copy, or train it again")
    if case in WRONG_BLOCKS:  # and never a crash
        assert_predicts(load(damaged, verify=False), queries())


def test_a_child_out_of_range_is_named(tmp_path):
    """In a panel of fewer than 256 children."""

    def draw(shape):
        return np.tile(np.eye(1, shape[1], dtype=np.float32), (shape[0], 1))

    path = pruned_root(tmp_path, wide_tree(np.random.default_rng(1), 40, 10, draw), 40, 10).path
    block = np.load(path / TREE / "weights.npy")
    n_rows = np.load(path / TREE / "feature_ptr.npy")[1]
    block[16 + 4 * -(-n_rows // 16) + n_rows] = 40
    forge(path, {f"{TREE}/weights": block})
    with pytest.raises(InputError, match="node 0 is damaged: a child is out of order or out of range"):
        load(path)
    assert_predicts(load(path, verify=False), sparse.csr_matrix(np.ones((9, 10))))


@pytest.mark.parametrize("n_children", [40, 64, 100, 200])
def test_rows_that_another_writer_would_store_with_bits(tmp_path, n_children):
    """Rows with weights of most children are stored in full here, but the format permits bits, too."""
    rng = np.random.default_rng(2)
    n_zeros = n_children // 8 + 2  # bits take more bytes than a row in full otherwise

    def draw(shape):
        weights = rng.choice(np.array([-90, -3, 2, 80], np.float32), shape)
        weights[:, :n_zeros] = 0
        return rng.permuted(weights, axis=1)

    full = pruned_root(tmp_path, wide_tree(rng, n_children, 50, draw), n_children, 50)
    forged = Path(shutil.copytree(full.path, tmp_path / "bits"))
    block = np.load(forged / TREE / "weights.npy")
    n_rows = int(np.load(forged / TREE / "feature_ptr.npy")[-1])
    n_groups = -(-n_rows // 16)
    stored = block[16 + 4 * n_groups + n_rows :].reshape(n_rows, n_children)
    rows = [np.concatenate([np.packbits(row != 0, bitorder="little"), row[row != 0]]) for row in stored]
    starts = np.cumsum([0, *map(len, rows)])
    parts = [np.array([n_rows, n_children, np.count_nonzero(stored), starts[-1]], "<u4").view(np.uint8)]
    for first in range(0, n_rows, 16):
        parts.append(starts[first : first + 1].astype("<u4").view(np.uint8))
        parts.append(np.array([len(row) - 1 for row in rows[first : first + 16]], np.uint8))
    block = np.concatenate([*parts, *rows])
    forge(forged, {f"{TREE}/weights": block, f"{TREE}/weight_ptr": np.array([0, block.size])})
    queries = sparse.random(70, 50, 0.3, "csr", np.float32, rng=rng)
    for some in (queries, queries[:1]):  # batches and single queries have different kernels
        expected = full.predict(some, top=n_children, threads=1)
        found = load(forged, verify=True).predict(some, top=n_children, threads=1)
        for row, (labels, scores) in enumerate(zip(*found, strict=True)):
            scores_of = dict(zip(expected[0][row], expected[1][row], strict=True))
            np.testing.assert_allclose(scores, [scores_of[label] for label in labels], rtol=1e-4, atol=1e-6)


def randomize(path, seed):
    """Overwrite bytes of blocks and lists, a few or all of them."""
    rng = np.random.default_rng(seed)

    def edit(panel):
        for name in ("weights", "features"):
            content = panel.arrays[name].view(np.uint8)
            size = int(rng.choice([0, 1, 3, 100, content.size]))
            place = rng.integers(0, content.size, size)
            content[place] = rng.choice([rng.integers(0, 256), 0, 255], size)
        for _ in range(int(rng.integers(0, 4))):
            panel.starts[rng.integers(0, panel.starts.size)] = rng.integers(0, 2**32)
            panel.sizes[rng.integers(0, panel.sizes.size)] = rng.integers(0, 256)

    change(path, edit)


@examples(40)
@given(seed=st.integers(0, 2**32 - 1))
def test_random_damage_is_named_or_harmless(pruned, tmp_path_factory, seed):
    path = tmp_path_factory.mktemp("random") / "model"
    shutil.copytree(pruned, path)
    randomize(path, seed)
    rows = queries()[-4:]
    assert_predicts(load(path, verify=False), rows)
    with contextlib.suppress(InputError):
        model = load(path)
        for node in range(model.trees[0].tree.n_nodes):
            assert np.isfinite(model.block(node)[1]).all()
    shutil.rmtree(path)


PORTABLE = """
import sys
from labeltree.model.model import load
from test_codec_damage import assert_predicts, queries
for path in sys.argv[1:]:
    assert_predicts(load(path, verify=False), queries())
"""


def test_damage_does_not_crash_without_wide_instructions(pruned, tmp_path):
    paths = []
    for case, (edit, _) in WRONG_BLOCKS.items():
        paths.append(Path(shutil.copytree(pruned, tmp_path / case)))
        change(paths[-1], edit)
    for seed in range(10):
        paths.append(Path(shutil.copytree(pruned, tmp_path / str(seed))))
        randomize(paths[-1], seed)
    run_portable(PORTABLE, *paths)


@pytest.mark.parametrize("codec", ["float16", "int8"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -1])
@pytest.mark.parametrize("name", ["scales", "biases"])
def test_damaged_scales_of_dense_blocks_are_named(tmp_path, codec, name, value):
    path = store_model(tmp_path / "float32", make_model(3)).compress(tmp_path / codec, weights=codec).path
    array = np.load(path / TREE / f"{name}.npy")
    array[-1] = value
    forge(path, {f"{TREE}/{name}": array})
    if (name, value) == ("biases", -1):
        load(path)
        return
    with pytest.raises(InputError, match=f"{name}.npy: a (scale|bias) is .*not finite"):
        load(path, verify=False)
