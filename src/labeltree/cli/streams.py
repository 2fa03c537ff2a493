"""Standard streams of the command: what happens if they are closed, or the disk behind them is full."""

from __future__ import annotations

import io
import os
import sys
from typing import Any


class OutputError(OSError):
    """Standard output cannot be written."""


class _Standard(io.FileIO):
    """Standard output, whose errors are distinguishable; or standard error, which drops what fails."""

    def write(self, content: Any) -> int:
        """Write some bytes."""
        try:
            return super().write(content)
        except BrokenPipeError:
            raise
        except OSError as error:
            if self.fileno() == 2:  # the work goes on without its messages
                return len(content)
            raise OutputError(error.errno, error.strerror) from None


def prepare_streams() -> None:
    """Replace the standard streams of this process by streams with these errors.

    A closed one gets its number back, which the next file would get otherwise, and with it what is printed.
    Standard output that is closed cannot be written, standard input is empty, and what is written to
    standard error is discarded.
    """
    for stream, access in (
        (sys.stdin, os.O_RDONLY),
        (sys.stdout, os.O_RDONLY),
        (sys.stderr, os.O_WRONLY),
    ):
        if stream is None:
            os.open(os.devnull, access)
    if sys.stdout is sys.__stdout__:
        sys.stdout = _wrapped(_Standard(1, "wb", closefd=False), sys.stdout)
    if sys.stderr is sys.__stderr__:
        sys.stderr = _wrapped(_Standard(2, "wb", closefd=False), sys.stderr)


def _wrapped(raw: io.FileIO, before: Any) -> io.TextIOWrapper:
    """Return a text stream with the encoding and the buffering of another, which escapes other characters."""
    at_once = before is not None and (before.line_buffering or before.write_through)
    encoding = "utf-8" if before is None else before.encoding
    return io.TextIOWrapper(io.BufferedWriter(raw), encoding, "backslashreplace", line_buffering=at_once)
