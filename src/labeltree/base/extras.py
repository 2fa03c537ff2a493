"""Optional dependencies: imported when needed, with a clear message when missing."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from labeltree.errors import InputError

# The extra of pyproject.toml that installs each optional package.
EXTRAS = {
    "aiohttp": "hub",
    "dask": "dask",
    "distributed": "dask",
    "fastapi": "serve",
    "fsspec": "hub",
    "httptools": "serve",
    "huggingface_hub": "hub",
    "matplotlib": "plots",
    "pooch": "download",
    "prometheus_client": "serve",
    "pyarrow": "parquet",
    "requests": "download",
    "tqdm": "hub",
    "uvicorn": "serve",
}


def optional(name: str) -> ModuleType:
    """Import an optional package, or a module of it such as ``matplotlib.figure``.

    If the package is not installed, the error says how to install it.
    """
    package = name.partition(".")[0]
    try:
        import_module(package)
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
        source = f"'labeltree[{EXTRAS[package]}]'" if package in EXTRAS else package
        hint = f"install it with: pip install {source}"
        raise InputError(f"this needs {package}, which is not installed", hint=hint) from None
    return import_module(name)
