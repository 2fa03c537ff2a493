"""The version, in the one place that the package and its build (pyproject.toml) read it from."""

__version__ = "0.1.0"
