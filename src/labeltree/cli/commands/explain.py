"""`labeltree explain`: why a model predicts what it does, drawn as a tree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from labeltree.base import limits
from labeltree.cli import options, printing
from labeltree.cli.reading import DataFile, Reading
from labeltree.errors import InputError
from labeltree.settings import DEFAULT_TOP, DEFAULT_WORDS

if TYPE_CHECKING:
    from rich.tree import Tree

    from labeltree.data.dataset import Dataset
    from labeltree.explain.label import Child
    from labeltree.explain.prediction import Explanation, Step
    from labeltree.model.model import Model


def explain(
    model: options.ModelPath,
    given: list[str] | None = None,
    *,
    search: options.Search,
    reading: Reading,
    file: str | None = None,
    row: Annotated[int | None, limits.Whole(0)] = None,
    top: Annotated[int, limits.TOP] = DEFAULT_TOP,
    words: options.Words = DEFAULT_WORDS,
    json: bool = False,
) -> None:
    """Explain a prediction.

    Shows the path of each predicted label through the tree, and the words for and against it.

    Parameters
    ----------
    given : TEXT|ROW
        A document if the model was trained on text, otherwise index:value pairs; or - for the first row of
        standard input.
    file : DATA
        Explain a row of this file; requires --row.
    row
        Number of the row, from 0.
    """
    from labeltree.explain.prediction import explain_prediction
    from labeltree.model.ranker import score_formula

    if given == ["-"] and file is None and row is None:
        given, file, row = None, "-", 0
    opened, dataset, name = _read_row(model, given, file, row, reading)
    opened.one_based = dataset.one_based  # number the features as the row does
    with printing.warnings_as_notes():
        found = explain_prediction(opened, dataset.X, top=top, words=words, **asdict(search))
    names = dataset.label_names
    true_labels = {str(j) if names is None else names[j] for j in dataset.Y.indices.tolist()}
    if not dataset.X.nnz:
        if opened.text is None:
            printing.note("The row has no features known to the model, so only the bias counts.")
        else:
            printing.note("The model knows none of the words, so no label is predicted.")
    if json:
        figures = {"features": int(dataset.X.nnz), "labels": sorted(true_labels)}
        printing.print_json({**figures, "predictions": [explanation.to_dict() for explanation in found]})
        return
    counts = printing.plural(dataset.X.nnz, "feature")
    if true_labels:
        counts += f", {printing.plural(len(true_labels), 'label')} (*)"
    best = ", ".join(f"{printing.mark(e.name, true_labels)} {_predicted(e)}" for e in found)
    facts = [("row", f"{name}: {counts}"), ("predicted", best or "(no labels)")]
    if any(e.uncalibrated is not None for e in found):
        facts.append(("", "(score before calibration -> probability)"))
    print(*printing.facts(facts), sep="\n")
    if not found:
        return
    for t in range(len(opened.trees)):
        print()
        title = f"tree {t}" if len(opened.trees) > 1 else "root"
        printing.print_tree(_draw_paths(found, t, true_labels, title))
    score = opened.score.replace(search.score, search.score_scale)
    formula, power = score_formula(score), score.path_weight
    product = f"the product of {formula} along the path"
    if power != 1:
        product = (
            f"that of the last step: {formula} times the score of the step before to the power {power:g}"
        )
    mean = "the mean over the trees of " if len(opened.trees) > 1 else ""
    print(
        "",
        f"A score is {mean}{product};",
        "a margin is the sum of the words for and against, the bias, and the other features.",
        sep="\n",
    )


def _read_row(
    path: Path,
    given: list[str] | None,
    file: str | None,
    number: int | None,
    reading: Reading,
) -> tuple[Model, Dataset, str]:
    """Open the model, and return it with the row to explain and the name of the row."""
    from labeltree.base.files import display_name
    from labeltree.data.dataset import Dataset
    from labeltree.data.read import check_options
    from labeltree.data.svm import parse_svm
    from labeltree.model.model import load

    if (file is None) == (not given) or (file is None) != (number is None):
        what = "expected either a document or a row, or --file with --row"
        raise InputError(what, hint="see `labeltree explain --help`")
    if file is None and reading != Reading(one_based=reading.one_based):
        raise InputError("options for reading a file are given without --file", hint="add --file and --row")
    model = load(path)
    if file is not None and number is not None:
        dataset = DataFile(file, reading, model).read(
            printing.Display(quiet=True), None, require_labels=False
        )
        if number >= dataset.n_instances:
            what = f"--row is {number}, expected a row from 0 to {dataset.n_instances - 1}"
            raise InputError(what, file=display_name(file))
        row = Dataset(dataset.X[number], dataset.Y[number], dataset.label_names, dataset.one_based)
        return model, row, f"{number} of {display_name(file)}"
    text = " ".join(given or [])
    if model.text is not None:
        check_options("txt", reading.keywords())
        X = model.text.transform([text])
        return model, Dataset.from_matrices(X, [[0]]), _shortened(text)
    if ":" not in text or "\n" in text.strip():
        hint = "write the row as in a LIBSVM file, since the model was not trained on text"
        raise InputError(f"expected index:value pairs on one line, got {_shortened(text)}", hint=hint)
    base = model.one_based if reading.one_based is None else reading.one_based
    row = parse_svm(text, "the given row", one_based=base).widen(model.n_features)
    return model, row, _shortened(text)


def _draw_paths(found: Sequence[Explanation], t: int, true_labels: set[str], title: str) -> Tree:
    """Draw the paths of all labels through a tree, with the parts that they share drawn once."""
    root = printing.tree(title)
    branches: dict[tuple[int, Child], Tree] = {}
    for rank, explanation in enumerate(found, 1):
        path = explanation.paths[t]
        at = root
        for step in path.steps:
            key = step.node, step.child
            if key not in branches:
                head = f"{rank}. " * (step.child.node is None) + printing.child_name(step.child, true_labels)
                branches[key] = at.add(printing.branch(head, _score(step, path.reached), _reasons(step)))
            at = branches[key]
    return root


def _predicted(explanation: Explanation) -> str:
    before = explanation.uncalibrated
    return ("" if before is None else f"{before:.3g} -> ") + f"{explanation.score:.3g}"


def _score(step: Step, reached: bool) -> str:
    score = f"{step.score:.3g}"
    if step.depth:
        score += f" = {step.score / step.factor if step.factor else 0:.3g} x {step.factor:.3g}"
    if step.child.node is None and not reached:
        score += " (not reached by the beam: counts as 0)"
    return f"{score}, margin {step.margin:+.3f}"


def _reasons(step: Step) -> list[tuple[str, str]]:
    rest = [f"bias {step.bias:+.3f}"] if step.bias else []
    if step.others:
        rest.append(f"{printing.plural(step.others, 'other feature')} {step.rest:+.3f}")
    return [
        ("for", printing.words(step.supporting)),
        ("against", printing.words(step.opposing)),
        ("rest", ", ".join(rest)),
    ]


def _shortened(text: str) -> str:
    flat = " ".join(text.split())
    return repr(flat if len(flat) <= 50 else flat[:47] + "...")
