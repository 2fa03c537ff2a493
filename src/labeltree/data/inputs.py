"""Anything that holds labeled documents or features, as a dataset: files, texts, frames and matrices."""

from __future__ import annotations

from labeltree.data.read import read_file as read_data

__all__ = ["read_data"]
