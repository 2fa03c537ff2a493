"""Run a benchmark script: one line per error, and an exit code."""

import sys

from labeltree import InputError


def run(main, stopped="stopped"):
    """Call ``main`` and exit: 0 on success, 2 after an InputError, 130 after Ctrl-C."""
    try:
        main()
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print(stopped, file=sys.stderr)
        sys.exit(130)
