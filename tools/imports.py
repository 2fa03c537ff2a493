"""Print the packages of labeltree in the order of their imports, and what breaks it.

    python tools/imports.py

Data flows one way: a module imports from its own package and from those before it. Imports inside functions
and under TYPE_CHECKING count, too; the few that reach upward are listed here one by one. A cycle is one of
imports that are run.
"""

from __future__ import annotations

import ast
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1] / "src" / "labeltree"
# Packages on one line may not import each other.
ORDER = (
    ("_version", "_native", "errors", "settings", "base"),
    ("data",),
    ("trees",),
    ("evaluation",),
    ("model",),
    ("training",),
    ("explain",),
    ("tuning", "paper", "serve"),
    ("hub",),
    ("verbs",),
    ("estimators", "dask", "annif"),
    ("cli",),
    ("__main__",),
)
# Imports inside functions that reach upward, and why.
UPWARD = {
    ("training.train", "dask.cluster"): "the argument `dask` of `labeltree.train`",
    ("model.model", "explain.prediction"): "`Model.explain`",
    ("model.model", "explain.label"): "`Model.label`",
    ("model.model", "explain.overview"): "`Model.info`",
    ("model.model", "tuning.folds"): "`Model.compress` with training data",
}


def import_graph(source: Path = SOURCE, *, types: bool = True) -> dict[str, set[str]]:
    """Return the modules that each module imports, by their names below the package.

    Without ``types``, imports under TYPE_CHECKING are left out: they are never run.
    """
    files = {_name(source, path): path for path in source.rglob("*.py") if path != source / "__init__.py"}
    known = {*files, "_native"}
    return {name: _imports(path, known, types) - {name} for name, path in sorted(files.items())}


def cycle(graph: dict[str, set[str]]) -> list[str]:
    """Return the modules of one import cycle; empty if there is none; `UPWARD` may close one."""
    try:
        sorter = TopologicalSorter[str]()
        for name, imported in graph.items():
            sorter.add(name, *(used for used in imported if (name, used) not in UPWARD))
        sorter.prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def violations(graph: dict[str, set[str]]) -> list[tuple[str, str]]:
    """Return the imports against the order, except those listed in UPWARD."""
    pairs = [(name, used) for name, imported in graph.items() for used in sorted(imported)]
    return [pair for pair in pairs if _reaches_upward(*pair) and pair not in UPWARD]


def _reaches_upward(name: str, used: str) -> bool:
    package, other = name.partition(".")[0], used.partition(".")[0]
    return package != other and _floor(other) >= _floor(package) and _floor(other) > 0


def _floor(package: str) -> int:
    return next(number for number, packages in enumerate(ORDER) if package in packages)


def _name(source: Path, path: Path) -> str:
    parts = path.relative_to(source).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imports(path: Path, known: set[str], types: bool) -> set[str]:
    found = set()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    if not types:
        tree.body = [node for node in tree.body if not _is_type_checking(node)]
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("labeltree"):
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                names.append(inner if inner.removeprefix("labeltree.") in known else node.module)
        found |= {name.removeprefix("labeltree.") for name in names if name.startswith("labeltree.")}
    return found & known


def _is_type_checking(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def main() -> int:
    """Print the order; the exit code is 1 if an import breaks it or there is a cycle."""
    graph = import_graph()
    for packages in ORDER:
        for package in packages:
            modules = [name for name in graph if name.partition(".")[0] == package]
            print(f"{package}: {', '.join(name.partition('.')[2] or name for name in modules)}")
    loop, wrong = cycle(import_graph(types=False)), violations(graph)
    print(f"cycle: {' -> '.join(loop) or 'none'}")
    print(f"against the order: {', '.join(f'{a} -> {b}' for a, b in wrong) or 'none'}")
    return int(bool(loop or wrong))


if __name__ == "__main__":
    sys.exit(main())
