"""A model as arrays, strings and numbers: tools such as skops store these without trusting other types."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from labeltree.data.columns import Columns
from labeltree.data.tfidf import TextFeatures
from labeltree.model.blocks import TreeBlocks
from labeltree.model.model import Model
from labeltree.settings import TextSettings
from labeltree.trees.tree import LabelTree


def model_state(model: Model) -> dict[str, Any]:
    """Return the contents of a model."""
    text, blocks = model.text, [field.name for field in fields(TreeBlocks)]
    return {
        "manifest": model.manifest,
        "trees": [
            {name: getattr(part, name) for name in blocks}
            | {"tree": [part.tree.child_ptr, part.tree.children]}
            for part in model.trees
        ],
        "label_counts": model.label_counts,
        "label_names": model.label_names,
        "text": text and [text.settings.stored(), text.names, text.idf, text.columns.stored()],
        "thresholds": model.decision and model.decision.thresholds,
    }


def restore_model(state: dict[str, Any]) -> Model:
    """Return the model with these contents; it is in memory and has no directory."""
    given = dict(state)
    if given["text"]:
        settings, names, idf, columns = given["text"]
        given["text"] = TextFeatures(TextSettings(**settings), names, idf, Columns(**columns))
    given["trees"] = tuple(TreeBlocks(**part | {"tree": LabelTree(*part["tree"])}) for part in given["trees"])
    return Model(None, **given)
