"""Drawing label trees in the terminal, for `labeltree explain` and `labeltree info --label`."""

from __future__ import annotations

import io
import sys
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any

from labeltree.cli import printing

if TYPE_CHECKING:
    from rich.tree import Tree

    from labeltree.explain.parts import Child, Word

_GLUE = "\ue000"  # a space at which lines are not wrapped


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
            grid.add_row(Text(name, style="dim"), Text(printing.escaped(text)))
    title = Text.assemble((printing.escaped(head), "bold"), "  ", details)
    return Group(title, grid) if grid.row_count else title


def child_name(child: Child, marked: Collection[str] = ()) -> str:
    """Return the name of a label, or a node's number of labels and its most frequent ones."""
    if child.node is None:
        return mark(child.frequent[0], marked)
    names = ", ".join(mark(name, marked) for name in child.frequent)
    more = ", ..." * (child.labels > len(child.frequent))
    return f"{printing.plural(child.labels, 'label')} ({names}{more})"


def mark(name: str, marked: Collection[str]) -> str:
    """Add an asterisk to a name that is one of the marked names."""
    return name + "*" * (name in marked)


def words(items: Iterable[Word]) -> str:
    """List words with their contributions, or with their weights if there is no row."""
    texts = (f"{w.name} {w.weight if w.product is None else w.product:+.3f}" for w in items)
    return ", ".join(text.replace(" ", _GLUE) for text in texts)


def print_tree(root: Tree) -> None:
    """Print a tree, wrapped at the width of the terminal."""
    from rich.console import Console

    console = Console(highlight=False)
    with console.capture() as captured:
        console.print(root)
    print(*(line.replace(_GLUE, " ").rstrip() for line in captured.get().splitlines()), sep="\n")


def escape_unprintable() -> None:
    """Escape characters that the terminal cannot show, instead of stopping at them."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
