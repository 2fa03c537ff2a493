"""The `labeltree-annif` command: Annif's command line, with the backend registered."""

from __future__ import annotations

import contextlib
import sys

from labeltree.annif import register
from labeltree.base.extras import optional
from labeltree.errors import InputError

# When imported, too: where worker processes are not forked, they import this module to know the backend.
with contextlib.suppress(InputError):
    register()


def main() -> int:
    """Run Annif's command line; return the exit code if Annif cannot be used."""
    try:
        register()
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    optional("annif.cli").cli(prog_name="labeltree-annif")
    return 0


if __name__ == "__main__":
    sys.exit(main())
