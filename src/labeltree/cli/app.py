"""The `labeltree` command: its subcommands, and what becomes of errors."""

from __future__ import annotations

import atexit
import contextlib
import gc
import os
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Annotated, Any, NoReturn

import typer
import typer.core

from labeltree._version import __version__
from labeltree.errors import InputError

# Every mistake in the arguments is one of these; Typer gives the class no public name.
_UsageError: Any = typer.BadParameter.__bases__[0]

# Each command and the module that defines it, in the order of the help.
_MODULES = {
    "estimate": "training",
    "train": "training",
    "evaluate": "using",
    "predict": "using",
    "info": "using",
    "explain": "explaining",
    "prune": "pruning",
    "reproduce": "reproducing",
    "download": "making",
    "synth": "making",
    "demo": "making",
}


class _Commands(Mapping[str, Any]):
    """The commands by name, each imported when it is used, so that every one of them starts quickly."""

    def __getitem__(self, name: str) -> Any:
        return _command(name, _MODULES[name])

    def __iter__(self) -> Iterator[str]:
        return iter(_MODULES)

    def __len__(self) -> int:
        return len(_MODULES)


@cache
def _command(name: str, module: str) -> Any:
    alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    alone.command(name)(getattr(import_module(f"labeltree.cli.{module}"), name))
    return typer.main.get_command(alone)


class _Group(typer.core.TyperGroup):
    def __init__(self, **options: Any) -> None:
        super().__init__(**{**options, "commands": _Commands()})


app = typer.Typer(name="labeltree", cls=_Group, add_completion=False, pretty_exceptions_enable=False)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"labeltree {__version__}")
        raise typer.Exit


@app.callback()
def _labeltree(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Tag with huge vocabularies: label trees whose size is known, to the byte, before they are trained."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    arguments : sequence of str, optional
        What follows the command's name; by default what the shell passed.

    Returns
    -------
    int
        The exit code: 0, or 2 after a user's mistake, 130 after Ctrl-C, 141 if nobody reads the output; 143
        after SIGTERM, with which batch systems and containers stop a process.
    """
    if arguments is None:  # the process is ours
        signal.signal(signal.SIGTERM, _terminated)
        # Imports make many objects and no garbage: looking for it takes a fifth of a short command's time.
        gc.set_threshold(100_000)
        atexit.register(gc.freeze)
    arguments = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    command = typer.main.get_command(app)
    try:
        # Not command.main(), which has a mind of its own about errors, Ctrl-C and closed pipes.
        with command.make_context("labeltree", list(arguments)) as context:
            command.invoke(context)
        sys.stdout.flush()
    except typer.Exit as stop:
        return stop.exit_code
    except _UsageError as error:
        where = error.ctx.command_path if error.ctx else "labeltree"
        return _fail(f"{error.format_message().rstrip('.')} (see `{where} --help`)")
    except InputError as error:
        return _fail(str(error))
    except KeyboardInterrupt as stop:
        print(str(stop) or "stopped", file=sys.stderr)
        return 130
    except BrokenPipeError:
        _drop_output()
        return 141
    except OSError as error:
        _drop_output()
        where = f"{error.filename}: " if error.filename else ""
        return _fail(f"{where}{error.strerror or error}; check the disk and the rights")
    except MemoryError:
        return _fail("the memory is used up; `labeltree estimate` tells what training needs")
    return 0


def _terminated(number: int, frame: Any) -> NoReturn:
    """Leave by an exception, so that a model half written is removed on the way out."""
    raise SystemExit(128 + number)


def _fail(message: str) -> int:
    print("error:", " ".join(message.split()), file=sys.stderr)
    return 2


def _drop_output() -> None:
    """Give what is still buffered nowhere to go, or Python would complain when it flushes at exit."""
    with contextlib.suppress(OSError):  # a standard output that is no file
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
