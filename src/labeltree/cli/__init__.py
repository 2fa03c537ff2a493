"""The command line: parses, calls the library, prints."""

from labeltree.cli.app import main

__all__ = ["main"]
