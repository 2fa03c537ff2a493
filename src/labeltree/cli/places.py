"""Where a model is: the directory or the address that a command is given."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from labeltree.cli.printing import Display, warnings_as_notes
from labeltree.hub.address import is_address


class Published(str):
    """The address of a model that a command is to open."""


def model_place(text: str) -> Path | Published:
    """Parse an argument that is a model directory or an address."""
    return Published(text) if is_address(text) else Path(text)


def own_place(text: str) -> Path:
    """Parse an argument that is a model directory which the command changes."""
    if is_address(text):
        reason = "a published model cannot be changed; download it first"
        raise typer.BadParameter(f"MODEL is {text!r}, expected a directory: {reason}")
    return Path(text)


def local(value: Any, display: Display) -> Any:
    """Return an argument with directories in place of published models, which are downloaded if necessary."""
    if isinstance(value, list | tuple):
        return type(value)(local(each, display) for each in value)
    if not isinstance(value, Published):
        return value
    from labeltree.hub.loading import fetch

    with warnings_as_notes():
        return fetch(value, stage=display.stage)
