"""The benchmark of the kernels: it calls every kernel as the library does."""

import json

import kernels


def test_every_kernel_is_measured(monkeypatch, capsys):
    arguments = [
        "--scale",
        "0.01",
        "--repeats",
        "1",
        "--rows",
        "20",
        "--clusters",
        "5",
        "--threads",
        "1",
        "--json",
    ]
    monkeypatch.setattr("sys.argv", ["kernels.py", *arguments])
    kernels.main()
    report = json.loads(capsys.readouterr().out)
    measured = {row["name"]: row for row in report["kernels"]}
    expected = ["reader", "label vectors", "K-means", "plan", "training", "beam search, batch"]
    assert set(expected) <= set(measured)
    assert all(row["seconds"] > 0 and row["processor_seconds"] >= 0 for row in measured.values())
