"""Answers: what was found, as JSON."""

from __future__ import annotations

from dataclasses import asdict
from json.encoder import encode_basestring_ascii as _quoted
from typing import Any

from labeltree.explain.label import describe_label
from labeltree.explain.prediction import explain_labels, explain_prediction
from labeltree.explain.summary import describe_model
from labeltree.serve.batching import Found
from labeltree.serve.registry import Served
from labeltree.serve.requests import ExplainRequest, PredictRequest


def prediction_json(request: PredictRequest, found: Found) -> bytes:
    """Return the answer of POST /predict, written without a dict for each label, which takes longer."""
    names = request.served.names
    rows = []
    if request.decision is not None:
        found = request.decision.accept(*found)
    for labels, scores in zip(found[0].tolist(), found[1].tolist(), strict=True):
        entries = []
        for label, score in zip(labels, scores, strict=True):
            if label < 0:
                continue
            entry = f'{{"label":{label}'
            if request.names:
                entry += f',"name":{names.json(label)}'
            if request.scores:
                entry += f',"score":{score:.7g}'
            entries.append(entry + "}")
        rows.append(f'{{"labels":[{",".join(entries)}]}}')
    return f'{{"model":{_quoted(request.served.name)},"predictions":[{",".join(rows)}]}}'.encode()


def explanation(request: ExplainRequest) -> dict[str, Any]:
    """Return the answer of POST /explain."""
    model = request.served.model
    if request.label is None:
        found = explain_prediction(model, request.query, top=request.top, words=request.words)
    else:
        found = explain_labels(model, request.query, [request.label], words=request.words)
    return {"model": request.served.name, "predictions": [asdict(item) for item in found]}


def suggestions(served: Served, found: Found) -> dict[str, Any]:
    """Return labels as Annif expects them: a name in angle brackets is a URI."""
    names = served.model.label_names
    results = []
    for label, score in zip(found[0][0].tolist(), found[1][0].tolist(), strict=True):
        if label >= 0:
            name = str(label) if names is None else names[label]
            uri = name[1:-1] if name.startswith("<") and name.endswith(">") else name
            results.append({"uri": uri, "label": name, "notation": None, "score": round(score, 7)})
    return {"results": results}


def model_line(served: Served) -> dict[str, Any]:
    """Return one line of the list of models."""
    model = served.model
    return {
        "name": served.name,
        "labels": model.n_labels,
        "features": model.n_features,
        "trees": len(model.trees),
        "bytes": model.bytes,
        "text": model.text is not None,
        "names": model.label_names is not None,
    }


def model_summary(served: Served) -> dict[str, Any]:
    """Return what `labeltree info --json` reports, and what Annif asks for."""
    return {
        **describe_model(served.model),
        "model": served.name,
        "is_trained": True,
        "modification_time": served.modified.isoformat(),
    }


def label_page(served: Served, search: str, offset: int, limit: int) -> dict[str, Any]:
    """Return labels whose name contains a text in any case, the most frequent ones first."""
    model, order = served.model, served.by_frequency
    if search:
        order = order[served.names.containing(search)[order]]
    names = model.label_names
    labels = [
        {
            "label": label,
            "name": None if names is None else names[label],
            "count": int(model.label_counts[label]),
        }
        for label in order[offset : offset + limit].tolist()
    ]
    return {"total": len(order), "labels": labels}


def label_profile(served: Served, label: int, words: int) -> dict[str, Any]:
    """Return the path of a label, and the words for and against it."""
    return {"model": served.name, **asdict(describe_label(served.model, label, words=words))}
