"""Loading a model from a directory or from an address."""

from __future__ import annotations

import os
from pathlib import Path

from labeltree.hub.address import is_address
from labeltree.model import model as models
from labeltree.model.model import Model


def load(
    path: str | os.PathLike[str], *, verify: bool | None = None, cache: str | os.PathLike[str] | None = None
) -> Model:
    """Open a model: a directory, or an address that it is downloaded from.

    The blocks are mapped, not read: a model takes only the memory of the pages in use, so models larger
    than memory can be served.

    Parameters
    ----------
    path : path-like
        A model directory; or an address such as ``hf://user/name``, ``s3://bucket/name``,
        ``gs://bucket/name``, ``https://host/name`` or any other of fsspec. A published model is downloaded
        into a cache, verified, and opened there; it is downloaded again only if it has changed. This
        requires ``pip install 'labeltree[hub]'``.
    verify : bool, optional
        Read all blocks, compare their checksums, and check their features and weights. Default: only if
        they fit in the available memory. Everything else is always checked.
    cache : path-like, optional
        Where published models are kept. Default: the environment variable ``LABELTREE_CACHE``, or else
        ``labeltree/models`` in the user's cache directory.

    Returns
    -------
    Model

    Raises
    ------
    InputError
        If there is no model, or it contains what labeltree would not have written.
    """
    if is_address(path):
        from labeltree.hub.cache import fetch

        path = fetch(str(path), None if cache is None else Path(cache))
    return models.load(Path(path), verify=verify)
