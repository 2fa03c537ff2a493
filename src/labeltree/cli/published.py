"""Published models as arguments of commands: downloaded before the command runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from labeltree.base.progress import Stages
from labeltree.cli import printing
from labeltree.hub.address import is_address


@dataclass(frozen=True)
class Published:
    """The address of a model that a command is to open."""

    url: str


def model_place(text: str) -> Path | Published:
    """Parse an argument that is a model directory or an address."""
    return Published(text) if is_address(text) else Path(text)


def own_place(text: str) -> Path:
    """Parse an argument that is a model directory which the command changes."""
    if is_address(text):
        what = "a published model cannot be changed; download it first"
        raise typer.BadParameter(f"MODEL is {text!r}, expected a directory: {what}")
    return Path(text)


def with_local_models(arguments: dict[str, Any]) -> dict[str, Any]:
    """Replace the addresses among the arguments of a command by directories, after the models are there."""
    stages = Stages(bool(arguments.get("quiet") or arguments.get("json")))

    def local(value: Any) -> Any:
        if isinstance(value, list | tuple):
            return type(value)(map(local, value))
        return fetched(stages, value.url) if isinstance(value, Published) else value

    return {name: local(value) for name, value in arguments.items()}


def fetched(stages: Stages, url: str) -> Path:
    """Return the directory of a published model, downloaded as a stage of the command if necessary."""
    from labeltree.hub.cache import fetch

    with printing.warnings_as_notes():
        return fetch(url, stage=stages.stage)
