"""Addresses of published models, such as hf://user/name or s3://bucket/name."""

from __future__ import annotations

import hashlib
import os
import re
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from labeltree.errors import InputError

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_CHAIN = re.compile(r"::[A-Za-z][\w+.-]*://")
_HUB_PATH = re.compile(r"([\w.-]+/[\w.-]+)(?:@([^/@]+))?((?:/[^/]+)*)")
_THIS_MACHINE = ("localhost", "127.0.0.1", "::1")
_WEB = ("http", "https")
EXPECTED = "such as hf://user/name, s3://bucket/name, https://host/name or file:///directory/name"


def is_address(place: Any) -> bool:
    """Return whether the place of a model is an address such as hf://user/name, and not a directory."""
    return isinstance(place, str) and _SCHEME.match(place) is not None


class HubPath(NamedTuple):
    """Where a model is on the Hugging Face Hub: a repository such as user/name, and a folder in it."""

    repo: str
    revision: str | None  # None for the default branch
    folder: str

    def file(self, name: str) -> str:
        """Return the path of a file of the model in the repository."""
        return f"{self.folder}/{name}" if self.folder else name


class Address:
    """The address of the directory of a model; an `InputError` if no model can be there.

    `shown` is the address for messages, without passwords and keys; `scheme` is in lowercase; `name` is the
    last part of the path, as a file name; `hub` is the place of an address that begins with hf://.
    """

    def __init__(self, url: str) -> None:
        found = _SCHEME.match(url)
        if found is None or not url.isprintable():
            raise InputError("not an address of a model", file=url, hint=f"write an address {EXPECTED}")
        if _CHAIN.search(url):  # not shown: it may contain a password
            raise InputError("chained addresses are not supported", hint=f"write an address {EXPECTED}")
        self.url, self.scheme = url, found[1].lower()
        self.is_web = self.scheme in _WEB
        self.shown = _public(url)
        path = self.shown.partition("://")[2].rstrip("/")
        if not path:
            raise InputError("the address has no path", file=self.shown, hint=f"write an address {EXPECTED}")
        if self.scheme == "file" and path[0] not in "/~":
            hint = f"write file://{os.path.abspath(path)}"
            raise InputError("a relative path, expected an absolute one", file=self.shown, hint=hint)
        last = path.rpartition("/")[2].partition("@")[0]
        self.name = re.sub(r"[^\w.-]", "_", last).lstrip(".")[:100] or "model"
        self.hub: HubPath | None = None
        if self.scheme != "hf":
            return
        found = _HUB_PATH.fullmatch(url.partition("://")[2].strip("/"))
        if found is None or ".." in found[0].split("/"):
            hint = "write hf://user/name, or hf://user/name@revision"
            raise InputError("not an address on the Hugging Face Hub", file=self.shown, hint=hint)
        self.hub = HubPath(found[1], found[2], found[3].strip("/"))

    @property
    def key(self) -> str:
        """Identifies the address, as a name that no other address has."""
        digest = hashlib.sha256(self.url.rstrip("/").encode("utf-8", "surrogatepass")).hexdigest()
        return f"{self.scheme}-{self.name}-{digest[:16]}"

    def file(self, name: str) -> str:
        """Return the address of a file of the model."""
        base, mark, query = self.url.partition("?") if self.is_web else (self.url, "", "")
        return f"{base.rstrip('/')}/{name}{mark}{query}"

    def shown_file(self, name: str) -> str:
        """Return the address of a file for messages, which never has a query on the web."""
        return f"{self.shown.rstrip('/')}/{name}"


def _public(url: str) -> str:
    """Return an address without passwords and keys; refuse unencrypted ones on other machines."""
    scheme = url.partition("://")[0].lower()
    if scheme not in _WEB:  # elsewhere, a name before @ may be that of a container
        return re.sub(r"://[^/@]*:[^/]*@", "://", url)
    shown = re.sub(r"://[^/?#]*@", "://", url).partition("?")[0].partition("#")[0]
    try:
        host = urlsplit(shown).hostname
    except ValueError:
        host = None
    if not host:
        raise InputError("the address has no host", file=shown, hint=f"write an address {EXPECTED}")
    if scheme == "http" and host not in _THIS_MACHINE:
        hint = "use https://, or download the directory yourself"
        raise InputError("http:// does not protect the model from changes in transit", file=shown, hint=hint)
    return shown
