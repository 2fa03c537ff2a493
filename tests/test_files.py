"""Reading files in pieces, plain or compressed, and nothing of a damaged file."""

import bz2
import gzip
import lzma
import threading

import pytest

from labeltree import InputError, read_svm
from labeltree.files import _ahead, read_pieces

COMPRESS = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress}


class SlowFile:
    """The first piece comes at once, the second when it is released."""

    def __init__(self):
        self.n_reads = 0
        self.release = threading.Event()

    def readinto(self, buffer):
        self.n_reads += 1
        if self.n_reads > 1:
            self.release.wait()
            return 0
        buffer[:] = b"x" * len(buffer)
        return len(buffer)


def test_closing_does_not_wait_for_the_thread_that_reads():
    file = SlowFile()
    pieces = _ahead(file, 8)
    piece, last = next(pieces)
    assert (bytes(piece), last) == (b"x" * 8, False)
    closed = threading.Thread(target=pieces.close, daemon=True)
    closed.start()
    closed.join(30)
    waited = closed.is_alive()
    file.release.set()
    assert not waited


def content(path, piece_bytes=1000):
    return b"".join(piece.tobytes() for piece, _ in read_pieces(path, piece_bytes))


ROWS = b"".join(b"%d %d:1\n" % (i % 7, i % 50 + 1) for i in range(30_000))


@pytest.mark.parametrize("kind", COMPRESS)
@pytest.mark.parametrize("piece_bytes", [1, 1000, 1 << 20])
def test_streams_are_read_one_after_another(tmp_path, kind, piece_bytes):
    rows = ROWS if piece_bytes > 1 else ROWS[:50]
    parts = rows[:7], rows[7:1000], b"", rows[1000:]
    (tmp_path / "rows").write_bytes(b"".join(map(COMPRESS[kind], parts)))
    assert content(tmp_path / "rows", piece_bytes) == rows


@pytest.mark.parametrize("kind", COMPRESS)
@pytest.mark.parametrize("stream", [1, 2])
def test_a_truncated_stream_is_refused_wherever_it_ends(tmp_path, kind, stream):
    whole = COMPRESS[kind](ROWS[:100])
    before = whole * (stream - 1)
    for size in range(1, len(whole)):
        (tmp_path / "rows").write_bytes(before + whole[:size])
        if stream == 1 and size < 10:
            continue  # not recognized as compressed
        with pytest.raises(InputError, match="truncated or damaged"):
            content(tmp_path / "rows")


@pytest.mark.parametrize("kind", COMPRESS)
def test_a_damaged_stream_is_refused_wherever_the_damage_is(tmp_path, kind):
    whole = COMPRESS[kind](ROWS[:100])
    start = len(whole)
    unused = {"gz": range(4, 10)}.get(kind, ())  # the time and the system of gzip
    for at in range(start):
        damaged = bytearray(whole + whole)
        damaged[start + at] ^= 0x55
        (tmp_path / "rows").write_bytes(damaged)
        if at not in unused:
            with pytest.raises(InputError, match="truncated or damaged"):
                content(tmp_path / "rows")


@pytest.mark.parametrize("kind", COMPRESS)
@pytest.mark.parametrize(
    "garbage", [b"x", b"garbage at the end\n", b"BZh9", b"\xfd7zXZ", b"\x1f\x8b", b"\0x"]
)
def test_what_follows_the_last_stream_is_refused(tmp_path, kind, garbage):
    (tmp_path / "rows").write_bytes(COMPRESS[kind](ROWS) + garbage)
    with pytest.raises(
        InputError, match=r"rows: the compressed data is truncated or damaged \(.+\); download"
    ):
        read_svm(tmp_path / "rows")


def test_only_padding_of_the_format_is_allowed(tmp_path):
    file = tmp_path / "rows"
    for kind, zeros in (("gz", 1), ("gz", 512), ("xz", 4), ("xz", 100_000)):
        file.write_bytes(COMPRESS[kind](ROWS) + b"\0" * zeros)
        assert content(file) == ROWS
    file.write_bytes(lzma.compress(ROWS[:9]) + b"\0" * 9000 + lzma.compress(ROWS[9:]) + b"\0" * 8)
    assert content(file) == ROWS
    for kind, zeros in (("xz", 3), ("xz", 10_001), ("bz2", 4)):
        file.write_bytes(COMPRESS[kind](ROWS) + b"\0" * zeros)
        with pytest.raises(InputError, match="truncated or damaged"):
            content(file)
