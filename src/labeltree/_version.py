"""The version, which the package and its build (pyproject.toml) read from here."""

__version__ = "0.1.0"
