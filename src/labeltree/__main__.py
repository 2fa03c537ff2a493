"""The `labeltree` command, also as `python -m labeltree`."""

import sys


def run() -> int:
    """Run the command line of this process; return the exit code."""
    try:
        from labeltree.cli import main

        return main()
    except KeyboardInterrupt:  # Ctrl-C while Python imports the program, or as it ends
        print("stopped", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(run())
