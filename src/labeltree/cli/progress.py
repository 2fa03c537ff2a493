"""Progress of a command: the stages of the library."""

from labeltree.base.progress import Stages

__all__ = ["Stages"]
