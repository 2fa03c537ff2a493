"""`labeltree info`: what a model contains, or what it has learned about one label."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labeltree.base.system import human_bytes
from labeltree.cli import options, printing
from labeltree.errors import InputError
from labeltree.settings import DEFAULT_WORDS

if TYPE_CHECKING:
    from labeltree.explain.model import DepthShape
    from labeltree.model.model import Model


def info(
    model: options.ModelPath,
    *,
    label: str | None = None,
    words: options.Words = DEFAULT_WORDS,
    json: bool = False,
) -> None:
    """Describe a model, one of its labels, or an unfinished run.

    Also verifies the model's files.

    Parameters
    ----------
    label : NAME
        Show this label instead: its path, siblings, instances and words.
    """
    from labeltree.explain.model import describe_model
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
    printing.show(figures, [*_summary(figures), "", *_shapes(figures)], json)


def _show_work(path: Path, json: bool) -> None:
    from labeltree.training.status import work_status

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
    rows = [
        ("work", str(path)),
        ("data", shape),
        ("state", state),
        ("process", "running" if status["running"] else "not running; `--resume` continues"),
    ]
    printing.show(status, printing.facts(rows), json)


def _summary(figures: dict[str, Any]) -> list[str]:
    settings = ", ".join(
        f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in {**figures["notes"], **figures["settings"]}.items()
    )
    size = figures["model_bytes"]
    return printing.facts(
        [
            ("model", f"{figures['model']} (labeltree {figures['labeltree_version']})"),
            ("data", printing.shape(figures)),
            *([("rows", "scaled to length 1")] if figures["normalized"] else []),
            ("trees", f"{printing.forest(figures)}, {printing.plural(figures['weights'], 'weight')}"),
            ("size", f"{human_bytes(size)} ({size:,} bytes)"),
            *([("ovr", _one_vs_rest(figures))] if figures["ovr_bytes"] else []),
            ("trained", settings),
            *([("text", _text_settings(figures["text"]))] if figures["text"] else []),
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


def _one_vs_rest(figures: dict[str, Any]) -> str:
    """Compare the model with one-vs-rest in the same format."""
    size = f"{human_bytes(figures['ovr_bytes'])} as one-vs-rest in the same format"
    return f"{size}, ratio {figures['ovr_ratio']:.3g}"


def _text_settings(settings: dict[str, Any]) -> str:
    values = {**settings, "ngrams": "{}-{}".format(*settings["ngrams"])}
    values["stop_words"] = values["stop_words"] and f"{len(values['stop_words'])} words"
    return "TF-IDF, " + ", ".join(
        f"{name} {'no' if value is False else 'yes' if value is True else value}"
        for name, value in values.items()
        if value is not None
    )


def _shapes(figures: dict[str, Any]) -> list[str]:
    """Draw the shape of each tree, and explain the columns."""
    lines: list[str] = []
    shapes: list[Any] = figures["shapes"]
    for t, shape in enumerate(shapes):
        title = [f"tree {t}"] if len(shapes) > 1 else []
        lines += [*title, *_shape_table(shape), ""]
    other = figures["model_bytes"] - sum(row["bytes"] for shape in shapes for row in shape)
    return [
        *lines,
        "labels: number of labels that are children of nodes at this depth; instances: training",
        "instances of those labels (an instance counts once per label); used features: mean per node.",
        f"The other {human_bytes(other)} of the model are headers, label counts and label names"
        + (", and the terms of the text." if figures["text"] else "."),
    ]


def _shape_table(shape: Sequence[DepthShape]) -> list[str]:
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
        printing.print_json({"model": str(model.path), **asdict(profile)})
        return
    printing.escape_unprintable()
    pairs = [
        ("label", profile.name),
        ("instances", f"{profile.instances:,} of {model.n_instances:,}"),
        ("siblings", ", ".join(f"{path[-1].siblings:,}" for path in profile.paths)),
    ]
    print(*printing.facts(pairs), sep="\n")
    for t, path in enumerate(profile.paths):
        at = root = printing.tree(f"tree {t}" if len(profile.paths) > 1 else "root")
        for fork in path:
            siblings = ", ".join(fork.sibling_labels)
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
