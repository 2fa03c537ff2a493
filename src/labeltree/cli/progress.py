"""Progress of a command: the stages of the library."""

from labeltree.base.stages import Stages

__all__ = ["Stages"]
