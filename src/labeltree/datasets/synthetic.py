"""Make up data that look like the paper's six sets, where those cannot be had: texts from a tree of topics.

The labels are the leaves of a hidden tree of topics with about nine children a node. An instance draws a
first label by Zipf's law and further ones mostly from the same topic. Each topic has a vocabulary of its own,
a random part of its parent's, with Zipf's law inside; an instance draws its words from the topics above its
labels. Thus, as in real text, the used features shrink on the way down a label tree.
Nothing of the tree is stored: a topic's words are hashes of its number.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from labeltree.data import Dataset
from labeltree.datasets.presets import PRESETS, Preset
from labeltree.errors import InputError

_Ints = npt.NDArray[np.int64]
_Floats = npt.NDArray[np.float64]

_TOKENS_A_BLOCK = 1 << 20  # bounds the memory beside the result to some 100 MB
_BACKGROUND = 0.45  # share of the words that say nothing of the labels
_LEAF = 0.03  # share of the words that belong to one label alone
_LEAF_WORDS = 60  # size of a label's own vocabulary
_COMMON = 0.7  # the first features ** _COMMON words are those that any text may use
_NEAR = 0.85  # chance that a further label is a sibling of the first, not of the wider family
_ELSEWHERE = 0.005  # share of the further labels that come from anywhere in the tree


def synthesize(
    like: str = "eur-lex", scale: float = 1.0, seed: int = 0, test_fraction: float = 0.2
) -> tuple[Dataset, Dataset]:
    """Make up a training and a test set with the shape of a well-known one.

    Parameters
    ----------
    like : str
        One of `PRESETS`: eur-lex, amazoncat-13k, wiki10-31k, wiki-500k, amazon-670k, amazon-3m.
    scale : float
        Multiplies the instances and the labels; the features grow with its square root (Heaps' law).
        The average numbers of words and labels an instance stay, as far as a tiny set allows.
    seed : int
        The same seed gives the same data.
    test_fraction : float
        Size of the test set, as a share of the training set, which stays whole.

    Returns
    -------
    train, test : Dataset
        TF-IDF values (with the idf of the training set) in rows of Euclidean length 1.
        Every label occurs in the training set.

    Examples
    --------
    >>> train, test = synthesize("eur-lex", scale=0.01)
    >>> train.X.shape, train.Y.shape, test.Y.shape
    ((154, 18610), (154, 40), (31, 40))
    """
    if like not in PRESETS:
        raise InputError(f"got the unknown data set {like!r}, expected one of {', '.join(PRESETS)}")
    if not (0 < scale < math.inf):
        raise InputError(f"got scale={scale}, expected a number above 0")
    if not (0 < test_fraction < math.inf):
        raise InputError(f"got test_fraction={test_fraction}, expected a number above 0")
    if seed < 0:
        raise InputError(f"got seed={seed}, expected an integer of at least 0")
    shape = PRESETS[like].scaled(scale)
    random = np.random.default_rng(seed)
    world = _World.create(shape, random)
    length = world.calibrated_length(random)
    held_out = max(1, round(shape.instances * test_fraction))
    train = world.write(random, world.seeds(random, shape.instances), length)
    test = world.write(random, np.full(held_out, -1), length)
    found_in = np.bincount(train[0].indices, minlength=shape.features)
    idf = (np.log((1 + shape.instances) / (1 + found_in)) + 1).astype(np.float32)
    for X, _ in (train, test):
        X.data *= idf[X.indices]
        norms = np.sqrt(np.add.reduceat(X.data**2, X.indptr[:-1]))
        X.data /= np.repeat(norms, np.diff(X.indptr))
    return Dataset.from_matrices(*train), Dataset.from_matrices(*test)


@dataclass(frozen=True)
class _World:
    """The hidden tree: its leaves are the places 0 to labels - 1, so that a topic is a range of places."""

    shape: Preset
    depth: int
    branching: int
    salt: int
    popularity: _Floats  # cumulated over the places, from 0
    label_at: npt.NDArray[np.int32]  # the label at a place
    word_at: npt.NDArray[np.int32]  # the feature of a word; words are numbered by falling frequency
    pools: _Ints  # size of a topic's vocabulary, by its depth
    drawn_from: _Ints  # how much of it serves for words of the topic itself: for the root, the common words
    levels: _Floats  # cumulated share of the words that come from topics of each depth

    @classmethod
    def create(cls, shape: Preset, random: np.random.Generator) -> _World:
        depth = max(1, round(math.log(shape.labels, 9)))
        branching = max(2, math.ceil(shape.labels ** (1 / depth) - 1e-9))
        popularity = (shape.labels**0.3 + random.permutation(shape.labels)) ** -1.3
        pools = shape.features * (_LEAF_WORDS / shape.features) ** (np.arange(depth + 1) / depth)
        between = (1 - _BACKGROUND - _LEAF) / max(1, depth - 1)
        shares = np.array([_BACKGROUND, *[between] * (depth - 1), _LEAF])
        return cls(
            shape=shape,
            depth=depth,
            branching=branching,
            salt=int(random.integers(1 << 63)),
            popularity=np.append(0.0, np.cumsum(popularity)),
            label_at=random.permutation(shape.labels).astype(np.int32),
            word_at=random.permutation(shape.features).astype(np.int32),
            pools=np.ceil(pools).astype(np.int64),
            drawn_from=np.ceil([shape.features**_COMMON, *pools[1:]]).astype(np.int64),
            levels=np.cumsum(shares / shares.sum()),
        )

    def seeds(self, random: np.random.Generator, instances: int) -> _Ints:
        """Choose instances that must have certain labels, so that each occurs: their first place, or -1."""
        run = self.run(instances)
        starts = np.arange(0, self.shape.labels, run)[:instances]
        seeds = np.full(instances, -1)
        seeds[random.permutation(instances)[: len(starts)]] = starts
        return seeds

    def run(self, instances: int) -> int:
        """Return how many neighbouring labels a seeded instance must take."""
        return math.ceil(self.shape.labels / instances)

    def write(self, random: np.random.Generator, seeds: _Ints, length: float) -> tuple[csr_array, csr_array]:
        """Return word counts and labels of one instance for each seed, in blocks to save memory."""
        rows = max(1, int(_TOKENS_A_BLOCK / max(length, self.shape.tags)))
        X, Y = _Rows(), _Rows()
        for start in range(0, len(seeds), rows):
            block = seeds[start : start + rows]
            row, place = self.draw_labels(random, block)
            X.add(len(block), *self.draw_words(random, row, place, len(block), length))
            labels = np.sort(row * self.shape.labels + self.label_at[place])
            Y.add(len(block), *np.divmod(labels, self.shape.labels), np.ones(len(labels)))
        return X.matrix(self.shape.features), Y.matrix(self.shape.labels)

    def draw_labels(self, random: np.random.Generator, seeds: _Ints) -> tuple[_Ints, _Ints]:
        """Return the (row, place) pairs of a block of instances, sorted."""
        size, rows = self.shape.labels, np.arange(len(seeds))
        # A Poisson of a Gamma: some instances have many more labels than others.
        wanted = 1 + random.poisson(random.gamma(2.0, (self.shape.tags - 1) / 2, len(seeds)))
        # Where a label is prescribed, the first one is a popular one of its family: rare labels come along.
        anywhere = np.where(seeds < 0, self.depth, np.minimum(self.depth, 2))
        first = self.near(random, np.maximum(seeds, 0), anywhere)
        prescribed = seeds[:, None] + np.arange(self.run(self.shape.instances))
        needed = (seeds[:, None] >= 0) & (prescribed < size)
        pairs = np.union1d(rows * size + first, (rows[:, None] * size + prescribed)[needed])
        # Labels drawn twice are drawn again, in the end from a wider topic.
        for attempt in range(12):
            missing = np.maximum(0, wanted - np.bincount(pairs // size, minlength=len(seeds)))
            row = np.repeat(rows, missing)
            up = np.minimum(self.depth, random.geometric(_NEAR, len(row)) + attempt // 6)
            up[random.random(len(row)) < _ELSEWHERE] = self.depth
            pairs = np.union1d(pairs, row * size + self.near(random, first[row], up))
        row, place = np.divmod(pairs, size)
        return row, place

    def near(self, random: np.random.Generator, place: _Ints, up: _Ints) -> _Ints:
        """Draw a place by popularity from the topic that lies `up` levels above each of the given ones."""
        width = self.branching**up
        low = place // width * width
        left, right = self.popularity[low], self.popularity[np.minimum(low + width, self.shape.labels)]
        point = left + random.random(len(place)) * (right - left)
        # Rounding may carry a point over the end of its topic, or of all.
        drawn = np.searchsorted(self.popularity, point, side="right") - 1
        return np.asarray(np.minimum(drawn, self.shape.labels - 1), dtype=np.int64)

    def draw_words(
        self, random: np.random.Generator, row: _Ints, place: _Ints, rows: int, length: float
    ) -> tuple[_Ints, _Ints, _Ints]:
        """Return (row, feature, count) of a block whose instances are `length` words long on average."""
        sigma = 0.4
        lengths = np.ceil(length * random.lognormal(-(sigma**2) / 2, sigma, rows)).astype(np.int64)
        depth = np.searchsorted(self.levels[:-1], random.random(lengths.sum()), side="right").astype(np.int8)
        # Deepest first, so that the tokens still below a depth are always the first ones.
        of_row = np.repeat(np.arange(rows), lengths)[np.argsort(-depth, kind="stable")]
        tokens_at = np.bincount(depth, minlength=self.depth + 1)
        tags = np.bincount(row, minlength=rows)
        pick = (random.random(len(of_row)) * tags[of_row]).astype(np.int64)
        where = place[(np.cumsum(tags) - tags)[of_row] + pick]
        word = np.empty(len(of_row), dtype=np.uint64)
        done = 0
        for d in range(self.depth, -1, -1):
            word[done : done + tokens_at[d]] = _zipf(random.random(tokens_at[d]), self.drawn_from[d])
            done += tokens_at[d]
            if d > 0:
                # The word's number in this topic's vocabulary becomes its number in the parent's.
                topic = (where[:done] // self.branching ** (self.depth - d)).astype(np.uint64)
                mixed = _mixed(topic * np.uint64(self.depth + 1) + np.uint64(d), self.salt)
                word[:done] = _below(_mixed(mixed ^ word[:done], self.salt), self.pools[d - 1])
        tokens = np.sort(of_row * self.shape.features + self.word_at[word])
        starts = np.flatnonzero(np.diff(tokens, prepend=-1))
        counts = np.diff(starts, append=len(tokens))
        of_row, feature = np.divmod(tokens[starts], self.shape.features)
        return of_row, feature, counts

    def calibrated_length(self, random: np.random.Generator) -> float:
        """Find how many words to draw for the wanted number of different ones, by trying it on a few rows."""
        rows = 200
        labels = self.draw_labels(random, np.full(rows, -1))
        length = self.shape.words
        for _ in range(6):
            different = len(self.draw_words(random, *labels, rows, length)[0]) / rows
            length *= self.shape.words / different
        return length


class _Rows:
    """Blocks of rows that are put together into one csr matrix at the end."""

    def __init__(self) -> None:
        self.indices: list[npt.NDArray[np.int32]] = []
        self.data: list[npt.NDArray[np.float32]] = []
        self.sizes: list[_Ints] = []

    def add(self, rows: int, row: _Ints, column: _Ints, value: npt.NDArray[np.generic]) -> None:
        self.indices.append(column.astype(np.int32))
        self.data.append(value.astype(np.float32))
        self.sizes.append(np.bincount(row, minlength=rows))

    def matrix(self, columns: int) -> csr_array:
        sizes = np.concatenate(self.sizes)
        total = int(sizes.sum())
        indptr = np.zeros(len(sizes) + 1, dtype=np.int32 if total < 2**31 else np.int64)
        np.cumsum(sizes, out=indptr[1:])
        shape = (len(sizes), columns)
        return csr_array((np.concatenate(self.data), np.concatenate(self.indices), indptr), shape=shape)


def _zipf(uniform: _Floats, size: np.int64) -> npt.NDArray[np.uint64]:
    """Return numbers below `size`, n with a chance of about 1 / (n + shift)."""
    shift = 1 + size / 500  # the most frequent words of a large vocabulary are stop words: leave them out
    return np.minimum(shift * ((size + shift) / shift) ** uniform - shift, size - 1).astype(np.uint64)


def _mixed(numbers: npt.NDArray[np.uint64], salt: int) -> npt.NDArray[np.uint64]:
    """Hash each number (the finaliser of SplitMix64)."""
    x = numbers + np.uint64(salt)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def _below(hashes: npt.NDArray[np.uint64], size: np.int64) -> npt.NDArray[np.uint64]:
    """Map hashes evenly to the numbers below `size`."""
    return ((hashes >> np.uint64(32)) * np.uint64(size)) >> np.uint64(32)
