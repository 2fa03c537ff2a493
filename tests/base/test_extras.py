"""Optional dependencies: a clear message when one is missing."""

import sys

import pytest

from labeltree import InputError
from labeltree.base.extras import EXTRAS, optional


@pytest.mark.parametrize(("package", "extra"), EXTRAS.items())
def test_a_missing_package_names_its_extra(package, extra, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(InputError) as caught:
        optional(package)
    assert caught.value.hint == f"install it with: pip install 'labeltree[{extra}]'"


def test_a_missing_package_without_an_extra_is_installed_by_its_name(monkeypatch):
    monkeypatch.setitem(sys.modules, "annif", None)
    with pytest.raises(InputError) as caught:
        optional("annif.backend")
    assert caught.value.hint == "install it with: pip install annif"


def test_an_installed_package_is_imported():
    assert optional("matplotlib.figure").__name__ == "matplotlib.figure"


def test_a_missing_module_of_an_installed_package_is_no_user_error():
    with pytest.raises(ModuleNotFoundError):
        optional("matplotlib.no_such_module")
