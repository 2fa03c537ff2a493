"""The options that several commands share: one name, one meaning, one range."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

_INT32_MAX = 2**31 - 1


def whole_number(least: int, most: int = _INT32_MAX) -> Callable[[int | None], int | None]:
    """Make a check of a number's range that says what was expected."""

    # Typer's own ranges would take up half of the help.
    def check(value: int | None) -> int | None:
        if value is not None and not least <= value <= most:
            wanted = f"of at least {least}" if value < least else f"up to {most}"
            raise typer.BadParameter(f"got {value}, expected a whole number {wanted}")
        return value

    return check


# Explicit names, so that every parameter may have the name that reads best in Python.
_option: Any = typer.Option
_tree: Any = partial(typer.Option, rich_help_panel="The label tree")
_solver: Any = partial(typer.Option, rich_help_panel="The classifiers")


class Score(str, Enum):
    """How a margin becomes a score."""

    sigmoid = "sigmoid"
    hinge2 = "hinge2"
    hinge3 = "hinge3"


class Format(str, Enum):
    """How predictions are written."""

    tsv = "tsv"
    svm = "svm"


Data = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="LIBSVM, TSV, CSV or JSONL file, plain or compressed (gz, bz2, xz); - for standard input.",
        show_default=False,
    ),
]
ModelPath = Annotated[Path, typer.Argument(metavar="MODEL", help="Model directory.", show_default=False)]

Clusters = Annotated[
    int,
    _tree("--clusters", metavar="K", callback=whole_number(2), help="Clusters that a node is split into."),
]
MaxDepth = Annotated[
    int,
    _tree(
        "--max-depth",
        metavar="N",
        callback=whole_number(1),
        help="Depth of a label at most; 1 is one-vs-rest.",
    ),
]
Trees = Annotated[
    int,
    _tree(
        "--trees",
        metavar="N",
        callback=whole_number(1, 10_000),
        help="Trees, each with its own seed; scores are averaged.",
    ),
]
Tree = Annotated[
    Path | None,
    _tree(
        "--tree",
        metavar="FILE",
        help="Take this tree and do not cluster: nested lists (JSON), a table with the columns label and "
        "parent, or clusters, one a line.",
    ),
]
TreeRest = Annotated[
    bool, _tree("--tree-rest", help="Labels that the FILE lacks get a child of the root of their own.")
]
Seed = Annotated[
    int, _option("--seed", metavar="N", callback=whole_number(0), help="The same seed gives the same result.")
]
Threads = Annotated[
    int | None,
    _option(
        "--threads", metavar="N", callback=whole_number(1, 1024), help="All usable processors unless given."
    ),
]
Loss = Annotated[str, _solver("--loss", metavar="NAME", help="squared_hinge, hinge or logistic.")]
Cost = Annotated[float, _solver("--cost", metavar="C", help="Weight of the losses against w'w / 2.")]
Tolerance = Annotated[float, _solver("--tolerance", metavar="X", help="When to stop: smaller is more exact.")]
MaxIterations = Annotated[
    int,
    _solver(
        "--max-iterations",
        metavar="N",
        callback=whole_number(1),
        help="Passes over a node's instances at most.",
    ),
]
Bias = Annotated[
    float, _solver("--bias", metavar="X", help="Value of a constant feature of every instance; 0 for none.")
]
MemoryLimit = Annotated[
    str | None,
    _option("--memory-limit", metavar="SIZE", help="Memory that training may take: 8GB, 500MB, or bytes."),
]
Force = Annotated[bool, _option("--force", help="Train even if memory or disk look too small.")]
Overwrite = Annotated[bool, _option("--overwrite", help="Replace what is there, once the new is complete.")]
OneBased = Annotated[
    bool | None, _option("--one-based/--zero-based", help="Number of the first feature; told by the file.")
]
OneBasedLikeModel = Annotated[
    bool | None,
    _option("--one-based/--zero-based", help="Number of the first feature; as in the model's training file."),
]
Beam = Annotated[
    int, _option("--beam", metavar="N", callback=whole_number(1), help="Nodes kept at each depth.")
]
Top = Annotated[
    int, _option("--top", metavar="N", callback=whole_number(1), help="Labels to predict for a row.")
]
Words = Annotated[
    int, _option("--words", metavar="N", callback=whole_number(0), help="Words for and against a step.")
]
ScoreOption = Annotated[Score, _option("--score", help="How a margin becomes a score in (0, 1].")]
Quiet = Annotated[bool, _option("--quiet", "-q", help="Results only: no progress, no summary.")]
Json = Annotated[bool, _option("--json", help="Print one JSON object instead.")]
