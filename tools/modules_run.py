"""Run a command in this process, and count the modules of labeltree whose functions it runs.

    python tools/modules_run.py train DATA MODEL

The arguments are those of `labeltree`. Importing a module does not count, calling one of its functions does.
"""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from types import FrameType

import labeltree
from labeltree.cli import main

PACKAGE = Path(labeltree.__file__).parent


def modules_of(arguments: list[str]) -> tuple[int, list[str]]:
    """Return the exit code of a command, and the modules that it runs through."""
    called: set[str] = set()

    def note(frame: FrameType, event: str, argument: object) -> None:
        name = frame.f_code.co_filename
        if event == "call" and name not in called and not _is_importing(frame):
            called.add(name)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        code = main(arguments)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    paths = (Path(name) for name in called)
    found = (path.relative_to(PACKAGE) for path in paths if path.is_relative_to(PACKAGE))
    return code, sorted(".".join(path.with_suffix("").parts) for path in found)


def _is_importing(frame: FrameType | None) -> bool:
    """Return whether a frame belongs to the import of a module, such as the body of a class."""
    while frame is not None:
        if frame.f_code.co_name == "<module>" and Path(frame.f_code.co_filename).is_relative_to(PACKAGE):
            return True
        frame = frame.f_back
    return False


if __name__ == "__main__":
    exit_code, modules = modules_of(sys.argv[1:])
    print(f"{len(modules)} modules: {', '.join(modules)}", file=sys.stderr)
    sys.exit(exit_code)
