"""What is to be predicted: a matrix as it is; documents, frames and files as batches of rows."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from labeltree.base.options import ReadingOptions
from labeltree.data.dataset import Dataset
from labeltree.data.frames import as_frame, as_values, checked_texts, first_value, matrix_of, text_values
from labeltree.data.inputs import is_file, open_data, unusable
from labeltree.data.read import read_batches
from labeltree.errors import InputError

if TYPE_CHECKING:
    from labeltree.model.model import Model

_BATCH = 10_000  # documents


def is_matrix(data: Any, for_text: bool) -> bool:
    """Return whether data is a matrix of features: sparse, an array of numbers, or nested sequences.

    Of a list of numbers, a model of text expects texts.
    """
    if isinstance(data, list | tuple):
        rows = (list, tuple, np.ndarray)
        return isinstance(first_value(data), rows if for_text else (*rows, int, float))
    if isinstance(data, np.ndarray):
        return data.ndim != 1 or data.dtype.kind not in "OSUT"
    return sp.issparse(data)


def batches(
    model: Model, data: Any, text: Any, reading: ReadingOptions, threads: int | None
) -> Iterator[sp.csr_matrix]:
    """Yield the rows to predict, some at a time, if data is not a matrix."""
    if isinstance(data, Dataset):
        yield data.X
        return
    features = model.text
    if is_file(data):
        source = open_data(data, text=text, like=model, require_labels=False, **reading)
        if features is None or not source.is_text:
            yield source.dataset(like=model, threads=threads).X
            return
        found = read_batches(
            data,
            features,
            reading.get("format"),
            source.columns,
            strict=bool(reading.get("strict")),
            threads=threads,
        )
        yield from (batch.X for batch in found)
        return
    frame = as_frame(data)
    if frame is not None and features is None:
        yield matrix_of(frame, "the data")
        return
    in_turn = frame is not None or isinstance(data, Iterator)
    values = data if in_turn else as_values(data)
    if values is None:
        raise unusable(data)
    if features is None:
        what = "the data is text, but the model was not trained on text"
        raise InputError(what, hint="pass a matrix of features")
    if frame is not None:
        columns = features.columns.texts if text is None else [text] if isinstance(text, str) else text
        texts = text_values(frame, columns)
    else:
        texts = checked_texts(values)
    while batch := list(itertools.islice(texts, _BATCH if in_turn else None)):
        yield features.transform([found or "" for found in batch], threads=threads)
