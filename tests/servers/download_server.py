"""A web server for tests of downloads, which fails on demand, and a small dataset on it."""

import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

from helpers import make_data

from labeltree import write_svm
from labeltree.data.published import Source

NAMES = ("train.svm.bz2", "test.svm.bz2")
PAGE = b"<!DOCTYPE html><html><body>Please log in</body></html>\n"


class Server(ThreadingHTTPServer):
    """Files by name, and for each name how the next requests fail; later requests succeed."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.files, self.troubles, self.requests = {}, {}, []
        self.address = f"http://127.0.0.1:{self.server_port}/data"

    def handle_error(self, request, client_address):
        """Ignore clients that close the connection."""


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        name = self.path.removeprefix("/data/")
        self.server.requests.append(name)
        content = self.server.files.get(name)
        troubles = self.server.troubles.get(name, [])
        trouble = troubles.pop(0) if troubles else None
        if content is None or isinstance(trouble, int):
            return self.send_error(trouble or 404)
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[: len(content) // 2] if trouble == "half" else content)
        self.close_connection = True

    def log_message(self, *_):
        pass


@contextmanager
def serving(server):
    """Answer requests in a thread."""
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()


@contextmanager
def running_server():
    with Server() as server, serving(server):
        yield server


def published(train, test, /, **changes):
    facts = {
        "n_instances": train.n_instances,
        "n_features": train.n_features,
        "n_labels": train.n_labels,
        "x_nnz": train.X.nnz,
        "y_nnz": train.Y.nnz,
        "n_test_instances": test.n_instances,
        "train_file": NAMES[0],
        "test_file": NAMES[1],
    }
    return Source(**(facts | changes))


def put_data(server, folder):
    """A small dataset, written to the folder and put on the server."""
    train, test = make_data(300), make_data(60, seed=1)
    folder.mkdir()
    for name, part in zip(NAMES, (train, test), strict=True):
        write_svm(folder / name, part)
        server.files[name] = (folder / name).read_bytes()
    return SimpleNamespace(train=train, test=test, server=server)


def same(one, other):
    return all(
        (getattr(one, name) != getattr(other, name)).nnz == 0
        and getattr(one, name).shape == getattr(other, name).shape
        for name in "XY"
    )


def kept(folder):
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []
