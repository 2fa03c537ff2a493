"""`labeltree info` and `labeltree verify`: what a model contains, and whether it is complete and valid."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labeltree.base.display import in_list
from labeltree.base.system import human_bytes
from labeltree.cli import options, printing
from labeltree.errors import InputError
from labeltree.settings import DEFAULT_WORDS

if TYPE_CHECKING:
    from labeltree.model.model import Model


def info(
    model: options.ModelPath,
    *,
    label: str | None = None,
    words: options.Words = DEFAULT_WORDS,
    json: bool = False,
) -> None:
    """Describe a model, one of its labels, or an unfinished run.

    Also verifies the model's files. The table has a line per depth: its nodes, the labels that are their
    children, the training instances of these labels (an instance counts once per label), the mean number of
    features that a node uses, and the bytes of the nodes.

    Parameters
    ----------
    label : NAME
        Show this label instead: its path, siblings, instances and words.
    """
    from labeltree.explain.overview import describe_model
    from labeltree.model.model import load
    from labeltree.training.work import is_work_directory

    if is_work_directory(model):
        _show_work(model, json)
        return
    opened = load(model)
    if label is not None:
        _show_label(opened, label, words, json)
        return
    figures = describe_model(opened)
    lines = _summary(figures)
    for number, shape in enumerate(figures["shapes"]):
        lines += ["", *([f"tree {number}"] if figures["trees"] > 1 else []), *_shape_table(shape)]
    printing.show(figures, lines, json)


def verify(
    model: options.ModelPath,
    *,
    json: bool = False,
) -> None:
    """Check every byte of a model.

    Compares all checksums, and checks that the manifest, the trees, the features, the weights, the label
    names and the terms are what labeltree writes. Exits with code 2 at the first fault.
    """
    from labeltree.explain.overview import describe_model
    from labeltree.model.model import load

    start = time.perf_counter()
    opened = load(model, verify=True)
    seconds = time.perf_counter() - start
    n_files = len(opened.manifest["files"])
    checked = f"{printing.plural(n_files, 'file')}, {printing.size(opened.bytes)}"
    lines = printing.facts([("model", f"{model} is valid"), ("checked", checked)])
    report = {"valid": True, "files": n_files, "seconds": seconds}
    printing.show({**describe_model(opened), **report}, lines, json)


def _show_work(path: Path, json: bool) -> None:
    from labeltree.training.work import work_status

    try:
        status = work_status(path)
        shape = printing.shape(status["data"])
    except InputError:
        raise
    except (IndexError, KeyError, OSError, TypeError, ValueError):
        hint = "remove the directory and start again"
        raise InputError("the work directory is damaged", file=path, hint=hint) from None
    if status["complete"]:
        state = "trained, but not yet moved into place"
    elif status["done"] is None:
        state = f"{printing.plural(status['trees'], 'tree')} built, nothing trained yet"
    else:
        left = status["seconds_left"]
        time = f", about {printing.human_seconds(left)} of training left" if left is not None else ""
        state = f"{status['done']:.0%} trained ({status['trained']:,} of {status['strips']:,} strips){time}"
    running = f"running ({status['process']})" if status["process"] else "not running; `--resume` continues"
    rows = [
        ("work", str(path)),
        ("data", shape),
        ("state", state),
        ("process", running),
    ]
    printing.show(status, printing.facts(rows), json)


def _summary(figures: dict[str, Any]) -> list[str]:
    text = dict(figures["text"] or {})
    if text.get("stop_words"):
        text["stop_words"] = f"{len(text['stop_words'])} words"
    return printing.facts(
        [
            ("model", f"{figures['model']} (labeltree {figures['labeltree_version']})"),
            ("data", printing.shape(figures)),
            *([("rows", "scaled to length 1")] if figures["normalized"] else []),
            ("trees", f"{printing.forest(figures)}, {printing.plural(figures['weights'], 'weight')}"),
            ("size", printing.size(figures["model_bytes"])),
            *printing.one_vs_rest(figures),
            ("trained", _listed({**figures["notes"], **figures["settings"]})),
            *([("text", f"TF-IDF, {_listed(text)}")] if text else []),
            *([("accepts", f"scores from {figures['accepts']}")] if figures["accepts"] else []),
            *([("scores", "calibrated")] if figures["calibrated"] else []),
            *_storage(figures),
        ]
    )


def _storage(figures: dict[str, Any]) -> list[tuple[str, str]]:
    """Describe how the weights are stored, if not all as float32."""
    codec, pruned, before = figures["codec"], figures["pruned"], figures["float32_bytes"]
    pairs = []
    if codec == "sparse":
        pairs.append(("stored", f"{printing.plural(figures['weights'], 'non-zero weight')} as int8"))
    elif codec != "float32":
        pairs.append(("stored", f"all weights as {codec}, {human_bytes(before)} as float32"))
    if pruned:
        limit = f"below {pruned['threshold']:g}" if pruned["threshold"] else "that rounds to zero"
        pairs.append(("pruned", f"weights with an absolute value {limit}"))
    return pairs


def _listed(settings: dict[str, Any]) -> str:
    """List settings with their values, without those that are not set."""
    return ", ".join(
        f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in settings.items()
        if value is not None
    )


def _shape_table(shape: list[Any]) -> list[str]:
    """Return a table of the depths of a tree."""
    from labeltree.trees.tree import depth_cells

    head = ("depth", "nodes", "labels", "instances", "used features", "alpha", "bytes")
    rows = (
        {
            **depth_cells(row),
            "labels": f"{row['labels']:,}",
            "instances": f"{row['label_instances']:,}",
            "bytes": human_bytes(row["bytes"]),
        }
        for row in shape
    )
    return printing.table(head, ([row[name] for name in head] for row in rows))


def _show_label(model: Model, name: str, words: int, json: bool) -> None:
    from labeltree.explain.label import describe_label, find_label

    profile = describe_label(model, find_label(model, name), words=words)
    if json:
        printing.print_json({"model": str(model.path), **profile.to_dict()})
        return
    pairs = [
        ("label", profile.name),
        ("instances", f"{profile.instances:,} of {model.n_instances:,}"),
        ("siblings", ", ".join(f"{path[-1].siblings:,}" for path in profile.paths)),
    ]
    print(*printing.facts(pairs), sep="\n")
    for t, path in enumerate(profile.paths):
        at = root = printing.tree(f"tree {t}" if len(profile.paths) > 1 else "root")
        for fork in path:
            siblings = ", ".join(map(in_list, fork.sibling_labels))
            if siblings and fork.siblings > len(fork.sibling_labels):
                siblings += ", ..."
            at = at.add(
                printing.branch(
                    printing.child_name(fork.child),
                    f"one of {fork.siblings + 1:,} children of node {fork.node}",
                    [
                        ("for", printing.words(fork.supporting)),
                        ("against", printing.words(fork.opposing)),
                        ("bias", f"{fork.bias:+.3f}" if fork.bias else ""),
                        ("siblings", siblings),
                    ],
                )
            )
        print()
        printing.print_tree(root)
