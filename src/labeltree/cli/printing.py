"""Printing: results as aligned lines, trees or JSON on standard output, notes on standard error."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from labeltree.base.display import Progress, Stages, in_list, text_table
from labeltree.base.display import escaped as escaped
from labeltree.base.display import human_seconds as human_seconds
from labeltree.base.json import to_json
from labeltree.base.system import human_bytes

if TYPE_CHECKING:
    from rich.tree import Tree

    from labeltree.data.dataset import Dataset
    from labeltree.explain.label import Child, Word
    from labeltree.training.plan import Plan

table = text_table
_GLUE = "\ue000"  # a space at which lines are not wrapped


def print_json(content: Mapping[str, Any]) -> None:
    """Print one JSON object on standard output, one key per line."""
    lines = (f"  {json.dumps(key)}: {to_json(value)}" for key, value in content.items())
    print("{", ",\n".join(lines), "}", sep="\n")


def show(report: Mapping[str, Any], lines: Iterable[str], json: bool, quiet: bool = False) -> None:
    """Print the results of a command: as one JSON object, or as lines unless it is to be quiet."""
    if json:
        print_json(report)
    elif not quiet:
        print(*lines, sep="\n")


@dataclass(frozen=True)
class Display:
    """What a command shows: its progress, and its results as lines or as one JSON object."""

    quiet: bool = False
    json: bool = False

    @property
    def is_quiet(self) -> bool:
        """Whether only results are shown."""
        return self.quiet or self.json

    @cached_property
    def _stages(self) -> Stages:
        return Stages(self.is_quiet)

    @property
    def seconds(self) -> dict[str, float]:
        """What each stage took."""
        return self._stages.seconds

    @contextmanager
    def stage(self, name: str, description: str) -> Iterator[Progress]:
        """Show and time one stage, and print warnings of the library as notes."""
        with warnings_as_notes(), self._stages.stage(name, description) as progress:
            yield progress

    def show(self, report: Mapping[str, Any], lines: Iterable[str]) -> None:
        """Print the results; the JSON object has the seconds of the stages, too."""
        show({**report, "seconds": self.seconds}, lines, self.json, self.quiet)


def note(message: str) -> None:
    """Print a note on standard error: something to know that is not an error."""
    print("note:", escaped(message), file=sys.stderr)


@contextmanager
def warnings_as_notes() -> Iterator[None]:
    """Print warnings of the library as notes, each once."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for message in dict.fromkeys(str(warning.message) for warning in caught):
        note(message)


def facts(pairs: Iterable[tuple[str, str]]) -> list[str]:
    """Return lines with a name and a text each, the texts aligned."""
    pairs = [(escaped(name), text) for name, text in pairs]
    width = max(len(name) for name, _ in pairs)
    return [f"{name:<{width}}  {escaped(text)}" for name, text in pairs]


def size(n_bytes: int, more: str = "") -> str:
    """Return a number of bytes with a unit, and exactly."""
    return f"{human_bytes(n_bytes)} ({n_bytes:,} bytes{more})"


def plural(number: int, noun: str) -> str:
    """Return a number with its noun: 1 tree, 3 trees."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


def counts(data: Dataset | Plan) -> dict[str, int]:
    """Return the number of instances, features and labels, as results report them."""
    return {"instances": data.n_instances, "features": data.n_features, "labels": data.n_labels}


def shape(figures: Mapping[str, Any]) -> str:
    """Describe data: instances, features and labels, and whether the labels have names."""
    label = "named label" if figures.get("named_labels") else "label"
    names = {"instances": "instance", "features": "feature", "labels": label}
    return ", ".join(plural(figures[key], name) for key, name in names.items())


def forest(figures: Mapping[str, Any]) -> str:
    """Describe trees: how many, their nodes and their depth."""
    return f"{plural(figures['trees'], 'tree')}, {plural(figures['nodes'], 'node')}, depth {figures['depth']}"


def one_vs_rest(figures: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Compare a model with one-vs-rest in the same format, unless it is pruned."""
    if figures["ovr_bytes"] is None:
        return []
    size = f"{human_bytes(figures['ovr_bytes'])} as one-vs-rest in the same format"
    return [("ovr", f"{size}, ratio {figures['ovr_ratio']:.3g}")]


# Trees, drawn in the terminal


def tree(title: str) -> Tree:
    """Return a tree without branches."""
    from rich.text import Text
    from rich.tree import Tree

    return Tree(Text(title))


def branch(head: str, details: str, rows: list[tuple[str, str]]) -> Any:
    """Return what is drawn at a branch: a head, details next to it, and rows of names and texts below."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 1))
    for name, text in rows:
        if text:
            grid.add_row(Text(name, style="dim"), Text(escaped(text)))
    title = Text.assemble((escaped(head), "bold"), "  ", details)
    return Group(title, grid) if grid.row_count else title


def child_name(child: Child, marked: Collection[str] = ()) -> str:
    """Return the name of a label, or a node's number of labels and its most frequent ones."""
    if child.node is None:
        return mark(child.frequent[0], marked)
    names = ", ".join(mark(name, marked) for name in child.frequent)
    more = ", ..." * (child.labels > len(child.frequent))
    return f"{plural(child.labels, 'label')} ({names}{more})"


def mark(name: str, marked: Collection[str]) -> str:
    """Return a name in a list, with an asterisk if it is one of the marked names."""
    return in_list(name) + "*" * (name in marked)


def words(items: Iterable[Word]) -> str:
    """List words with their contributions, or with their weights if there is no row."""
    return ", ".join(str(word).replace(" ", _GLUE) for word in items)


def print_tree(root: Tree) -> None:
    """Print a tree, wrapped at the width of the terminal."""
    from rich.console import Console

    console = Console(highlight=False)
    with console.capture() as captured:
        console.print(root)
    print(*(line.replace(_GLUE, " ").rstrip() for line in captured.get().splitlines()), sep="\n")
