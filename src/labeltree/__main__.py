"""Lets `python -m labeltree` do what the `labeltree` command does."""

import sys

from labeltree.cli import main

if __name__ == "__main__":
    sys.exit(main())
