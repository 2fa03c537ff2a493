"""The `labeltree` command: its subcommands, its help, and how it reports errors."""

from __future__ import annotations

import atexit
import contextlib
import difflib
import gc
import os
import re
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Annotated, Any, NoReturn

import typer
import typer.core

from labeltree._version import __version__
from labeltree.cli.streams import OutputError, prepare_streams
from labeltree.errors import InputError, alternatives

# The base class of all errors in the arguments; Typer does not export it.
_UsageError: Any = typer.BadParameter.__bases__[0]

# The subcommands in the sections of the help. Each is a function in the module of the same name.
SECTIONS = {
    "Every day": (
        *("estimate", "train", "predict", "evaluate", "explain", "threshold", "tune", "compare", "compress"),
        *("info", "serve"),
    ),
    "Publishing": ("push", "page", "verify", "tree", "convert"),
    "Many machines": ("plan", "fill", "join"),
    "The paper": ("reproduce", "download", "synth", "demo"),
}
COMMANDS = tuple(name for names in SECTIONS.values() for name in names)

# What to do when memory runs out.
_MORE_MEMORY = "use a machine with more memory"
_MEMORY_HINTS = {
    "train": "run `labeltree estimate` to see how much is needed",
    "synth": "use a smaller --scale",
}

# A space and a hyphen at which help is not wrapped.
_SPACE, _HYPHEN = "\xa0", "\u2011"


class _Commands(Mapping[str, Any]):
    """The subcommands by name, each imported when it is used, so that the program starts quickly."""

    def __getitem__(self, name: str) -> Any:
        if name not in COMMANDS:
            raise KeyError(name)
        return _command(name)

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


class _Plain:
    """A command with help in plain text: options in sections, each with a column of names."""

    def get_help(self, context: Any) -> str:
        """Return the whole help text."""
        text: str = super().get_help(context)  # type: ignore[misc]
        return text.replace(_SPACE, " ").replace(_HYPHEN, "-")

    def collect_usage_pieces(self, context: Any) -> list[str]:
        """Return what follows the command in the usage line."""
        pieces: list[str] = super().collect_usage_pieces(context)  # type: ignore[misc]
        # Typer writes a required argument as {DATA}, and one that may be repeated as {DATA}...
        found = [re.fullmatch(r"\{(.*)\}(\.\.\.)?", piece) or piece for piece in pieces]
        return [
            piece if isinstance(piece, str) else piece[1] + (piece[2] or "") * ("..." not in piece[1])
            for piece in found
        ]

    def parse_args(self, context: Any, args: list[str]) -> list[str]:
        """Parse the arguments; errors know their command."""
        try:
            rest: list[str] = super().parse_args(context, args)  # type: ignore[misc]
        except _UsageError as error:
            error.ctx = error.ctx or context
            raise
        return rest

    def format_options(self, context: Any, formatter: Any) -> None:
        """Write arguments and options, section by section."""
        sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        for parameter in self.get_params(context):  # type: ignore[attr-defined]
            if parameter.param_type_name == "argument":
                sections["Arguments"].append((parameter.metavar, parameter.help))
            else:
                section = sections.setdefault(parameter.rich_help_panel or "Options", [])
                section.append(parameter.get_help_record(context))
        for title, rows in sections.items():
            if rows:
                with formatter.section(title):
                    formatter.write_dl([(name, _sentences(text)) for name, text in rows])


def _sentences(text: str) -> str:
    """Turn Typer's [default: 1] and [required] into sentences, and keep short phrases on one line."""
    text = re.sub(r"  \[required\]$", " Required.", text)
    text = re.sub(r"  \[default: (.+)\]$", r" Default: \1.", text)
    text = re.sub(r"(?<=\w)-(?=\w)", _HYPHEN, text)
    return text.replace("Default: ", f"Default:{_SPACE}").replace(" - ", f" -{_SPACE}")


class _Command(_Plain, typer.core.TyperCommand):
    def invoke(self, context: Any) -> Any:
        """Run the command, with published models in the cache."""
        from labeltree.cli.published import with_local_models

        context.params = with_local_models(context.params)
        return super().invoke(context)


class _Group(_Plain, typer.core.TyperGroup):
    def __init__(self, **options: Any) -> None:
        super().__init__(**{**options, "commands": _Commands()})

    def format_options(self, context: Any, formatter: Any) -> None:
        """Write the options and the commands, section by section."""
        super().format_options(context, formatter)
        width = max(map(len, COMMANDS))
        for title, names in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), _summary(self.commands[name])) for name in names])


def _summary(command: Any) -> str:
    """Return the first line of a command's help."""
    return str(command.help).split("\n", 1)[0]


_PLAIN: Any = {"rich_markup_mode": None, "pretty_exceptions_enable": False}


@cache
def _command(name: str) -> Any:
    program = typer.Typer(add_completion=False, **_PLAIN)
    program.command(name, cls=_Command)(getattr(import_module(f"labeltree.cli.commands.{name}"), name))
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

    `labeltree estimate` reports the exact size of a model before it is trained; `labeltree demo` shows the
    whole workflow. Every command has a --help option.
    """


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    arguments : sequence of str, optional
        The arguments after the program's name. Default: those of this process.

    Returns
    -------
    int
        The exit code: 0, or 2 after an error that the user can fix, 130 after Ctrl-C, 141 if the output is
        a closed pipe. SIGTERM, with which batch systems and containers stop a process, ends it with 143.
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
    except _UsageError as error:
        where = error.ctx.command_path if error.ctx else "labeltree"
        return _fail(InputError(_usage_error(error), hint=f"see `{where} --help`"))
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
        what = error.strerror or str(error)
        what = what[:1].lower() + what[1:]
        if isinstance(error, OutputError):
            return _fail(InputError(f"standard output cannot be written ({what})"))
        return _fail(InputError(what, file=error.filename, hint="check permissions and free space"))
    except MemoryError:
        return _fail(InputError("not enough memory", hint=_MEMORY_HINTS.get(arguments[0], _MORE_MEMORY)))
    return code


def _usage_error(error: Any) -> str:
    """Return the message of an error in the arguments, in the style of all other errors."""
    if hasattr(error, "possibilities"):
        close = difflib.get_close_matches(error.option_name, error.possibilities or (), cutoff=0.8)
        similar = f" (did you mean {alternatives(close)}?)" if close else ""
        return f"no such option: {error.option_name}{similar}"
    if type(error) is typer.BadParameter:
        return str(error.message).rstrip(".")  # our own: see options.limited
    message: str = error.format_message().rstrip(".").replace("Got unexpected extra", "unexpected")
    message = message.replace("argument(s)", "argument").replace(". Did you mean", " (did you mean")
    return message[:1].lower() + message[1:] + ")" * message.endswith("?")


def _terminate(number: int, frame: Any) -> NoReturn:
    """End with an exception, so that what is done is recorded, and temporary files are removed."""
    raise SystemExit(128 + number)


def _fail(error: InputError) -> int:
    from labeltree.cli.options import spelled
    from labeltree.cli.printing import escaped

    # One line, in which the spaces of a file name stay as they are.
    message = re.sub(r"\s*[\r\n]\s*", " ", error.message(spelled))
    print("error:", escaped(message), file=sys.stderr)
    return 2


def _drop_output() -> None:
    """Discard buffered output, which Python would otherwise fail to flush at exit."""
    with contextlib.suppress(OSError):  # standard output is not a file
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
