"""Types of the compiled kernels (native/*.cpp)."""

import numpy as np
from numpy.typing import NDArray

def crc32c(bytes: NDArray[np.uint8], before: int = 0) -> int: ...

class SvmReader:
    def __init__(
        self, threads: int, chunk_bytes: int, one_based: int, features: int, labels: int
    ) -> None: ...
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
    def features(self) -> int: ...
    @property
    def labels(self) -> int: ...

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
