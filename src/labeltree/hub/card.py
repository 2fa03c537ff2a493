"""The card of a model: README.md with metadata, labels, sizes, metrics, how to use it, and its limits."""

from __future__ import annotations

import html
import json
import os
import re
import reprlib
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from labeltree.base.system import human_bytes
from labeltree.explain.label import label_name
from labeltree.explain.overview import describe_model
from labeltree.hub.loading import load
from labeltree.model.layout import CARD_MARK
from labeltree.model.model import Model

_MOST_LABELS = 20  # in the table
_KINDS = {"P": "precision", "R": "recall"}
_LONGEST_NAME = 80  # characters
_FEW_INSTANCES = 5
# What has a meaning in Markdown inside a line or a table, and in what makes an address a link.
_MARKUP = re.compile(r"[\\`*_\[\]#|~$:@]|(?<=www)\.", re.IGNORECASE)

_CARD = """---
{metadata}
---

# {title}

This [labeltree](https://github.com/labeltree/labeltree) model finds the few labels of {item} out of
{n_labels:,}. It is a linear model over a tree of the labels, takes {size} on disk, and runs on a CPU. It
contains no code.

## How to use

Install labeltree with `pip install 'labeltree[hub]'`. In Python:

```python
import labeltree

model = labeltree.load({address})
labels, scores = model.predict({rows}, top=5){comment}
```

On the command line:

```bash
labeltree predict {argument} {file} --top 5
```
{decision}
## Labels

{which} {n_labels:,} labels, with their number of training instances:

{labels}

## Training

{training}
{evaluation}
## Limitations

- The model knows only the labels of its training data, and reproduces its errors and omissions.
- Scores rank the labels of a document. {scores}
{few}{terms}
{mark}
"""
_SCORES = "They are not calibrated probabilities."
_CALIBRATED = "They are calibrated on validation data, and may be inaccurate on other data."
_FEW = """\
- {few:,} of {n_labels:,} labels have fewer than {least} training instances. They are predicted less often and
  less reliably.
"""
_TERMS = """\
- A document is a bag of terms: the order of words beyond the n-grams is not considered. Terms that do not
  occur in the training data are ignored, such as those of other languages.
"""


def model_card(
    model: Model | str | os.PathLike[str],
    *,
    title: str | None = None,
    languages: Sequence[str] = (),
    license: str | None = None,
    address: str | None = None,
    metrics: Mapping[str, float] | None = None,
    data: str | None = None,
) -> str:
    """Describe a model in a card, the README.md of a published model.

    Parameters
    ----------
    model : Model or path-like
    title : str, optional
        Default: the name of the model's directory or address.
    languages : sequence of str, optional
        Codes of the languages of the documents, such as "en".
    license : str, optional
        An identifier such as "mit" or "cc-by-4.0".
    address : str, optional
        Where the model is published, for the examples.
    metrics : mapping of str to float, optional
        What `Model.evaluate` returned; the card has the metrics at ranks.
    data : str, optional
        The name of the data that the metrics are of. Default: "held-out data".

    Returns
    -------
    str
        Markdown with metadata in YAML. All names from the model are escaped.
    """
    model = model if isinstance(model, Model) else load(model)
    place = address or ("model" if model.path is None else model.path.resolve().name)
    title = _printable(title or place.rstrip("/").rpartition("/")[2]).strip() or "model"
    unlabeled = getattr(metrics, "rows_without_labels", 0)
    metrics = {name: value for name, value in (metrics or {}).items() if "@" in name}
    data, is_text, address = _printable(data or "held-out data"), model.text is not None, address or "MODEL"
    order = np.argsort(-model.label_counts, kind="stable")[:_MOST_LABELS].tolist()
    names = [label_name(model, label) for label in order]
    names = [name if len(name) <= _LONGEST_NAME else f"{name[:_LONGEST_NAME]}..." for name in names]
    shown = zip(names, (f"{model.label_counts[label]:,}" for label in order), strict=True)
    which = "All" if len(order) == model.n_labels else f"The {len(order)} most frequent of"
    decision = evaluation = ""
    if model.decision is not None:
        options = 'With `threshold="stored"` or `--accepted`'
        decision = f"\n{options}, labels are accepted from a score of {_escaped(str(model.decision))}.\n"
    if metrics:
        table = _table(("Metric", "%"), ((name, f"{100 * value:.2f}") for name, value in metrics.items()))
        rest = f"; {unlabeled:,} row{'s' * (unlabeled != 1)} without labels left out" if unlabeled else ""
        evaluation = f"\n## Evaluation\n\nMeasured on {_escaped(data)}, in percent{rest}:\n\n{table}\n"
    few = int((model.label_counts < _FEW_INSTANCES).sum())
    rare = _FEW.format(few=few, n_labels=model.n_labels, least=_FEW_INSTANCES)
    return _CARD.format(
        metadata=_metadata(title, languages, license, is_text, metrics, data),
        title=_escaped(title),
        item="a document" if is_text else "a row of features",
        n_labels=model.n_labels,
        size=human_bytes(model.bytes),
        address=json.dumps(address, ensure_ascii=False),
        rows='["A text to label."]' if is_text else "X",
        comment="" if is_text else f"  # X: a sparse matrix with {model.n_features:,} features",
        argument=shlex.quote(address),
        file="documents.txt" if is_text else "rows.svm",
        decision=decision,
        which=which,
        labels=_table(("Label", "Instances"), shown),
        training=_table(("", ""), _training(model)),
        evaluation=evaluation,
        scores=_SCORES if model.calibration is None else _CALIBRATED,
        few=rare if few else "",
        terms=_TERMS if is_text else "",
        mark=CARD_MARK,
    )


def _metadata(
    title: str,
    languages: Sequence[str],
    license: str | None,
    is_text: bool,
    metrics: Mapping[str, float],
    data: str,
) -> str:
    """Return the metadata as JSON, which is YAML, too."""
    result = {
        "task": {"type": "text-classification", "name": "Extreme multi-label classification"},
        "dataset": {"type": "custom", "name": data},
        "metrics": [
            {"type": f"{_KINDS.get(kind, kind.lower())}_at_{rank}", "name": name, "value": round(value, 4)}
            for name, value in metrics.items()
            for kind, _, rank in [name.partition("@")]
        ],
    }
    metadata = {
        "language": list(languages),
        "license": license,
        "library_name": "labeltree",
        "pipeline_tag": "text-classification" if is_text else None,
        "tags": ["labeltree", "multi-label-classification", "extreme-multi-label-classification"],
        "model-index": [{"name": title, "results": [result]}] if metrics else None,
    }
    return json.dumps({key: value for key, value in metadata.items() if value}, ensure_ascii=False, indent=2)


def _training(model: Model) -> list[tuple[str, str]]:
    figures = describe_model(model)
    settings = {**figures["notes"], **figures["settings"]}
    shape = f"{model.n_instances:,} instances, {model.n_features:,} features, {model.n_labels:,} labels"
    size = f"{human_bytes(model.bytes)} ({model.bytes:,} bytes), {figures['weights']:,} weights"
    rows = [
        ("Training data", shape),
        ("Rows", "scaled to length 1, for training and for prediction" if figures["normalized"] else ""),
        ("Trees", f"{figures['trees']}, with {figures['nodes']:,} nodes and depth {figures['depth']}"),
        ("Size", f"{size} stored as {'sparse int8' if figures['codec'] == 'sparse' else figures['codec']}"),
        ("Settings", _listed(settings)),
        ("TF-IDF", _listed(figures["text"] or {})),
        ("Scores", "calibrated probabilities" if figures["calibrated"] else "not calibrated"),
        ("labeltree", f"version {figures['labeltree_version']}"),
    ]
    return [row for row in rows if row[1]]


def _listed(settings: Mapping[str, Any]) -> str:
    """Write settings in a line, long values cut."""
    return ", ".join(f"{name}={reprlib.repr(value)}" for name, value in settings.items() if value is not None)


def _table(head: tuple[str, str], rows: Iterable[tuple[str, str]]) -> str:
    """Return a table of two columns in Markdown."""
    lines = [f"| {head[0]} | {head[1]} |", f"|---|---{':' if head[1] else ''}|"]
    return "\n".join([*lines, *(f"| {_escaped(name)} | {_escaped(value)} |" for name, value in rows)])


def _printable(text: str) -> str:
    """Replace what is not a character on one line."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)


def _escaped(text: str) -> str:
    """Return text that Markdown shows as it is, in one line and in a table."""
    return _MARKUP.sub(r"\\\g<0>", html.escape(_printable(text), quote=False))
