"""The import graph: no cycles, and the spine depends on no wing."""

from imports import cycle, import_graph, spine_to_wing


def test_the_graph_is_complete():
    graph = import_graph()
    assert {"data", "model", "text.tfidf", "cli.app", "paper.theory"} <= set(graph)
    assert {"_native", "data", "tree"} <= graph["plan"]


def test_no_cycles():
    assert cycle(import_graph()) == []


def test_the_spine_depends_on_no_wing():
    assert spine_to_wing(import_graph()) == []


def test_violations_are_found(tmp_path):
    (tmp_path / "cli").mkdir()
    (tmp_path / "cli" / "app.py").write_text("def main():\n    from labeltree import plan\n")
    (tmp_path / "plan.py").write_text("def show():\n    from labeltree.cli.app import main\n")
    graph = import_graph(tmp_path)
    assert set(cycle(graph)) == {"cli.app", "plan"}
    assert spine_to_wing(graph) == [("plan", "cli.app")]
