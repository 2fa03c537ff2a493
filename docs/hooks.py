"""Write the reference of the command line into its page when the site is built."""

from typing import Any

import typer

from labeltree.cli.app import COMMANDS, app

PLACEHOLDER = "<!-- commands -->"


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Insert the reference of all commands at the placeholder of a page."""
    if PLACEHOLDER not in markdown:
        return markdown
    group: Any = typer.main.get_command(app)
    commands = (_command(name, group.get_command(None, name)) for name in COMMANDS)
    return markdown.replace(PLACEHOLDER, "\n\n".join(commands))


def _command(name: str, command: Any) -> str:
    context = command.make_context(name, [], resilient_parsing=True)
    usage = " ".join(["labeltree", name, *command.collect_usage_pieces(context)])
    sections: dict[str, list[str]] = {"Arguments": [], "Options": []}
    for parameter in command.params:
        if parameter.param_type_name == "argument":
            row = f"| `{_escape(parameter.metavar)}` | {_escape(parameter.help)} |"
            sections["Arguments"].append(row)
        else:
            row = f"| {_names(parameter)} | {_escape(parameter.help)}{_default(parameter)} |"
            sections.setdefault(parameter.rich_help_panel or "Options", []).append(row)
    tables = ("\n".join([f"| {title} | |", "|---|---|", *rows]) for title, rows in sections.items() if rows)
    return "\n\n".join([f"## {name}", command.help, f"```text\n{usage}\n```", *tables])


def _names(option: Any) -> str:
    value = "" if option.is_flag else f" {option.metavar}"
    names = ", ".join(f"`{name}{value if name == option.opts[0] else ''}`" for name in option.opts)
    return names + "".join(f" / `{name}`" for name in option.secondary_opts)


def _default(option: Any) -> str:
    if option.required:
        return " Required."
    return "" if option.default is None or option.default is False else f" Default: `{option.default}`."


def _escape(text: str) -> str:
    return text.replace("|", "\\|")
