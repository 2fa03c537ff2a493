"""A stand-in for the Hugging Face Hub: the requests that huggingface_hub makes to publish and to read."""

import base64
import hashlib
import json
import re
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

from download_server import serving


class Hub(ThreadingHTTPServer):
    """Repositories by name: a list of commits, each with its files."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.repos, self.requests, self.private = {}, [], set()
        self.damage = {}  # files that are sent otherwise than they were written
        self.token = None  # if set, requests without it are refused
        self.address = f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, request, client_address):
        """Ignore clients that close the connection."""

    def files(self, repo):
        return self.repos[repo][-1][1]

    def find(self, repo, revision):
        for commit, files in reversed(self.repos.get(repo, [])):
            if revision in (commit, "main", None):
                return commit, files
        return None


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def _answer(self, content=b"", status=200, **headers):
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _missing(self, code="RepoNotFound"):
        self._answer({"error": code}, 404, X_Error_Code=code)

    def _route(self):
        path = unquote(urlsplit(self.path).path)
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length)
        self.server.requests.append((self.command, path))
        if self.server.token and self.headers.get("Authorization") != f"Bearer {self.server.token}":
            return self._answer({"error": "Invalid credentials"}, 401)
        routes = [
            (r"POST /api/repos/create", self._create),
            (r"POST /api/validate-yaml", self._validate),
            (r"GET /api/models/([^/]+/[^/]+)(?:/revision/(.+))?", self._info),
            (r"GET /api/models/([^/]+/[^/]+)/tree/([^/]+)(?:/(.+))?", self._tree),
            (r"POST /api/models/([^/]+/[^/]+)/preupload/(.+)", self._preupload),
            (r"POST /api/models/([^/]+/[^/]+)/commit/(.+)", self._commit),
            (r"GET /([^/]+/[^/]+)/resolve/([^/]+)/(.+)", self._resolve),
        ]
        for pattern, handle in routes:
            found = re.fullmatch(pattern, f"{self.command} {path}")
            if found:
                return handle(body, *found.groups())
        return self._missing("EntryNotFound")

    def log_message(self, *_):
        pass

    do_GET = do_POST = _route

    def _create(self, body):
        wanted = json.loads(body)
        repo = f"{wanted['organization']}/{wanted['name']}"
        if wanted.get("private") or wanted.get("visibility") == "private":
            self.server.private.add(repo)
        if repo in self.server.repos:
            return self._answer({"error": "exists", "url": f"{self.server.address}/{repo}"}, 409)
        self.server.repos[repo] = [("0" * 40, {".gitattributes": b"\n"})]
        return self._answer({"url": f"{self.server.address}/{repo}"})

    def _validate(self, body):
        self._answer({"errors": [], "warnings": []})

    def _info(self, body, repo, revision):
        if repo not in self.server.repos:
            return self._missing()
        found = self.server.find(repo, revision)
        if found is None:
            return self._missing("RevisionNotFound")
        return self._answer({"_id": "1", "id": repo, "modelId": repo, "sha": found[0], "tags": []})

    def _tree(self, body, repo, revision, folder):
        found, top = self.server.find(repo, revision), f"{folder}/" if folder else ""
        if found is None:
            return self._missing("RevisionNotFound")
        below = {name: content for name, content in found[1].items() if name.startswith(top)}
        if not below:
            return self._missing("EntryNotFound")
        entries = []
        if "recursive=true" not in self.path.lower():
            folders = {top + name.removeprefix(top).split("/")[0] for name in below} - below.keys()
            entries = [{"type": "directory", "path": name, "oid": "0"} for name in sorted(folders)]
            below = {name: below[name] for name in below if "/" not in name.removeprefix(top)}
        entries += [
            {"type": "file", "path": name, "size": len(content), "oid": "0"}
            for name, content in below.items()
        ]
        self._answer(entries)

    def _preupload(self, body, repo, revision):
        paths = [file["path"] for file in json.loads(body)["files"]]
        files = [{"path": path, "uploadMode": "regular", "shouldIgnore": False} for path in paths]
        self._answer({"files": files})

    def _commit(self, body, repo, revision):
        head, *operations = (json.loads(line) for line in body.splitlines())
        parent, files = self.server.repos[repo][-1][0], dict(self.server.files(repo))
        if head["value"].get("parentCommit") not in (None, parent):
            return self._answer({"error": "A commit has happened since. Please refresh and try again."}, 412)
        for operation in operations:
            value = operation["value"]
            if operation["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            else:
                assert operation["key"] == "deletedFile"
                del files[value["path"]]
        commit = hashlib.sha1(body).hexdigest()
        self.server.repos[repo].append((commit, files))
        url = f"{self.server.address}/{repo}/commit/{commit}"
        return self._answer({"commitUrl": url, "commitOid": commit, "success": True})

    def _resolve(self, body, repo, revision, name):
        found = self.server.find(repo, revision)
        if found is None:
            return self._missing()
        commit, files = found
        if name not in files:
            return self._missing("EntryNotFound")
        content = self.server.damage.get(name, files[name])
        return self._answer(content, X_Repo_Commit=commit)


@contextmanager
def running_hub():
    with Hub() as hub, serving(hub):
        yield hub
