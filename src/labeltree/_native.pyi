"""Types of the compiled kernels (native/)."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

LOSSES: tuple[str, ...]
SCORES: tuple[str, ...]
CODECS: tuple[str, ...]
# Children of a sparse block at most, and rows of it whose start is stored once.
BLOCK_CHILDREN: int
SPARSE_GROUP: int
SPARSE_HEADER_BYTES: int
# Siblings that are solved at once, and bytes of the solver's two arrays per feature and per instance.
SIBLINGS: int
LINE_BYTES: int
NEWTON_FEATURE_BYTES: int
NEWTON_INSTANCE_BYTES: int
# How far the squared length of a row may be from 1, if the row is not to be scaled.
UNIT_TOLERANCE: float
# Nodes whose centroids are in memory at the same time, at most, and bytes of one value of a centroid.
MOST_MATRICES: int
CENTROID_BYTES: int
# Labels of a node up to which their distances are measured: per cluster, and at most.
SEEDED_PER_CLUSTER: int
MAX_SEEDED: int
MAX_COPIED_BYTES: int

class SparseRows:
    def __init__(
        self,
        ptr: NDArray[np.int64],
        index: NDArray[np.int32],
        value: NDArray[np.float32],
        n_columns: int,
    ) -> None: ...

class TrainingData:
    def __init__(
        self,
        x_ptr: NDArray[np.int64],
        x_index: NDArray[np.int32],
        x_value: NDArray[np.float32],
        n_features: int,
        label_ptr: NDArray[np.int64],
        label_instances: NDArray[np.int32],
        mapped: bool = False,
    ) -> None: ...

class Tree:
    def __init__(
        self,
        child_ptr: NDArray[np.int64],
        children: NDArray[np.int32],
        labels: NDArray[np.int32],
        first: NDArray[np.int64],
        last: NDArray[np.int64],
    ) -> None: ...

class Training:
    def __init__(
        self,
        data: TrainingData,
        tree: Tree,
        *,
        costs: NDArray[np.float32] | None,
        node_costs: NDArray[np.float64],
        positive_costs: NDArray[np.float64],
        foreign_ptr: NDArray[np.int64] | None = None,
        foreign_rows: NDArray[np.int32] | None = None,
        foreign_cost: float = 1.0,
        loss: str,
        tolerance: float,
        max_iterations: int,
        bias: float,
        seed: int,
        precise: bool,
    ) -> None: ...

class TreeBlocks:
    def __init__(
        self,
        codec: str,
        *,
        child_ptr: NDArray[np.int64],
        children: NDArray[np.int32],
        feature_ptr: NDArray[np.int64],
        features: NDArray[np.int32] | NDArray[np.uint16],
        weight_ptr: NDArray[np.int64],
        weights: NDArray[np.uint8],
        scales: NDArray[np.float32],
        biases: NDArray[np.float32],
    ) -> None: ...

class BlockFiles:
    def __init__(
        self,
        codec: str,
        *,
        feature_ptr: NDArray[np.int64],
        weight_ptr: NDArray[np.int64],
        feature_file: int,
        feature_start: int,
        weight_file: int,
        weight_start: int,
    ) -> None: ...

def crc32c(bytes: NDArray[np.uint8], before: int = 0) -> int: ...

class SvmReader:
    def __init__(self, threads: int, chunk_bytes: int, one_based: int) -> None: ...
    def feed(self, piece: NDArray[np.uint8], last: bool) -> bool: ...
    def finish(self) -> bool: ...
    def arrays(
        self,
    ) -> tuple[
        NDArray[np.int64], NDArray[np.int32], NDArray[np.float32], NDArray[np.int64], NDArray[np.int32]
    ]: ...
    @property
    def fault(self) -> tuple[str, int, bytes] | None: ...
    @property
    def header(self) -> tuple[int, int, int] | None: ...
    @property
    def names(self) -> list[str] | None: ...
    @property
    def one_based(self) -> bool: ...
    @property
    def n_features(self) -> int: ...
    @property
    def n_labels(self) -> int: ...

class Analyzer:
    def __init__(
        self, unit: str, shortest: int, longest: int, lowercase: bool, stop_words: Iterable[str]
    ) -> None: ...
    def __call__(self, document: str) -> list[str]: ...

class Vocabulary:
    def __init__(self, names: Sequence[str]) -> None: ...

class TermCounts:
    def __init__(
        self, analyzer: Analyzer, known: Vocabulary | None, threads: int, chunk_bytes: int
    ) -> None: ...
    def append(self, document: str) -> None: ...
    def flush(self) -> None: ...
    def totals(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]: ...
    def distinct_counts(self) -> NDArray[np.int32]: ...
    def sorted_terms(self) -> NDArray[np.int32]: ...
    def names(self, numbers: NDArray[np.int32]) -> tuple[str, ...]: ...
    def arrays(self) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]]: ...
    @property
    def n_documents(self) -> int: ...

def weight_terms(
    ptr: NDArray[np.int64],
    terms: NDArray[np.int32],
    counts: NDArray[np.int32],
    target: NDArray[np.int32] | None,
    idf: NDArray[np.float64],
    levels: NDArray[np.int32],
    frequency: NDArray[np.float64],
    threads: int,
) -> None: ...
def unit_rows(indptr: NDArray[np.int64], data: NDArray[np.float32]) -> NDArray[np.float32] | None: ...
def format_svm(
    x_indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    values: NDArray[np.float32],
    y_indptr: NDArray[np.int64],
    labels: NDArray[np.int32],
    base: int,
    name_indptr: NDArray[np.int64],
    names: NDArray[np.uint8],
) -> bytes: ...

class BeamSearch:
    def __init__(self, trees: list[TreeBlocks], n_features: int, n_labels: int, bias: float) -> None: ...
    def search(
        self,
        indptr: NDArray[np.int64],
        indices: NDArray[np.int32],
        data: NDArray[np.float32],
        beam: int,
        top: int,
        score: str,
        scale: float,
        path_weight: float,
        threads: int,
    ) -> tuple[NDArray[np.int32], NDArray[np.float32]]: ...
    def search_row(
        self,
        indices: NDArray[np.int32],
        data: NDArray[np.float32],
        beam: int,
        top: int,
        score: str,
        scale: float,
        path_weight: float,
        normalized: bool,
    ) -> tuple[NDArray[np.int32], NDArray[np.float32]] | None: ...

def damaged_blocks(
    codec: str,
    *,
    feature_ptr: NDArray[np.int64],
    features: NDArray[np.uint8],
    weight_ptr: NDArray[np.int64],
    weights: NDArray[np.uint8],
    checksums: NDArray[np.uint32],
    n_features: int,
    has_bias: bool,
    threads: int,
) -> tuple[NDArray[np.int64], tuple[int, str] | None]: ...
def sparse_fault(tree: TreeBlocks, n_features: int, threads: int) -> tuple[int, str] | None: ...
def compress_blocks(
    source: TreeBlocks,
    files: BlockFiles,
    *,
    n_features: int,
    has_bias: bool,
    threshold: float,
    threads: int,
    progress: Callable[[float], None] | None,
) -> dict[str, NDArray[Any]]: ...
def release_range(file: int, first: int, last: int) -> None: ...
def sparse_sizes(
    source: TreeBlocks, n_features: int, has_bias: bool, thresholds: NDArray[np.float32], threads: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]: ...
def count_label_vectors(data: TrainingData, threads: int) -> NDArray[np.int64]: ...
def label_vectors(
    data: TrainingData,
    ptr: NDArray[np.int64],
    index: NDArray[np.int32],
    value: NDArray[np.float32],
    threads: int,
) -> None: ...

class ClusteringSpaces:
    def __init__(self) -> None: ...

def cluster_level(
    vectors: SparseRows,
    *,
    labels: NDArray[np.int32],
    first: NDArray[np.int64],
    last: NDArray[np.int64],
    streams: NDArray[np.int64],
    clusters: int,
    max_iterations: int,
    least_moved: float,
    seed: int,
    threads: int,
    progress: Callable[[float], None] | None,
    main_share: float = 1.0,
    spaces: ClusteringSpaces | None = None,
) -> NDArray[np.int32]: ...
def used_features(
    data: TrainingData, tree: Tree, threads: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]: ...
def count_features(data: TrainingData, threads: int) -> int: ...

class FinishedStrips:
    def take(self) -> list[bytes]: ...

def list_strips(
    tree: Tree, codec: str, feature_ptr: NDArray[np.int64], strip_bytes: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]: ...
def train_strips(
    training: Training,
    files: BlockFiles,
    *,
    threshold: float,
    n_nonzeros: NDArray[np.int64],
    strip_bytes: int,
    strips: NDArray[np.int64],
    finished: FinishedStrips,
    threads: int,
    progress: Callable[[float], None] | None,
) -> None: ...
def return_memory_at_once() -> None: ...
def held_out_rankings(
    training: Training,
    files: BlockFiles,
    *,
    scales: NDArray[np.float32],
    biases: NDArray[np.float32],
    rows: NDArray[np.int32],
    functions: Sequence[tuple[str, float, float]],
    beam: int,
    top: int,
    max_instances: int,
    threads: int,
) -> tuple[NDArray[np.int32], NDArray[np.float32]]: ...
def route_rows(
    training: Training,
    files: BlockFiles,
    *,
    scales: NDArray[np.float32],
    biases: NDArray[np.float32],
    first_node: int,
    ptr: NDArray[np.int64],
    rows: NDArray[np.int32],
    log_scores: NDArray[np.float32],
    n_best: int,
    threads: int,
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]]: ...
