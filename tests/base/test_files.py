"""Reading files in pieces, plain or compressed, and nothing of a damaged file."""

import bz2
import gzip
import lzma
import os
import stat
import tempfile
import threading
import time
from pathlib import Path

import pytest
from helpers import read_text

from labeltree import InputError, read_svm
from labeltree.base import limits
from labeltree.base.files import _ahead, check_output, read_pieces, write_whole

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
    for at in range(10, len(whole)):  # by the bytes before, it is recognized as compressed
        damaged = bytearray(whole)
        damaged[at] ^= 0x55
        (tmp_path / "rows").write_bytes(damaged)
        with pytest.raises(InputError, match="truncated or damaged"):
            content(tmp_path / "rows")


# Limits


@pytest.mark.parametrize("kind", ["plain", *COMPRESS])
@pytest.mark.parametrize("piece_bytes", [100, 5000, 100_000])
def test_a_line_has_a_limit(tmp_path, monkeypatch, kind, piece_bytes):
    monkeypatch.setattr(limits, "LONGEST_LINE", 10_000)
    write = COMPRESS.get(kind, bytes)
    lines = b"x" * 9_900 + b"\n" + b"y" * 9_900
    (tmp_path / "rows").write_bytes(write(b"\n" + lines + b"\n" + lines))
    content(tmp_path / "rows", piece_bytes)
    (tmp_path / "rows").write_bytes(write(lines + b"z" * 200_000))
    with pytest.raises(InputError, match=r"rows: a line is longer than 10,000 bytes; check"):
        content(tmp_path / "rows", piece_bytes)


@pytest.mark.parametrize("name", ["rows.csv", "rows.jsonl", "rows.tsv", "rows.svm"])
def test_every_reader_limits_lines(tmp_path, monkeypatch, name):
    monkeypatch.setattr(limits, "LONGEST_LINE", 10**6)
    (tmp_path / name).write_bytes(b"text,labels\n" * (name == "rows.csv") + b"a" * 10**7)
    with pytest.raises(InputError, match="a line is longer than 1,000,000 bytes"):
        read_svm(tmp_path / name) if name == "rows.svm" else list(read_text(tmp_path / name))


def test_long_lines_are_joined_in_linear_time(tmp_path, monkeypatch):
    monkeypatch.setattr("labeltree.data.records._PIECE_BYTES", 64)
    (tmp_path / "rows.txt").write_bytes(b"first\n" + b"x" * 4_000_000 + b"\nlast")
    start = time.process_time()
    texts = [text for text, *_ in read_text(tmp_path / "rows.txt", "txt", require_labels=False)]
    assert texts == ["first", "x" * 4_000_000, "last"]
    assert time.process_time() - start < 15  # it would be minutes if each piece were joined to all before


@pytest.mark.parametrize("kind", COMPRESS)
def test_an_archive_that_expands_without_end_is_refused(tmp_path, monkeypatch, kind):
    file = tmp_path / "bomb"
    file.write_bytes(COMPRESS[kind](b"\n" * 5_000_000))
    monkeypatch.setattr(limits, "UNPACKED_BYTES", 1_000_000)
    monkeypatch.setattr(limits, "UNPACKED_RATIO", 100)
    with pytest.raises(InputError, match=r"bomb: [\d,]+ compressed bytes expand to more than \d MB; if this"):
        content(file, 100_000)
    file.write_bytes(b"\n" * 5_000_000)  # not compressed
    assert len(content(file)) == 5_000_000
    monkeypatch.setattr(limits, "UNPACKED_BYTES", 10_000)
    monkeypatch.setattr(limits, "UNPACKED_RATIO", 1000)
    file.write_bytes(COMPRESS[kind](ROWS))  # compressed like data
    assert content(file) == ROWS


def test_a_header_cannot_claim_all_memory(tmp_path, monkeypatch, refused):
    file = tmp_path / "small.svm"
    file.write_text("1 2147483646 2147483646\n0 0:1\n")
    monkeypatch.setattr("labeltree.data.svm.available_memory", lambda: 10**9)
    for command in ("estimate", "train"):
        message = refused(command, file, *[tmp_path / "m"][: command == "train"])
        assert "small.svm:1: not enough memory: 2,147,483,646 labels need 25.8 GB, 1.0 GB are" in message
        assert message.endswith("correct the header")
    file.write_text("1 10 5000000\n0 0:1\n")
    monkeypatch.setattr("labeltree.training.train.available_memory", lambda: 10**8)
    for command in ("estimate", "train"):
        message = refused(command, file, *[tmp_path / "m"][: command == "train"])
        assert "a tree of 5,000,000 labels needs 250.0 MB of memory, but only 100.0 MB can be used" in message


# Writing


def write(path):
    with write_whole(path) as file:
        file.write(b"rows")


@pytest.mark.parametrize(
    ("use", "name", "message"),
    [
        (content, "none", "no such file"),
        (content, ".", "is a directory, not a file"),
        (write, "none/out.tsv", "none: no such directory; create it first"),
        (write, ".", "is a directory, not a file"),
    ],
)
def test_paths_that_cannot_be_used(tmp_path, use, name, message):
    with pytest.raises(InputError, match=message):
        use(tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_the_temporary_name_cannot_be_guessed(tmp_path):
    names = set()
    for _ in range(3):
        with write_whole(tmp_path / "out.tsv") as file:
            names |= {path.name for path in tmp_path.glob(".*")}
            file.write(b"rows")
    assert len(names) == 3
    assert not any(str(os.getpid()) in name for name in names)
    assert [path.name for path in tmp_path.iterdir()] == ["out.tsv"]


def test_a_link_under_a_temporary_name_is_not_followed(tmp_path, monkeypatch):
    (tmp_path / "precious").write_text("mine")
    monkeypatch.setattr(tempfile, "_get_candidate_names", lambda: iter(["a", "b"]))
    (tmp_path / ".out.tsv.a.partial").symlink_to("precious")
    with write_whole(tmp_path / "out.tsv") as file:
        assert (tmp_path / ".out.tsv.b.partial").exists()
        file.write(b"rows")
    assert (tmp_path / "precious").read_text() == "mine"
    assert (tmp_path / "out.tsv").read_bytes() == b"rows"


def test_permissions_follow_the_umask(tmp_path):
    before = os.umask(0o027)
    try:
        write(tmp_path / "out.tsv")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "out.tsv").stat().st_mode) == 0o640


def test_an_interrupted_write_leaves_the_old_file(tmp_path):
    (tmp_path / "out.tsv").write_text("old")
    with pytest.raises(KeyboardInterrupt), write_whole(tmp_path / "out.tsv"):
        raise KeyboardInterrupt
    assert [path.read_text() for path in tmp_path.iterdir()] == ["old"]


def test_a_broken_link_is_written_only_on_demand(tmp_path):
    (tmp_path / "out.tsv").symlink_to("elsewhere")
    with pytest.raises(InputError, match="already exists"):
        check_output(tmp_path / "out.tsv", False)
    check_output(tmp_path / "out.tsv", True)
    check_output(Path("/dev/null"), False)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("name", ["data.svm", "data.tsv", "data.csv", "data.jsonl", "data.csv.gz"])
def test_a_file_in_utf_16_is_recognized(tmp_path, name, encoding):
    content = "\ufeff" * (encoding != "utf-16") + 'labels,text\n{"a": 1}\tb\n'
    content = content.encode(encoding)
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    with pytest.raises(InputError, match=r"the file is in UTF-16, expected UTF-8; convert it"):
        read_svm(tmp_path / name) if name.endswith("svm") else list(read_text(tmp_path / name))
