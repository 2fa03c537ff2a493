"""Types of the compiled kernels (native/*.cpp)."""

import numpy as np
from numpy.typing import NDArray

def crc32c(bytes: NDArray[np.uint8], before: int = 0) -> int: ...
