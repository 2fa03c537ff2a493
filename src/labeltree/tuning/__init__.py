"""Choose settings within a budget of bytes and time, and compare models."""

from labeltree.tuning.compare import compare_models
from labeltree.tuning.result import TuningResult
from labeltree.tuning.tune import tune

__all__ = ["TuningResult", "compare_models", "tune"]
