"""Types of the compiled kernels (native/*.cpp)."""

import numpy as np
from numpy.typing import NDArray

def crc32c(bytes: NDArray[np.uint8], before: int = 0) -> int: ...

# child_ptr, children, feature_ptr, features, weight_ptr, weights
_Tree = tuple[
    NDArray[np.int64],
    NDArray[np.int32],
    NDArray[np.int64],
    NDArray[np.int32],
    NDArray[np.int64],
    NDArray[np.float32],
]

class BeamSearch:
    def __init__(self, trees: list[_Tree], n_features: int, n_labels: int, bias: float) -> None: ...
    def search(
        self,
        indptr: NDArray[np.int64],
        indices: NDArray[np.int32],
        data: NDArray[np.float32],
        beam: int,
        top: int,
        score: int,
        threads: int,
    ) -> tuple[NDArray[np.int32], NDArray[np.float32]]: ...
