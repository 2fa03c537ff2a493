"""The command line: parses arguments, calls the library, prints results."""

from labeltree.cli.app import main

__all__ = ["main"]
