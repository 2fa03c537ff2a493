"""`labeltree serve`: models as a service over HTTP."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from labeltree.base import limits
from labeltree.base.extras import EXTRAS, optional
from labeltree.cli.places import model_place
from labeltree.errors import InputError
from labeltree.serve.settings import RequestLimits, ServiceSettings

_TOKEN_VARIABLE = "LABELTREE_TOKEN"


def serve(
    models: Annotated[list[Path], model_place],
    *,
    host: str = "127.0.0.1",
    port: Annotated[int, limits.PORT] = 8080,
    workers: Annotated[int, limits.Whole(1, 256)] = 1,
    watch: Annotated[float, limits.WATCH] = 0.0,
    token_file: Path | None = None,
    allow_host: list[str] | None = None,
    request: RequestLimits,
    quiet: bool = False,
) -> None:
    """Serve models over HTTP, with a page to try them.

    Listens on this machine only, unless --host is given. SIGTERM finishes running requests and stops;
    SIGHUP opens new versions of the models.

    Parameters
    ----------
    models : MODEL...
        Model directories, or addresses such as hf://user/name. The last part of each is the name of the
        model.
    host : HOST
        Address to listen on; 0.0.0.0 for all networks.
    port : PORT
        Port to listen on; 0 for any free one.
    workers
        Number of processes; they share the models' pages.
    watch : SECONDS
        Look for new versions of the models this often; 0 to look only after SIGHUP.
    token_file : FILE
        Require the bearer token in this file. Default: the environment variable LABELTREE_TOKEN, if set.
    allow_host : NAME
        Accept requests that address the service by this host name; may be repeated. Default: any, but only
        local names if it listens on this machine only.
    """
    for package in (name for name, extra in EXTRAS.items() if extra == "serve"):
        optional(package)
    from labeltree.serve.server import allowed_hosts, listen, run

    token = _read_token(token_file)
    with listen(host, port) as listening:
        hosts = allowed_hosts(listening, host, allow_host or [])
        settings = ServiceSettings(**asdict(request), watch=watch, hosts=hosts, token=token)
        run(models, settings, listening, workers, quiet=quiet)


def _read_token(file: Path | None) -> str | None:
    """Return the token of a file or of the environment."""
    if file is None:
        token = os.environ.get(_TOKEN_VARIABLE)
    elif file.is_file():
        token = file.read_text(encoding="utf-8", errors="replace")
    else:
        raise InputError("no such file", file=file)
    if token is None:
        return None
    token = token.strip()
    if len(token) < 8 or not (token.isascii() and token.isprintable()) or " " in token:
        what = "the token is not 8 or more ASCII characters without spaces"
        raise InputError(what, file=file or _TOKEN_VARIABLE, hint="write for example `openssl rand -hex 32`")
    return token
