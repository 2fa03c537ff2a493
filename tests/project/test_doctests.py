"""Examples in docstrings run, in every module."""

import doctest
import pkgutil
from importlib import import_module

import labeltree

# Compiled, and the class that needs Annif, which is in no extra.
LEFT_OUT = ("labeltree._native", "labeltree.annif.backend")


def test_examples_in_docstrings():
    names = [
        m.name for m in pkgutil.walk_packages(labeltree.__path__, "labeltree.") if "__main__" not in m.name
    ]
    results = {name: doctest.testmod(import_module(name)) for name in names if name not in LEFT_OUT}
    assert {name: result.failed for name, result in results.items() if result.failed} == {}
    assert sum(result.attempted for result in results.values()) >= 50
