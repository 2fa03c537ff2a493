"""Write the reference of the command line into its page when the site is built."""

from enum import Enum
from typing import Any

import typer

from labeltree.cli.app import app

PLACEHOLDER = "<!-- commands -->"


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Insert the reference of all commands at the placeholder of a page."""
    if PLACEHOLDER not in markdown:
        return markdown
    group: Any = typer.main.get_command(app)
    return markdown.replace(
        PLACEHOLDER, "\n\n".join(_command(name, group.commands[name]) for name in group.commands)
    )


def _command(name: str, command: Any) -> str:
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    options = [p for p in command.params if p.param_type_name == "option"]
    usage = " ".join(["labeltree", name, "[OPTIONS]", *(a.metavar for a in arguments)])
    rows = [f"| `{a.metavar}` | {_text(a.help)} | |" for a in arguments]
    rows += [f"| {_names(option)} | {_text(option.help)} | {_default(option)} |" for option in options]
    table = "\n".join(["| | | Default |", "|---|---|---|", *rows])
    return f"## {name}\n\n{command.help}\n\n```text\n{usage}\n```\n\n{table}"


def _names(option: Any) -> str:
    value = "" if option.is_flag else f" {option.metavar or _choices(option)}"
    names = ", ".join(f"`{name}{value if name == option.opts[0] else ''}`" for name in option.opts)
    return names + "".join(f" / `{name}`" for name in option.secondary_opts)


def _choices(option: Any) -> str:
    if isinstance(option.default, Enum):
        return ",".join(choice.value for choice in type(option.default)).join("{}")
    return str(option.name).upper()


def _default(option: Any) -> str:
    default = getattr(option.default, "value", option.default)
    return "" if default is None or default is False or callable(default) else f"`{default}`"


def _text(text: str | None) -> str:
    return (text or "").replace("|", "\\|")
