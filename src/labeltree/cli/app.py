"""The `labeltree` command: its subcommands, its help, its standard streams, and how it reports errors."""

from __future__ import annotations

import atexit
import contextlib
import gc
import io
import os
import re
import signal
import sys
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import Annotated, Any, NoReturn

import typer
import typer.core

from labeltree._version import __version__
from labeltree.errors import InputError

# The subcommands in the sections of the help. Each is a function of its name.
SECTIONS = {
    "Every day": (
        *("estimate", "train", "predict", "evaluate", "explain", "threshold", "tune", "compare", "compress"),
        *("info", "serve"),
    ),
    "Publishing": ("push", "page", "verify", "tree"),
    "Data": ("split", "convert"),
    "Many machines": ("plan", "fill", "join"),
    "The paper": ("reproduce", "download", "synth", "demo"),
}
# The modules of commands that share one.
HOMES = {
    **dict.fromkeys(("plan", "fill", "join"), "parts"),
    **dict.fromkeys(("download", "synth"), "datasets"),
    **dict.fromkeys(("convert", "tree", "page"), "export"),
    "compare": "evaluate",
    "estimate": "train",
    "verify": "info",
}
COMMANDS = tuple(name for names in SECTIONS.values() for name in names)

_MEMORY_HINTS = {
    "train": "run `labeltree estimate` to see how much is needed",
    "synth": "use a smaller --scale",
}


class _Group(typer.core.TyperGroup):
    """The subcommands, each imported when it is used, so that the program starts quickly."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{**options, "commands": dict.fromkeys(COMMANDS)})

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return _command(cmd_name) if cmd_name in COMMANDS else None


_PLAIN: Any = {"rich_markup_mode": "rich", "pretty_exceptions_enable": False}


@cache
def _command(name: str) -> Any:
    from labeltree.cli.options import as_command, summary_of

    section = next(title for title, names in SECTIONS.items() if name in names)
    function = getattr(import_module(f"labeltree.cli.commands.{HOMES.get(name, name)}"), name)
    program = typer.Typer(add_completion=False, **_PLAIN)
    program.command(name, rich_help_panel=section, help=summary_of(function))(as_command(function))
    return typer.main.get_command(program)


app = typer.Typer(name="labeltree", cls=_Group, **_PLAIN)


def _print_version(given: bool) -> None:
    if given:
        print(f"labeltree {__version__}")
        raise typer.Exit


@app.callback()
def _labeltree(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Extreme multi-label classification with label trees whose size is known in advance.

    `labeltree demo` shows the whole workflow, `labeltree estimate DATA` the size of a model of your data.
    """


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line with these arguments, by default those of this process; return the exit code.

    It is 2 after an error that the user can fix, 130 after Ctrl-C, and 141 if the output is a closed pipe.
    SIGTERM, with which batch systems and containers stop a process, ends it with 143.
    """
    command = typer.main.get_command(app)
    if arguments is None:  # the process is ours
        prepare_streams()
        for number in (signal.SIGTERM, signal.SIGHUP):
            # A closed terminal sends SIGHUP, which nohup ignores.
            if signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, _terminate)
        # Imports make many objects and no garbage: collecting it takes a fifth of a short command's time.
        gc.set_threshold(100_000)
        atexit.register(gc.freeze)
        if "_LABELTREE_COMPLETE" in os.environ:  # the shell asks for completions
            command.main(prog_name="labeltree")
    arguments = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    code = 0
    try:
        try:
            # Not command.main(), which handles errors, Ctrl-C and closed pipes in its own way.
            with command.make_context("labeltree", list(arguments)) as context:
                command.invoke(context)
        except typer.Exit as stop:
            code = stop.exit_code
        sys.stdout.flush()
    except typer.TyperException as error:
        # Values that a limit refuses have a message of their own: see options.limited.
        message = error.message if type(error) is typer.BadParameter else error.format_message()
        missing: Any = error
        if message.startswith("Missing argument") and missing.param.nargs == -1:  # MODEL of DATA... MODEL
            places = [each for each in missing.ctx.command.params if each.param_type_name == "argument"]
            message = f"Missing argument '{places[-1].metavar}'"
        what, _, more = message.rstrip(".").partition(". ")
        name = arguments[0] if arguments[0] in getattr(command, "commands", {}) else ""
        hint = _in_sentence(more) or f"see `{f'labeltree {name}'.rstrip()} --help`"
        return _fail(InputError(_in_sentence(what), hint=hint))
    except InputError as error:
        return _fail(error)
    except KeyboardInterrupt as stop:
        print(str(stop) or "stopped", file=sys.stderr)
        return 130
    except BrokenPipeError:
        _drop_output()
        return 141
    except OSError as error:
        _drop_output()
        what = _in_sentence(error.strerror or str(error))
        if isinstance(error, OutputError):
            return _fail(InputError(f"standard output cannot be written ({what})"))
        return _fail(InputError(what, file=error.filename, hint="check permissions and free space"))
    except MemoryError:
        hint = _MEMORY_HINTS.get(arguments[0], "use a machine with more memory")
        return _fail(InputError("not enough memory", hint=hint))
    return code


def _terminate(number: int, frame: Any) -> NoReturn:
    """End with an exception, so that what is done is recorded, and temporary files are removed."""
    raise SystemExit(128 + number)


def _in_sentence(text: str) -> str:
    """Return a message without its capital letter; a name in capitals, such as MODEL, keeps it."""
    return text[:1].lower() + text[1:] if text[1:2].islower() else text


def _fail(error: InputError) -> int:
    from labeltree.cli.options import spelled
    from labeltree.cli.printing import escaped

    # One line, in which the spaces of a file name stay as they are.
    message = re.sub(r"\s*[\r\n]\s*", " ", error.message(spelled))
    print("error:", escaped(message), file=sys.stderr)
    return 2


# Standard streams: what happens if they are closed, or the disk behind them is full


class OutputError(OSError):
    """Standard output cannot be written."""


class _Standard(io.FileIO):
    """Standard output, whose errors are distinguishable; or standard error, which drops what fails."""

    def write(self, content: Any) -> int:
        """Write some bytes."""
        try:
            return super().write(content)
        except BrokenPipeError:
            raise
        except OSError as error:
            if self.fileno() == 2:  # the work goes on without its messages
                return len(content)
            raise OutputError(error.errno, error.strerror) from None


def prepare_streams() -> None:
    """Replace the standard streams of this process by streams with these errors.

    A closed one gets its number back, which the next file would get otherwise, and with it what is printed:
    standard input is empty, and standard output cannot be written.
    """
    streams = ((sys.stdin, os.O_RDONLY), (sys.stdout, os.O_RDONLY), (sys.stderr, os.O_WRONLY))
    for stream, access in streams:
        if stream is None:
            os.open(os.devnull, access)
    if sys.stdout is sys.__stdout__:
        sys.stdout = _wrapped(_Standard(1, "wb", closefd=False), sys.stdout)
    if sys.stderr is sys.__stderr__:
        sys.stderr = _wrapped(_Standard(2, "wb", closefd=False), sys.stderr)


def _wrapped(raw: io.FileIO, before: Any) -> io.TextIOWrapper:
    """Return a text stream with the encoding and the buffering of another, which escapes other characters."""
    at_once = before is not None and (before.line_buffering or before.write_through)
    encoding = "utf-8" if before is None else before.encoding
    return io.TextIOWrapper(io.BufferedWriter(raw), encoding, "backslashreplace", line_buffering=at_once)


def _drop_output() -> None:
    """Discard buffered output, which Python would otherwise fail to flush at exit."""
    with contextlib.suppress(OSError):  # standard output is not a file
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
