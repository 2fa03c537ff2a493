"""`labeltree serve`: models as a service over HTTP."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from labeltree.base import limits
from labeltree.base.extras import EXTRAS, optional
from labeltree.cli import options
from labeltree.cli.options import model_place
from labeltree.errors import InputError

_TOKEN_VARIABLE = "LABELTREE_TOKEN"
_LIMITS = "Limits"
_option: Any = typer.Option


def serve(
    models: Annotated[
        list[Path],
        typer.Argument(
            metavar="MODEL...",
            parser=model_place,
            help="Model directories, or addresses such as hf://user/name. The last part of each is the name "
            "of the model.",
        ),
    ],
    host: Annotated[
        str, _option("--host", metavar="HOST", help="Address to listen on; 0.0.0.0 for all networks.")
    ] = "127.0.0.1",
    port: Annotated[
        int, options.limited("--port", limits.PORT, "PORT", "Port to listen on; 0 for any free one")
    ] = 8080,
    workers: Annotated[
        int,
        options.limited(
            "--workers", limits.WORKERS, "N", "Number of processes; they share the models' pages"
        ),
    ] = 1,
    watch: Annotated[
        float,
        options.limited(
            "--watch",
            limits.WATCH,
            "SECONDS",
            "Look for new versions of the models this often; 0 to look only after SIGHUP",
        ),
    ] = 0.0,
    token_file: Annotated[
        Path | None,
        _option(
            "--token-file",
            metavar="FILE",
            help="Require the bearer token in this file. "
            f"Default: the environment variable {_TOKEN_VARIABLE}, if set.",
        ),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        _option(
            "--allow-host",
            metavar="NAME",
            help="Accept requests that address the service by this host name; may be repeated. Default: any, "
            "but only local names if it listens on this machine only.",
        ),
    ] = None,
    max_body: Annotated[
        int, options.limited("--max-body", limits.MAX_BODY, "SIZE", "Maximum size of a request", _LIMITS)
    ] = 8_000_000,
    max_texts: Annotated[
        int,
        options.limited("--max-texts", limits.MAX_TEXTS, "N", "Maximum number of texts per request", _LIMITS),
    ] = 1000,
    max_length: Annotated[
        int,
        options.limited("--max-length", limits.MAX_LENGTH, "N", "Maximum characters of a text", _LIMITS),
    ] = 1_000_000,
    timeout: Annotated[
        float,
        options.limited(
            "--timeout", limits.TIMEOUT, "SECONDS", "Time to receive a request and to answer it", _LIMITS
        ),
    ] = 30.0,
    quiet: options.Quiet = False,
) -> None:
    """Serve models over HTTP, with a page to try them.

    Listens on this machine only, unless --host is given. SIGTERM finishes running requests and stops;
    SIGHUP opens new versions of the models.
    """
    for package in (name for name, extra in EXTRAS.items() if extra == "serve"):
        optional(package)
    from labeltree.serve.server import allowed_hosts, listen, run
    from labeltree.serve.settings import ServiceSettings

    token = _read_token(token_file)
    with listen(host, port) as listening:
        settings = ServiceSettings(
            max_body=max_body,
            max_texts=max_texts,
            max_length=max_length,
            timeout=timeout,
            watch=watch,
            hosts=allowed_hosts(listening, host, allow_host or []),
            token=token,
        )
        run(models, settings, listening, workers, quiet=quiet)


def _read_token(file: Path | None) -> str | None:
    """Return the token of a file or of the environment."""
    if file is None:
        token = os.environ.get(_TOKEN_VARIABLE)
        if token is None:
            return None
    else:
        try:
            token = file.read_text(encoding="utf-8")
        except FileNotFoundError:
            raise InputError("no such file", file=file) from None
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"cannot be read ({error})", file=file) from None
    token = token.strip()
    if len(token) < 8 or not (token.isascii() and token.isprintable()) or " " in token:
        what = "the token is not 8 or more ASCII characters without spaces"
        raise InputError(what, file=file or _TOKEN_VARIABLE, hint="write for example `openssl rand -hex 32`")
    return token
