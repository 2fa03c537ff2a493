"""The card of a model: README.md with metadata, labels, sizes, metrics, how to use it, and its limits."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from labeltree.base.system import human_bytes
from labeltree.errors import InputError
from labeltree.explain.summary import describe_model
from labeltree.serve.page_data import Measured

if TYPE_CHECKING:
    from labeltree.model.model import Model

CARD = "README.md"
# The last line of a card. A card without it was edited, and is kept when the model is replaced.
_MARK = "<!-- Written by labeltree and rewritten with each model. Remove this line to keep the card. -->"
_TAGS = ("labeltree", "multi-label-classification", "extreme-multi-label-classification")
_MOST_LABELS = 20  # in the table
_LONGEST_NAME = 80  # characters
_FEW_INSTANCES = 5
_LANGUAGE = re.compile(r"[a-z]{2,3}(-[A-Za-z0-9]{2,8})*|multilingual")
_LICENSE = re.compile(r"[a-z0-9][a-z0-9.+-]{0,60}")
# What has a meaning in Markdown inside a line or a table, and in what makes an address a link.
_MARKUP = re.compile(r"[\\`*_\[\]#|~$:@]|(?<=www)\.", re.IGNORECASE)
_METRIC = re.compile(r"([A-Za-z]+)@([0-9]+)")
_METRIC_TYPES = {"P": "precision", "R": "recall", "nDCG": "ndcg", "PSP": "psp", "PSnDCG": "psndcg"}


def model_card(
    model: Model,
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
    model : Model
    title : str, optional
        Default: the name of the model's directory or address.
    languages : sequence of str, optional
        Codes of the languages of the documents, such as "en".
    license : str, optional
        An identifier such as "mit" or "cc-by-4.0".
    address : str, optional
        Where the model is published, for the examples.
    metrics : mapping of str to float, optional
        What `Model.evaluate` returned; the card has the metrics at ranks. Default: what was measured by
        ``labeltree frontier`` or ``labeltree evaluate --per-label``, if their files are in the directory of
        the model.
    data : str, optional
        The name of the data that the metrics are of. Default: "held-out data".

    Returns
    -------
    str
        Markdown with metadata in YAML. All names from the model are escaped.
    """
    check_codes(languages, license)
    if title is None:
        place = address or ("model" if model.path is None else model.path.resolve().name)
        title = place.rstrip("/").rpartition("/")[2]
    title = _printable(title).strip() or "model"
    metrics, data = _known_metrics(model, metrics, data)
    parts = [
        _front_matter(model, title, languages, license, metrics, data),
        f"# {_escaped(title)}",
        _summary(model),
        _usage(model, address or "MODEL"),
        _labels(model),
        _training(model),
        _evaluation(metrics, data),
        _limitations(model),
        _MARK,
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def is_generated(card: bytes) -> bool:
    """Return whether a card is as `model_card` wrote it, so that another may take its place."""
    return _MARK.encode() in card


def check_codes(languages: Sequence[str], license: str | None) -> None:
    """Refuse codes of languages and an identifier of a license that are none."""
    for code in languages:
        if not _LANGUAGE.fullmatch(code):
            hint = "use a code of ISO 639 such as en, or multilingual"
            raise InputError(f"language is {code!r}, expected the code of a language", hint=hint)
    if license is not None and not _LICENSE.fullmatch(license):
        hint = "use an identifier such as mit, apache-2.0 or cc-by-4.0, or other"
        raise InputError(f"license is {license!r}, expected the identifier of a license", hint=hint)


def _known_metrics(
    model: Model, metrics: Mapping[str, float] | None, data: str | None
) -> tuple[dict[str, float], str]:
    """Return the given metrics, or those in files of the model's directory, and the data that they are of."""
    name = _printable(data or "held-out data")
    if metrics is not None:
        return {metric: value for metric, value in metrics.items() if "@" in metric}, name
    measured = Measured.read(model)
    found: dict[str, float] = {}
    for point in measured.frontier or ():
        if (point["trees"], point["bytes"]) == (len(model.trees), model.bytes):
            found = {metric: point[metric] / 100 for metric in ("P@1", "P@3", "P@5")}
    share = None if measured.hits is None else measured.hits.precision()
    if not found and share is not None:
        found["P@5"] = share
    return found, name


def _front_matter(
    model: Model,
    title: str,
    languages: Sequence[str],
    license: str | None,
    metrics: Mapping[str, float],
    data: str,
) -> str:
    """Return the metadata. A string of JSON is one of YAML, too."""
    lines = ["---"]
    if languages:
        lines += ["language:", *(f"- {_quoted(code)}" for code in languages)]
    if license is not None:
        lines.append(f"license: {_quoted(license)}")
    lines.append("library_name: labeltree")
    if model.text is not None:
        lines.append("pipeline_tag: text-classification")
    lines += ["tags:", *(f"- {tag}" for tag in _TAGS)]
    if metrics:
        lines += [
            "model-index:",
            f"- name: {_quoted(title)}",
            "  results:",
            "  - task:",
            "      type: text-classification",
            "      name: Extreme multi-label classification",
            "    dataset:",
            "      type: custom",
            f"      name: {_quoted(data)}",
            "    metrics:",
        ]
        for name, value in metrics.items():
            lines += [
                f"    - type: {_quoted(_metric_type(name))}",
                f"      name: {_quoted(name)}",
                f"      value: {value:.4f}",
            ]
    return "\n".join([*lines, "---"])


def _metric_type(name: str) -> str:
    found = _METRIC.fullmatch(name)
    return f"{_METRIC_TYPES.get(found[1], found[1].lower())}_at_{found[2]}" if found else name


def _summary(model: Model) -> str:
    given = "a document" if model.text is not None else "a row of features"
    return (
        f"This [labeltree](https://github.com/labeltree/labeltree) model finds the few labels of {given} out "
        f"of {model.n_labels:,}. It is a linear model over a tree of the labels, takes "
        f"{human_bytes(model.bytes)} on disk, and runs on a CPU. It contains no code."
    )


def _usage(model: Model, address: str) -> str:
    is_text = model.text is not None
    rows = '["A text to label."]' if is_text else "X"
    command = f"labeltree predict {shlex.quote(address)} {'documents.txt' if is_text else 'rows.svm'} --top 5"
    code = [
        "import labeltree",
        "",
        f"model = labeltree.load({json.dumps(address, ensure_ascii=False)})",
        *([] if is_text else [f"# X: a sparse matrix with {model.n_features:,} features."]),
        f"labels, scores = model.predict({rows}, top=5)",
    ]
    lines = [
        "## How to use",
        "",
        "Install labeltree with `pip install 'labeltree[hub]'`. In Python:",
        "",
        "```python",
        *code,
        "```",
        "",
        "On the command line:",
        "",
        "```bash",
        command,
        "```",
    ]
    if model.decision is not None:
        accepts = _escaped(str(model.decision))
        options = 'With `threshold="stored"` or `--accepted`'
        lines += ["", f"{options}, labels are accepted from a score of {accepts}."]
    return "\n".join(lines)


def _labels(model: Model) -> str:
    counts = model.label_counts
    order = np.argsort(-counts, kind="stable")[:_MOST_LABELS].tolist()
    names = model.label_names
    rows = [f"| {_escaped(_cut(str(j) if names is None else names[j]))} | {counts[j]:,} |" for j in order]
    some = f"All {model.n_labels:,} labels"
    if len(order) < model.n_labels:
        some = f"The {len(order)} most frequent of {model.n_labels:,} labels"
    return "\n".join(
        [
            "## Labels",
            "",
            f"{some}, with their number of training instances:",
            "",
            "| Label | Instances |",
            "|---|---:|",
            *rows,
        ]
    )


def _training(model: Model) -> str:
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
        ("Text features", _listed({"TF-IDF": "yes", **figures["text"]}) if figures["text"] else ""),
        ("Scores", "calibrated probabilities" if figures["calibrated"] else "not calibrated"),
        ("labeltree", f"version {figures['labeltree_version']}"),
    ]
    table = [f"| {name} | {_escaped(value)} |" for name, value in rows if value]
    return "\n".join(["## Training", "", "| | |", "|---|---|", *table])


def _listed(settings: Mapping[str, Any]) -> str:
    """Write settings in a line."""
    values = {name: _value(value) for name, value in settings.items() if value is not None}
    return ", ".join(f"{name} {value}" for name, value in values.items())


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple | list):
        return " to ".join(map(str, value)) if len(value) == 2 else f"({len(value):,} values)"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _evaluation(metrics: Mapping[str, float], data: str) -> str:
    if not metrics:
        return ""
    rows = [f"| {_escaped(name)} | {100 * value:.2f} |" for name, value in metrics.items()]
    lines = [
        "## Evaluation",
        "",
        f"Measured on {_escaped(data)}, in percent:",
        "",
        "| Metric | % |",
        "|---|---:|",
    ]
    return "\n".join([*lines, *rows])


def _limitations(model: Model) -> str:
    counts = model.label_counts
    few, none = int((counts < _FEW_INSTANCES).sum()), int((counts == 0).sum())
    items = [
        "The model knows only the labels of its training data, and reproduces its errors and omissions.",
        "Scores rank the labels of a document. "
        + (
            "They are calibrated on data like that of training, and may be off on other data."
            if model.calibration is not None
            else "They are not calibrated probabilities."
        ),
    ]
    if few:
        unseen = f", {none:,} of them with none" if none else ""
        items.append(
            f"{few:,} of {model.n_labels:,} labels have fewer than {_FEW_INSTANCES} training "
            f"instances{unseen}. They are predicted less often and less reliably."
        )
    if model.text is not None:
        items.append(
            "A document is a bag of terms: the order of words beyond the n-grams is not considered. Terms "
            "that do not occur in the training data are ignored, such as those of other languages."
        )
    return "\n".join(["## Limitations", "", *(f"- {item}" for item in items)])


def _printable(text: str) -> str:
    """Replace what is not a character on one line."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)


def _quoted(text: str) -> str:
    return json.dumps(_printable(text), ensure_ascii=False)


def _cut(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else f"{name[:_LONGEST_NAME]}..."


def _escaped(text: str) -> str:
    """Return text that Markdown shows as it is, in one line and in a table."""
    text = _printable(text)
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _MARKUP.sub(r"\\\g<0>", text)
