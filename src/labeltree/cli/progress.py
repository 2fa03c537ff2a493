"""Progress of a command: the stages of the library."""

from labeltree.stages import Stages

__all__ = ["Stages"]
