"""The `labeltree` command: its subcommands, and what becomes of errors."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Sequence
from typing import Annotated, Any, NoReturn

import typer

from labeltree._version import __version__
from labeltree.cli import explaining, making, pruning, reproducing, training, using
from labeltree.errors import InputError

# Every mistake in the arguments is one of these; Typer gives the class no public name.
_UsageError: Any = typer.BadParameter.__bases__[0]

app = typer.Typer(name="labeltree", add_completion=False, pretty_exceptions_enable=False)
app.command()(training.estimate)
app.command()(training.train)
app.command()(using.evaluate)
app.command()(using.predict)
app.command()(using.info)
app.command()(explaining.explain)
app.command()(pruning.prune)
app.command()(reproducing.reproduce)
app.command()(making.download)
app.command()(making.synth)
app.command()(making.demo)


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
