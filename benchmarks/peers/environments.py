"""Virtual environments of the peers, created when missing."""

import shutil
import subprocess
import sys
from pathlib import Path

from registry import ENVIRONMENTS, OURS


class NoEnvironment(Exception):
    """An environment cannot be used; the message is the reason."""


def python_of(peer, folder, log):
    """Return the Python executable of a peer, and create its environment if it is missing.

    Raises NoEnvironment if the environment cannot be created or does not work.
    """
    if peer == OURS:
        return sys.executable
    environment = ENVIRONMENTS[peer]
    place = Path(folder, environment.name).absolute()
    python = place / "bin" / "python"
    if not place.exists():
        print(f"creating the environment {place} ...", flush=True)
        try:
            _call([sys.executable, "-m", "venv", place], log)
            for step in environment.steps:
                _call([python, "-m", "pip", "install", "--disable-pip-version-check", *step], log)
        except subprocess.CalledProcessError as error:
            shutil.rmtree(place, ignore_errors=True)
            command = " ".join(str(part) for part in error.cmd[1:])
            raise NoEnvironment(f"`{command}` failed, see {log}") from None
    try:
        _call([python, "-c", environment.probe], log)
    except (OSError, subprocess.CalledProcessError):
        raise NoEnvironment(
            f"`{environment.probe}` fails in {place}, see {log}; delete the environment to create it again"
        ) from None
    return python


def _call(command, log):
    with open(log, "a") as stream:
        subprocess.run(list(map(str, command)), stdout=stream, stderr=stream, check=True)
