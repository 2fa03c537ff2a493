"""Generate synthetic data modeled on the paper's six datasets: documents from a tree of topics.

The labels are the leaves of a hidden tree of topics with about nine children per node. An instance draws its
first label from Zipf's law, and further labels mostly from the same topic. Each topic has its own vocabulary,
a random part of its parent's, in which words follow Zipf's law; an instance draws its words from the topics
above its labels. As in real text, the number of used features therefore decreases down a label tree.
The tree is not stored: the words of a topic are hashes of its number.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import sparse

from labeltree.base.limits import SEED, Number, checked
from labeltree.data.dataset import Dataset
from labeltree.data.published import SOURCES, Shape
from labeltree.data.split import splitmix64
from labeltree.errors import InputError

SCALE = Number(0.0, math.inf, above=True)

_Ints = npt.NDArray[np.int64]
_Floats = npt.NDArray[np.float64]

_TOKENS_PER_BLOCK = 1 << 20  # limits memory, in addition to the result, to about 100 MB
_BACKGROUND = 0.45  # share of words that do not depend on the labels
_LEAF = 0.03  # share of words that belong to a single label
_LEAF_WORDS = 60  # size of a label's own vocabulary
_COMMON = 0.7  # any document may use the first n_features ** _COMMON words
_NEAR = 0.85  # probability that a further label is a sibling of the first one
_ELSEWHERE = 0.005  # share of further labels that come from anywhere in the tree


def synthesize(
    like: str = "eur-lex", scale: float = 1.0, seed: int = 0, test_fraction: float = 0.2
) -> tuple[Dataset, Dataset]:
    """Generate a synthetic training and test set modeled on a well-known dataset.

    Parameters
    ----------
    like : str
        One of `SOURCES`: eur-lex, amazoncat-13k, wiki10-31k, wiki-500k, amazon-670k, amazon-3m.
    scale : float
        Multiplies the number of instances and of labels; the number of features grows with its square root
        (Heaps' law). The average numbers of features and labels per instance stay the same, unless the
        dataset is too small for them.
    seed : int
        The same seed gives the same data.
    test_fraction : float
        Size of the test set relative to the training set; the training set does not shrink.

    Returns
    -------
    train, test : Dataset
        TF-IDF values (with the idf of the training set), in rows of Euclidean length 1.
        Every label occurs in the training set.

    Examples
    --------
    >>> train, test = synthesize("eur-lex", scale=0.01)
    >>> train.X.shape, train.Y.shape, test.Y.shape
    ((154, 18610), (154, 40), (31, 40))
    """
    if like not in SOURCES:
        raise InputError(f"unknown dataset {like!r}, expected one of {', '.join(SOURCES)}")
    scale = checked("scale", scale, SCALE)
    test_fraction = checked("test_fraction", test_fraction, SCALE)
    seed = checked("seed", seed, SEED)
    shape = SOURCES[like].scaled(scale)
    random = np.random.default_rng(seed)
    topics = _Topics.create(shape, random)
    length = topics.calibrated_length(random)
    n_test = max(1, round(shape.n_instances * test_fraction))
    train = topics.draw(random, topics.required_places(random, shape.n_instances), length)
    test = topics.draw(random, np.full(n_test, -1), length)
    frequency = np.bincount(train[0].indices, minlength=shape.n_features)
    idf = (np.log((1 + shape.n_instances) / (1 + frequency)) + 1).astype(np.float32)
    for X, _ in (train, test):
        X.data *= idf[X.indices]
        norms = np.sqrt(np.add.reduceat(X.data**2, X.indptr[:-1]))
        X.data /= np.repeat(norms, np.diff(X.indptr))
    return Dataset.from_matrices(*train), Dataset.from_matrices(*test)


@dataclass(frozen=True)
class _Topics:
    """The hidden tree: its leaves are the places 0 to n_labels - 1, so that a topic is a range of places."""

    shape: Shape
    depth: int
    branching: int
    salt: np.uint64
    popularity: _Floats  # cumulative over the places, from 0
    label_at: npt.NDArray[np.int32]  # the label at each place
    feature_of: npt.NDArray[np.int32]  # the feature of each word; words are sorted by decreasing frequency
    vocabulary: _Ints  # number of words of a topic, by its depth
    drawn_from: _Ints  # the words that are drawn from the topic itself: for the root, the common words
    levels: _Floats  # cumulative share of words that come from topics of each depth

    @classmethod
    def create(cls, shape: Shape, random: np.random.Generator) -> _Topics:
        depth = max(1, round(math.log(shape.n_labels, 9)))
        branching = max(2, math.ceil(shape.n_labels ** (1 / depth) - 1e-9))
        popularity = (shape.n_labels**0.3 + random.permutation(shape.n_labels)) ** -1.3
        vocabulary = shape.n_features * (_LEAF_WORDS / shape.n_features) ** (np.arange(depth + 1) / depth)
        between = (1 - _BACKGROUND - _LEAF) / max(1, depth - 1)
        shares = np.array([_BACKGROUND, *[between] * (depth - 1), _LEAF])
        return cls(
            shape=shape,
            depth=depth,
            branching=branching,
            salt=np.uint64(random.integers(1 << 63)),
            popularity=np.append(0.0, np.cumsum(popularity)),
            label_at=random.permutation(shape.n_labels).astype(np.int32),
            feature_of=random.permutation(shape.n_features).astype(np.int32),
            vocabulary=np.ceil(vocabulary).astype(np.int64),
            drawn_from=np.ceil([shape.n_features**_COMMON, *vocabulary[1:]]).astype(np.int64),
            levels=np.cumsum(shares / shares.sum()),
        )

    def required_places(self, random: np.random.Generator, n_instances: int) -> _Ints:
        """Choose labels that instances must have, so that every label occurs: the first place, or -1."""
        starts = np.arange(0, self.shape.n_labels, self.n_required(n_instances))[:n_instances]
        required = np.full(n_instances, -1)
        required[random.permutation(n_instances)[: len(starts)]] = starts
        return required

    def n_required(self, n_instances: int) -> int:
        """Return how many consecutive places an instance with a required place must have."""
        return math.ceil(self.shape.n_labels / n_instances)

    def draw(
        self, random: np.random.Generator, required: _Ints, length: float
    ) -> tuple[sparse.csr_array, sparse.csr_array]:
        """Return word counts and labels of one instance per required place, in blocks to save memory."""
        n_rows = max(1, int(_TOKENS_PER_BLOCK / max(length, self.shape.labels_per_instance)))
        X, Y = [], []
        for start in range(0, len(required), n_rows):
            block = required[start : start + n_rows]
            row, place = self.draw_labels(random, block)
            words = self.draw_words(random, row, place, len(block), length)
            X.append(_block((len(block), self.shape.n_features), *words))
            labels = np.sort(row * self.shape.n_labels + self.label_at[place])
            entries = (*np.divmod(labels, self.shape.n_labels), np.ones(len(labels)))
            Y.append(_block((len(block), self.shape.n_labels), *entries))
        return sparse.vstack(X, "csr"), sparse.vstack(Y, "csr")

    def draw_labels(self, random: np.random.Generator, required: _Ints) -> tuple[_Ints, _Ints]:
        """Return the (row, place) pairs of a block of instances, sorted."""
        size, rows = self.shape.n_labels, np.arange(len(required))
        # A Poisson of a Gamma: some instances have many more labels than others.
        wanted = 1 + random.poisson(
            random.gamma(2.0, (self.shape.labels_per_instance - 1) / 2, len(required))
        )
        # A required label is often rare: it occurs together with a popular label of a nearby topic.
        up = np.where(required < 0, self.depth, np.minimum(self.depth, 2))
        first = self.draw_near(random, np.maximum(required, 0), up)
        places = required[:, None] + np.arange(self.n_required(self.shape.n_instances))
        valid = (required[:, None] >= 0) & (places < size)
        pairs = np.union1d(rows * size + first, (rows[:, None] * size + places)[valid])
        # Labels drawn twice are drawn again, in the end from a wider topic.
        for attempt in range(12):
            missing = np.maximum(0, wanted - np.bincount(pairs // size, minlength=len(required)))
            row = np.repeat(rows, missing)
            up = np.minimum(self.depth, random.geometric(_NEAR, len(row)) + attempt // 6)
            up[random.random(len(row)) < _ELSEWHERE] = self.depth
            pairs = np.union1d(pairs, row * size + self.draw_near(random, first[row], up))
        row, place = np.divmod(pairs, size)
        return row, place

    def draw_near(self, random: np.random.Generator, place: _Ints, up: _Ints) -> _Ints:
        """Draw a place, by popularity, from the topic `up` levels above each of the given places."""
        width = self.branching**up
        low = place // width * width
        left, right = self.popularity[low], self.popularity[np.minimum(low + width, self.shape.n_labels)]
        point = left + random.random(len(place)) * (right - left)
        # Rounding may move a point beyond the end of its topic, or beyond the last place.
        drawn = np.searchsorted(self.popularity, point, side="right") - 1
        return np.asarray(np.minimum(drawn, self.shape.n_labels - 1), dtype=np.int64)

    def draw_words(
        self, random: np.random.Generator, row: _Ints, place: _Ints, n_rows: int, length: float
    ) -> tuple[_Ints, _Ints, _Ints]:
        """Return (row, feature, count) of a block whose instances have `length` words on average."""
        sigma = 0.4
        lengths = np.ceil(length * random.lognormal(-(sigma**2) / 2, sigma, n_rows)).astype(np.int64)
        depth = np.searchsorted(self.levels[:-1], random.random(lengths.sum()), side="right").astype(np.int8)
        # Deepest first, so that the tokens below a depth always come first.
        of_row = np.repeat(np.arange(n_rows), lengths)[np.argsort(-depth, kind="stable")]
        tokens_at = np.bincount(depth, minlength=self.depth + 1)
        n_labels = np.bincount(row, minlength=n_rows)
        pick = (random.random(len(of_row)) * n_labels[of_row]).astype(np.int64)
        place_of = place[(np.cumsum(n_labels) - n_labels)[of_row] + pick]
        word = np.empty(len(of_row), dtype=np.uint64)
        done = 0
        for d in range(self.depth, -1, -1):
            word[done : done + tokens_at[d]] = _zipf(random.random(tokens_at[d]), self.drawn_from[d])
            done += tokens_at[d]
            if d > 0:
                # Replace the word's number in this topic's vocabulary by its number in the parent's.
                topic = (place_of[:done] // self.branching ** (self.depth - d)).astype(np.uint64)
                topic_hash = splitmix64(topic * np.uint64(self.depth + 1) + np.uint64(d) + self.salt)
                hashes = splitmix64((topic_hash ^ word[:done]) + self.salt) >> np.uint64(32)
                word[:done] = (hashes * np.uint64(self.vocabulary[d - 1])) >> np.uint64(32)
        tokens = np.sort(of_row * self.shape.n_features + self.feature_of[word])
        starts = np.flatnonzero(np.diff(tokens, prepend=-1))
        counts = np.diff(starts, append=len(tokens))
        of_row, feature = np.divmod(tokens[starts], self.shape.n_features)
        return of_row, feature, counts

    def calibrated_length(self, random: np.random.Generator) -> float:
        """Find, with a few rows, how many words to draw for the desired number of distinct words."""
        n_rows = 200
        labels = self.draw_labels(random, np.full(n_rows, -1))
        length = self.shape.features_per_instance
        for _ in range(6):
            n_distinct = len(self.draw_words(random, *labels, n_rows, length)[0]) / n_rows
            length *= self.shape.features_per_instance / n_distinct
        return length


def _block(
    shape: tuple[int, int], row: _Ints, column: _Ints, value: npt.NDArray[np.generic]
) -> sparse.csr_array:
    """Return some rows as a matrix; the entries are sorted by row."""
    indptr = np.append(0, np.cumsum(np.bincount(row, minlength=shape[0])))
    return sparse.csr_array((value.astype(np.float32), column, indptr), shape=shape)


def _zipf(uniform: _Floats, size: np.int64) -> npt.NDArray[np.uint64]:
    """Return numbers below `size`; n has a probability of about 1 / (n + shift)."""
    shift = 1 + size / 500  # leaves out stop words, the most frequent ones of a large vocabulary
    return np.minimum(shift * ((size + shift) / shift) ** uniform - shift, size - 1).astype(np.uint64)
