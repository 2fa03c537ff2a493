"""The options that several commands share: one name, one meaning, one range."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

_INT32_MAX = 2**31 - 1


def _option(*names: str, help: str, **more: Any) -> Any:
    return typer.Option(*names, help=help, **more)


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
        metavar="DATA", help="LIBSVM file, plain or compressed (gz, bz2, xz); - for standard input.", show_default=False
    ),
]
ModelPath = Annotated[Path, typer.Argument(metavar="MODEL", help="Model directory.", show_default=False)]

Clusters = Annotated[int, _option("--clusters", min=2, max=_INT32_MAX, help="Clusters that a node is split into (K).")]
MaxDepth = Annotated[
    int, _option("--max-depth", min=1, max=_INT32_MAX, help="Largest depth of a label; 1 is one-vs-rest.")
]
Trees = Annotated[int, _option("--trees", min=1, max=10_000, help="Trees, with seeds of their own; scores are averaged.")]
Tree = Annotated[
    Path | None,
    _option("--tree", metavar="FILE.json", help="Take this tree, nested lists of labels, instead of clustering."),
]
Seed = Annotated[int, _option("--seed", min=0, max=_INT32_MAX, help="The same seed gives the same result.")]
Threads = Annotated[
    int | None, _option("--threads", min=1, max=1024, help="All usable processors unless given.", show_default=False)
]
Cost = Annotated[float, _option("--cost", help="Weight of the losses against w'w / 2 (C).")]
Loss = Annotated[str, _option("--loss", metavar="squared_hinge|hinge|logistic", help="Loss of the classifiers.")]
Tolerance = Annotated[float, _option("--tolerance", help="When the solver stops: smaller is more exact.")]
MaxIterations = Annotated[
    int, _option("--max-iterations", min=1, max=_INT32_MAX, help="Passes over a node's instances at most.")
]
Bias = Annotated[float, _option("--bias", help="Value of a constant feature of every instance; 0 for none.")]
MemoryLimit = Annotated[
    str | None,
    _option("--memory-limit", metavar="SIZE", help="Memory that training may take (8GB, 500MB, or bytes)."),
]
Force = Annotated[bool, _option("--force", help="Train even if memory or disk look too small.")]
Overwrite = Annotated[bool, _option("--overwrite", help="Replace what is there, once the new is complete.")]
OneBased = Annotated[
    bool | None,
    _option("--one-based/--zero-based", help="Number of the first feature: told by the file.", show_default=False),
]
OneBasedLikeModel = Annotated[
    bool | None,
    _option(
        "--one-based/--zero-based",
        help="Number of the first feature: as in the model's training file.",
        show_default=False,
    ),
]
Beam = Annotated[int, _option("--beam", min=1, max=_INT32_MAX, help="Nodes kept at each depth of the tree.")]
ScoreOption = Annotated[Score, _option("--score", help="How a margin becomes a score in (0, 1].")]
Quiet = Annotated[bool, _option("--quiet", "-q", help="No progress, no summary.")]
Json = Annotated[bool, _option("--json", help="Print one JSON object instead.")]
