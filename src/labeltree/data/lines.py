"""The lines of a file of documents, decoded."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator

from labeltree.base.files import display_name, read_pieces
from labeltree.errors import InputError

_PIECE_BYTES = 1 << 20


class Lines:
    """The lines of a file of documents, without their line ends.

    Parameters
    ----------
    path, progress
        As in :func:`labeltree.read_text`.
    eager : bool
        Take from a pipe what it has to give, without waiting for more.

    Attributes
    ----------
    waiting : bool
        Whether the next line with a document has still to be read from the file.
    """

    def __init__(
        self, path: str | os.PathLike[str], progress: Callable[[float], None] | None, *, eager: bool
    ) -> None:
        self.waiting = True
        self._path, self._progress, self._eager = path, progress, eager
        self._name = display_name(path)

    def __iter__(self) -> Iterator[str]:
        number = 1
        begun: list[bytes] = []  # parts of a line that has not ended
        read = read_pieces(self._path, _PIECE_BYTES, self._progress, eager=self._eager)
        with contextlib.closing(read) as pieces:
            for piece, last in pieces:
                *ended, rest = piece.tobytes().split(b"\n")
                if ended:
                    ended[0] = b"".join([*begun, ended[0]])
                    begun = []
                if rest:
                    begun.append(rest)
                if last and begun:
                    ended.append(b"".join(begun))
                filled = max((i for i in range(len(ended) - 1, -1, -1) if ended[i].strip()), default=0)
                for i, raw in enumerate(ended):
                    self.waiting = i >= filled  # the rest is blank lines
                    yield decode_line(raw, self._name, number)
                    number += 1


def decode_line(raw: bytes, name: str, number: int) -> str:
    """Decode a line and remove its line end."""
    try:
        text = raw.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        wrong = error.object[error.start]
        raise InputError(
            f"the byte 0x{wrong:02x} is not UTF-8",
            file=name,
            line=number,
            hint="convert the file to UTF-8 (for example with iconv -f latin1 -t utf-8)",
        ) from None
    return text.removesuffix("\r")
