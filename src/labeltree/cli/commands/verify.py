"""`labeltree verify`: whether all files of a model are complete and valid."""

from __future__ import annotations

import time
from typing import Any

from labeltree.base.system import human_bytes
from labeltree.cli import options, printing


def verify(
    model: options.ModelPath,
    *,
    json: bool = False,
) -> None:
    """Check every byte of a model.

    Compares all checksums, and checks that the manifest, the trees, the features, the weights, the label
    names and the terms are what labeltree writes. Exits with code 2 at the first fault.
    """
    from labeltree.model.model import load

    start = time.perf_counter()
    opened = load(model, verify=True)
    figures: dict[str, Any] = {
        "model": str(model),
        "valid": True,
        "format_version": opened.manifest["format_version"],
        "files": len(opened.manifest["files"]),
        "model_bytes": opened.bytes,
        "labels": opened.n_labels,
        "named_labels": opened.label_names is not None,
        "terms": None if opened.text is None else len(opened.text.names),
        "trees": len(opened.trees),
        "nodes": sum(part.tree.n_nodes for part in opened.trees),
        "depth": max(part.tree.depth for part in opened.trees),
        "blocks": sum(part.checksums.size for part in opened.trees),
        "weights": opened.manifest["weights"],
        "codec": opened.codec,
        "seconds": time.perf_counter() - start,
    }
    printing.show(figures, _summary(figures), json)


def _summary(figures: dict[str, Any]) -> list[str]:
    labels = "their counts and names" if figures["named_labels"] else "their counts"
    weights = f"{printing.plural(figures['weights'], 'weight')} ({figures['codec']})"
    pairs = [
        ("model", f"{figures['model']} is valid"),
        ("manifest", f"every entry; format version {figures['format_version']}"),
        ("files", f"{figures['files']:,} files, {human_bytes(figures['model_bytes'])}: sizes and checksums"),
        ("trees", f"{printing.forest(figures)}: every node and every label once, in order"),
        ("blocks", f"{printing.plural(figures['blocks'], 'block')}, {weights}: features sorted, all finite"),
        ("labels", f"{printing.plural(figures['labels'], 'label')}: {labels}"),
    ]
    if figures["terms"] is not None:
        pairs.append(("text", f"{printing.plural(figures['terms'], 'term')}: settings and weights"))
    pairs.append(("time", printing.human_seconds(figures["seconds"])))
    return printing.facts(pairs)
