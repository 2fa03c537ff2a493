"""The benchmark of reading text: it times labeltree and scikit-learn, and compares their features."""

import text


def test_the_features_are_compared(tmp_path):
    path = tmp_path / "d.tsv"
    path.write_text("0\ta\tone two\n1\tb\ttwo three\n")
    report = text.run(path, 2, 1)
    assert (report["documents"], report["terms"]) == (2, 3)
    names = ["labeltree, 1 thread", "labeltree, 2 threads", "read_text and TfidfVectorizer"]
    assert list(report["seconds"]) == list(report["cpu_seconds"]) == names


def test_synthetic_documents(tmp_path, monkeypatch):
    monkeypatch.setattr(text, "N_DOCUMENTS", 5)
    text.write_synthetic(tmp_path / "d.tsv")
    assert [len(labels) for _, labels in text.read_text(tmp_path / "d.tsv")] == [2] * 5
