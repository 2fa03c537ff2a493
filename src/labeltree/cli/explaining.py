"""`labeltree explain` and `labeltree info --label`: why a model predicts what it does, drawn as a tree."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from labeltree.cli import options, printing, text_options
from labeltree.cli.progress import Stages
from labeltree.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path as FilePath

    from rich.tree import Tree

    from labeltree.data import Dataset
    from labeltree.explain.parts import Child, Word
    from labeltree.explain.prediction import Explanation, Step
    from labeltree.model import Model

_GLUE = "\ue000"  # a blank at which no line is broken


@text_options.takes(text_options.Reading)
def explain(
    model: options.ModelPath,
    what: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TEXT|ROW",
            help="A text, if the model was trained on texts; else features as index:value ...; - for the "
            "first row of standard input.",
            show_default=False,
        ),
    ] = None,
    file: Annotated[
        str | None, typer.Option(metavar="DATA", help="Take a row of this file instead, with --row.")
    ] = None,
    row: Annotated[
        int | None,
        typer.Option(metavar="N", callback=options.whole_number(0), help="Its number, from 0."),
    ] = None,
    top: options.Top = 5,
    beam: options.Beam = 10,
    score: options.ScoreOption = options.Score.sigmoid,
    words: options.Words = 5,
    one_based: options.OneBasedLikeModel = None,
    json: options.Json = False,
    text: text_options.Reading = text_options.NOTHING,
) -> None:
    """Show why labels are predicted: their paths through the tree, and the words for and against."""
    from dataclasses import asdict

    from labeltree.explain.prediction import explain_prediction
    from labeltree.predict import SCORES

    if what == ["-"] and file is None and row is None:
        what, file, row = None, "-", 0
    opened, dataset, name = _row(model, what, file, row, one_based, text)
    opened.one_based = dataset.one_based  # features are shown as this row counts them
    with printing.warnings_as_notes():
        found = explain_prediction(opened, dataset.X, top=top, beam=beam, score=score.value, words=words)
    truth = _labels(dataset)
    if not dataset.X.nnz:
        follows = "only the bias speaks" if opened.text is None else "no label is predicted"
        printing.note(f"no word of it is known to the model, so {follows}.")
    if json:
        figures: dict[str, Any] = {"features": int(dataset.X.nnz), "labels": sorted(truth)}
        printing.print_json({**figures, "predictions": [asdict(explanation) for explanation in found]})
        return
    _escape_what_cannot_be_shown()
    best = ", ".join(f"{_starred(e.name, truth)} {e.score:.3g}" for e in found)
    said = printing.plural(dataset.X.nnz, "feature")
    if truth:
        said += f", {printing.plural(len(truth), 'label')} (*)"
    lines = printing.facts([("row", f"{name}: {said}"), ("predicted", best or "nothing")])
    print(*lines, sep="\n")
    if not found:
        return
    for t in range(len(opened.trees)):
        print()
        _print_tree(_drawn(found, t, truth, f"tree {t}" if len(opened.trees) > 1 else "root"))
    mean = "the mean over the trees of " if len(opened.trees) > 1 else ""
    print(
        "",
        f"A score is {mean}the product of {SCORES[score.value].formula} along the path;",
        "a margin is the sum of the words for and against, the bias and the other words.",
        sep="\n",
    )


def _row(
    path: FilePath,
    what: list[str] | None,
    file: str | None,
    row: int | None,
    one_based: bool | None,
    reading: text_options.Reading,
) -> tuple[Model, Dataset, str]:
    """Open the model, and take the row that is to be explained."""
    from labeltree.cli.using import open_with_data
    from labeltree.data import Dataset
    from labeltree.files import display_name
    from labeltree.model import load
    from labeltree.svm import parse_svm

    if (file is None) == (not what) or (file is None) != (row is None):
        raise InputError(
            "expected either a text or row to explain, or both --file and --row; "
            "see `labeltree explain --help`"
        )
    if file is not None and row is not None:
        model, dataset = open_with_data(
            Stages(quiet=True), path, file, reading, None, one_based, require_labels=False
        )
        if row >= dataset.n_instances:
            raise InputError(
                f"{display_name(file)}: got --row {row}, expected a row from 0 to {dataset.n_instances - 1}"
            )
        chosen = Dataset(dataset.X[row], dataset.Y[row], dataset.label_names, dataset.one_based)
        return model, chosen, f"{row} of {display_name(file)}"
    if reading != text_options.Reading():
        raise InputError("got options that tell how a file is read, expected a --file with them; add it")
    text = " ".join(what or [])
    model = load(path)
    if model.text is not None:
        text_options.refuse_base(one_based)
        X = model.text.transform([text])
        return model, Dataset.from_matrices(X, [[0]]), _shortened(text)
    if ":" not in text or "\n" in text.strip():
        raise InputError(
            f"got {_shortened(text)}, expected features as index:value ... on one line, since the model was "
            "not trained on texts; or name a row by --file and --row"
        )
    base = model.one_based if one_based is None else one_based
    return model, parse_svm(text, "the given row", one_based=base), _shortened(text)


def _labels(dataset: Dataset) -> set[str]:
    """Names of the labels that the row itself has."""
    names = dataset.label_names
    return {str(label) if names is None else names[label] for label in dataset.Y.indices.tolist()}


def _drawn(found: Sequence[Explanation], t: int, truth: set[str], title: str) -> Tree:
    """Draw the paths of all labels through a tree; what they share is drawn once."""
    from rich.text import Text
    from rich.tree import Tree

    root = Tree(Text(title))
    branches: dict[tuple[int, Child], Tree] = {}
    for rank, explanation in enumerate(found, 1):
        path = explanation.paths[t]
        at = root
        for step in path.steps:
            key = step.node, step.child
            if key not in branches:
                head = _child(step.child, truth, "" if step.child.node is not None else f"{rank}. ")
                branches[key] = at.add(_described(head, _score(step, path.reached), _spoken(step)))
            at = branches[key]
    return root


def _child(child: Child, truth: set[str], before: str = "") -> str:
    if child.node is None:
        return before + _starred(child.frequent[0], truth)
    named = ", ".join(_starred(name, truth) for name in child.frequent)
    return (
        f"{printing.plural(child.labels, 'label')} ({named}{', ...' * (child.labels > len(child.frequent))})"
    )


def _score(step: Step, reached: bool) -> str:
    score = f"{step.score:.3g}"
    if step.depth:
        score += f" = {step.score / step.factor if step.factor else 0:.3g} x {step.factor:.3g}"
    if step.child.node is None and not reached:
        score += " (not reached by the beam: counts 0)"
    return f"{score}, margin {step.margin:+.3f}"


def _spoken(step: Step) -> list[tuple[str, str]]:
    rest = [f"bias {step.bias:+.3f}"] if step.bias else []
    if step.others:
        rest.append(f"{printing.plural(step.others, 'other')} {step.rest:+.3f}")
    return [
        ("for", _words(step.supporting)),
        ("against", _words(step.opposing)),
        ("and", ", ".join(rest)),
    ]


def _words(words: Iterable[Word]) -> str:
    said = (f"{w.name} {w.weight if w.product is None else w.product:+.3f}" for w in words)
    return ", ".join(word.replace(" ", _GLUE) for word in said)


def _described(head: str, said: str, rows: list[tuple[str, str]]) -> Any:
    """Put a branch's head over what is said of it, aligned."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 1))
    for name, text in rows:
        if text:
            grid.add_row(Text(name, style="dim"), Text(text))
    title = Text.assemble((head, "bold"), "  ", said)
    return Group(title, grid) if grid.row_count else title


def _print_tree(tree: Tree) -> None:
    from rich.console import Console

    console = Console(highlight=False)
    with console.capture() as captured:
        console.print(tree)
    print(*(line.replace(_GLUE, " ").rstrip() for line in captured.get().splitlines()), sep="\n")


def _escape_what_cannot_be_shown() -> None:
    """A name that the terminal has no letters for is no reason to stop."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def tell_label(model: Model, name: str, words: int, json: bool) -> None:
    """Print a label's paths, siblings, instances and words: `labeltree info --label`."""
    from dataclasses import asdict

    from rich.text import Text
    from rich.tree import Tree

    from labeltree.explain.label import describe_label, find_label

    profile = describe_label(model, find_label(model, name), words=words)
    if json:
        printing.print_json({"model": str(model.path), **asdict(profile)})
        return
    _escape_what_cannot_be_shown()
    pairs = [
        ("label", profile.name),
        ("instances", f"{profile.instances:,} of {model.n_instances:,}"),
        ("siblings", ", ".join(f"{path[-1].siblings:,}" for path in profile.paths)),
    ]
    print(*printing.facts(pairs), sep="\n")
    for t, path in enumerate(profile.paths):
        at = root = Tree(Text(f"tree {t}" if len(profile.paths) > 1 else "root"))
        for fork in path:
            beside = ", ".join(fork.sibling_labels)
            if beside and fork.siblings > len(fork.sibling_labels):
                beside += ", ..."
            at = at.add(
                _described(
                    _child(fork.child, set()),
                    f"one of {fork.siblings + 1:,} children of node {fork.node}",
                    [
                        ("for", _words(fork.supporting)),
                        ("against", _words(fork.opposing)),
                        ("bias", f"{fork.bias:+.3f}" if fork.bias else ""),
                        ("beside", beside),
                    ],
                )
            )
        print()
        _print_tree(root)


def _starred(name: str, truth: set[str]) -> str:
    return name + "*" * (name in truth)


def _shortened(text: str) -> str:
    flat = " ".join(text.split())
    return repr(flat if len(flat) <= 50 else flat[:47] + "...")
