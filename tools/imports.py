"""Print which modules of labeltree import which: the spine, the wings, and any cycle.

    python tools/imports.py

Every import counts, also those inside functions and under TYPE_CHECKING. The package's own `__init__`, which
offers the public names, is left out.
"""

from __future__ import annotations

import ast
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1] / "src" / "labeltree"
# Packages named after a user's task. All other modules are the spine, with `text` as a part of reading.
WINGS = (
    "annif",
    "cli",
    "dask",
    "datasets",
    "estimators",
    "explain",
    "figures",
    "hub",
    "paper",
    "serve",
    "trees",
    "tuning",
)


def import_graph(source: Path = SOURCE) -> dict[str, set[str]]:
    """Return the modules that each module imports, by their names below the package."""
    files = {_name(source, path): path for path in source.rglob("*.py") if path != source / "__init__.py"}
    known = {*files, "_native"}
    return {name: _imports(path, known) - {name} for name, path in sorted(files.items())}


def wing(module: str) -> str | None:
    """Return the wing that a module belongs to; None for the spine."""
    package = "cli" if module == "__main__" else module.partition(".")[0]
    return package if package in WINGS else None


def cycle(graph: dict[str, set[str]]) -> list[str]:
    """Return the modules of one import cycle; empty if there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def spine_to_wing(graph: dict[str, set[str]]) -> list[tuple[str, str]]:
    """Return the imports of wings by modules of the spine."""
    pairs = ((name, used) for name, imported in graph.items() for used in sorted(imported))
    return [(name, used) for name, used in pairs if wing(name) is None and wing(used) is not None]


def _name(source: Path, path: Path) -> str:
    parts = path.relative_to(source).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imports(path: Path, known: set[str]) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("labeltree"):
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                names.append(inner if inner.removeprefix("labeltree.") in known else node.module)
        found |= {name.removeprefix("labeltree.") for name in names if name.startswith("labeltree.")}
    return found & known


def main() -> int:
    """Print the graph; the exit code is 1 if it has a cycle or the spine imports a wing."""
    graph = import_graph()
    loop = cycle(graph)
    order = (
        sorted(graph) if loop else [name for name in TopologicalSorter(graph).static_order() if name in graph]
    )
    for title, chosen in (("spine", None), *((name, name) for name in WINGS)):
        print(f"{title}:")
        for name in order:
            if name in graph and wing(name) == chosen:
                print(f"  {name}: {', '.join(sorted(graph[name])) or '-'}")
    wrong = spine_to_wing(graph)
    print(f"cycle: {' -> '.join(loop) or 'none'}")
    print(f"spine imports of wings: {', '.join(f'{a} -> {b}' for a, b in wrong) or 'none'}")
    return int(bool(loop or wrong))


if __name__ == "__main__":
    sys.exit(main())
