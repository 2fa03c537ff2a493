"""The import graph: no cycles, and packages in the order of the data."""

from imports import ORDER, SOURCE, cycle, import_graph, violations

IGNORED = {"py.typed", "_native.pyi", "_version.py", "__pycache__"}


def test_every_package_has_its_place():
    placed = {name for packages in ORDER for name in packages}
    assert {name.partition(".")[0] for name in import_graph()} <= placed


def test_no_cycles():
    assert cycle(import_graph(types=False)) == []


def test_imports_go_one_way():
    assert violations(import_graph()) == []


def test_violations_are_found(tmp_path):
    (tmp_path / "cli").mkdir()
    (tmp_path / "cli" / "app.py").write_text("def main():\n    from labeltree.model import layout\n")
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "layout.py").write_text("def show():\n    from labeltree.cli.app import main\n")
    graph = import_graph(tmp_path)
    assert set(cycle(graph)) == {"cli.app", "model.layout"}
    assert violations(graph) == [("model.layout", "cli.app")]


def test_rooms_are_small():
    entries = [path for path in SOURCE.iterdir() if path.name not in IGNORED and path.suffix != ".so"]
    assert len(entries) <= 20
    for folder in SOURCE.rglob("*"):
        if folder.is_dir() and folder.name not in ("__pycache__", "commands"):
            assert len(list(folder.glob("*.py"))) <= 16, f"{folder}: more than 15 modules beside __init__"
