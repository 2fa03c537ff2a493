"""Reading files in pieces: closing a reader early never waits for the thread that reads ahead."""

import threading

from labeltree.files import _ahead


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
