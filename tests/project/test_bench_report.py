"""The comparison with other libraries: matrices, P@k, medians, ratios and tables, without the peers."""

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from labeltree import metrics, read_svm

PEERS = Path(__file__).resolve().parents[2] / "benchmarks" / "peers"


@pytest.fixture(autouse=True)
def bench(monkeypatch):
    monkeypatch.syspath_prepend(str(PEERS))


def row(competitor, number=1, dataset="toy", **figures):
    known = {
        "read_s": 0.5,
        "tree_s": 1.0,
        "train_s": 2.0,
        "peak_bytes": 100e6,
        "above_bytes": 40e6,
        "model_bytes": 5e6,
        "batch_ms": 0.02,
        "single_p50_ms": 0.1,
        "single_p99_ms": 0.3,
        "single_rows": 1000,
        "P@1": 80.0,
        "P@3": 60.0,
        "P@5": 50.0,
        "version": "1.0",
        "wall_s": 9.0,
    }
    frame = {
        "dataset": dataset,
        "competitor": competitor,
        "round": number,
        "threads": 2,
        "settings": "default",
    }
    return frame | known | figures


def failed(competitor, number=1, **reason):
    frame = {"dataset": "toy", "competitor": competitor, "round": number, "threads": 2, "settings": "default"}
    return frame | {"wall_s": 1.0} | reason


def test_medians_spread_and_runs():
    from summary import summarize

    rows = [row("labeltree", n, train_s=s) for n, s in ((1, 3.0), (2, 1.0), (3, 2.5))]
    figures = summarize(rows)["toy"]["labeltree"]
    assert figures["train_s"] == {"median": 2.5, "min": 1.0, "max": 3.0}
    assert figures["runs"] == 3
    even = summarize(rows[:2])["toy"]["labeltree"]
    assert (even["train_s"]["median"], even["runs"]) == (2.0, 2)


def test_competitors_in_registry_order_per_dataset():
    from summary import summarize

    rows = [row("napkinxc"), row("pecos", dataset="other"), row("pecos"), row("labeltree")]
    summary = summarize(rows)
    assert list(summary) == ["toy", "other"]
    assert list(summary["toy"]) == ["labeltree", "pecos", "napkinxc"]
    assert list(summary["other"]) == ["pecos"]


def test_failed_rows_do_not_count_as_runs_and_leave_a_remark():
    from summary import compare, summarize

    rows = [
        row("labeltree"),
        failed("pecos", error="killed"),
        row("labeltree-3-trees"),
        row("napkinxc"),
        failed("napkinxc", 2, error="stopped after 3600 s"),
        failed("pecos-unpruned", skipped="not enough memory"),
    ]
    figures = summarize(rows)["toy"]
    assert figures["pecos"]["runs"] == 0
    assert figures["pecos"]["train_s"] is None
    assert figures["pecos"]["remarks"] == ["killed"]
    assert figures["napkinxc"]["runs"] == 1
    assert figures["napkinxc"]["remarks"] == ["stopped after 3600 s"]
    assert figures["pecos-unpruned"]["remarks"] == ["not enough memory"]
    assert list(compare(figures)) == ["napkinxc"]


def test_comparison_by_medians():
    from summary import compare, summarize

    rows = [
        row("labeltree", 1, train_s=2.0),
        row("labeltree", 2, train_s=4.0),
        row("labeltree", 3, train_s=3.0, peak_bytes=100e6),
        row("pecos", train_s=12.0, batch_ms=0.01, single_p50_ms=None, peak_bytes=250e6, **{"P@1": 81.5}),
    ]
    comparison = compare(summarize(rows)["toy"])["pecos"]
    assert comparison["faster"] == {"train_s": 4.0, "batch_ms": 0.5, "single_p50_ms": None}
    assert comparison["difference"] == {"P@1": -1.5, "P@3": 0.0, "P@5": 0.0, "peak_bytes": -150e6}


@pytest.mark.parametrize("rows", [[row("pecos")], [failed("labeltree", error="killed"), row("pecos")]])
def test_nothing_to_compare_without_labeltree(rows):
    from summary import compare, summarize

    assert compare(summarize(rows)["toy"]) == {}


def test_numbers_and_cells():
    from report import cell, number

    assert [number(v) for v in (0, 0.02134, 0.9996, 12.84, 99.95, 1234.5, -3.0)] == [
        "0", "0.0213", "1.00", "12.8", "100", "1,234", "-3.00"
    ]  # fmt: skip
    assert cell(None) == "-"
    assert cell({"median": 2.0, "min": 1.0, "max": 3.0}) == "2.00 (1.00..3.00)"
    assert cell({"median": 2e6, "min": 2e6, "max": 2e6}, 1e-6) == "2.00"


def test_report_from_partial_rows(tmp_path):
    rows = [
        row("labeltree", 1, train_s=2.0),
        row("labeltree", 2, train_s=4.0),
        row("libmultilabel", train_s=300.0, single_rows=50),
        row("omikuji-parabel", tree_s=None),
        failed("pecos", error="killed"),
    ]
    text = "\n".join(map(json.dumps, rows)) + '\n\n{"dataset": "toy", "compet'  # an incomplete last line
    (tmp_path / "rows.jsonl").write_text(text)
    command = [sys.executable, PEERS / "report.py", tmp_path, "--no-plots"]
    subprocess.run(command, check=True, capture_output=True)
    lines = (tmp_path / "table.md").read_text().splitlines()
    table = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if "|" in line]
    cells = {name: values for name, *values in reversed(table)}  # the first table wins
    assert cells["labeltree"][:4] == ["2", "0.500", "1.00", "3.00 (2.00..4.00)"]
    assert cells["LibMultiLabel"][:4] == ["1", "0.500", "1.00", "300"]
    assert cells["omikuji (Parabel)"][2] == "-"
    assert cells["PECOS"] == ["0", *["-"] * 12]
    assert "- PECOS: default; killed" in lines
    assert "- LibMultiLabel 1.0: default; single queries over 50 rows" in lines
    ratios = [line for line in lines if line.startswith("| LibMultiLabel") and " x " in line]
    assert len(ratios) == 1
    assert "100 x" in ratios[0]
    results = json.loads((tmp_path / "results.json").read_text())
    assert results["datasets"]["toy"]["comparison"]["libmultilabel"]["faster"]["train_s"] == 100.0


def test_precision_agrees_with_labeltree():
    from measure import precision

    rng = np.random.default_rng(3)
    Y = sparse.csr_matrix(rng.random((40, 12)) < 0.2, dtype=np.float32)
    top = np.argsort(rng.random((40, 12)), axis=1)[:, :5].astype(np.int32)
    expected = {f"P@{k}": pytest.approx(100 * metrics.precision_at_k(Y, top, k)) for k in (1, 3, 5)}
    assert precision(Y, top) == expected


def test_precision_of_short_and_long_lists():
    from measure import precision

    Y = sparse.csr_matrix([[1, 0, 1, 0], [0, 0, 0, 1], [0, 0, 0, 0]], dtype=np.float32)
    assert precision(Y, [[0, 1, 2, 3], [], [3, 2]]) == {
        "P@1": pytest.approx(100 / 3),
        "P@3": pytest.approx(200 / 9),
        "P@5": pytest.approx(200 / 15),
    }


def test_prepared_matrices(tmp_path):
    from prepare import prepare

    source, out = tmp_path / "tiny", tmp_path / "out"
    source.mkdir()
    # Feature 2 and label 1 occur only in test; one row has no features, another no labels.
    (source / "train.svm").write_text("0,3 1:0.5 4:2\n3 3:1\n2\n 1:0.25\n")
    (source / "test.svm").write_text("1,2 1:1 2:7\n5 4:3 9:1\n")
    about = prepare(source, out, threads=1)
    X, Y, Xt, Yt = (sparse.load_npz(out / f"{name}.npz").toarray() for name in ("X", "Y", "Xt", "Yt"))
    assert X.tolist() == [[0.5, 0, 2], [0, 1, 0], [0, 0, 0], [0.25, 0, 0]]
    assert Y.tolist() == [[1, 0, 1], [0, 0, 1], [0, 1, 0], [0, 0, 0]]
    assert Xt.tolist() == [[1, 0, 0], [0, 0, 3]]
    assert Yt.tolist() == [[0, 1, 0], [0, 0, 0]]
    assert (about["train_rows"], about["test_rows"], about["features"], about["labels"]) == (4, 2, 3, 3)
    plain, headed = read_svm(out / "train.svm"), read_svm(out / "train.xmc")
    assert np.array_equal(plain.X.toarray(), X)
    assert np.array_equal(plain.Y.toarray(), Y)
    filled = [0, 1, 3]
    assert (out / "train.xmc").read_text().startswith("3 3 3\n0,2 0:0.5 2:2\n")
    assert np.array_equal(headed.X.toarray(), X[filled])
    assert np.array_equal(headed.Y.toarray(), Y[filled])


def test_matrices_are_rewritten_only_if_the_source_changed(tmp_path):
    from prepare import prepare

    source, out = tmp_path / "tiny", tmp_path / "out"
    source.mkdir()
    (source / "train.svm").write_text("0 1:1\n")
    (source / "test.svm").write_text("0 1:1\n")
    prepare(source, out)
    os.utime(out / "X.npz", ns=(0, 0))
    prepare(source, out)
    assert (out / "X.npz").stat().st_mtime_ns == 0
    (source / "train.svm").write_text("0 1:1\n0 1:2\n")
    assert prepare(source, out)["train_rows"] == 2
    assert (out / "X.npz").stat().st_mtime_ns > 0


def test_registry_and_variants():
    from registry import COMPETITORS, ENVIRONMENTS, PEERS, VARIANTS, choose

    assert [c.name for c in choose(["omikuji"], [])] == ["labeltree", "omikuji-parabel", "omikuji-bonsai"]
    assert [c.name for c in choose([], ["pecos-unpruned"])] == ["labeltree", "pecos-unpruned"]
    assert set(PEERS) == set(ENVIRONMENTS)
    assert not {c.name for c in choose(PEERS, [])} & set(VARIANTS)
    assert all(name == c.name for name, c in COMPETITORS.items())


def bench_run(data, out, *options):
    command = [
        sys.executable,
        PEERS / "run.py",
        data,
        "--out",
        out,
        "--peers",
        "",
        "--threads",
        "1",
        *options,
    ]
    return subprocess.run(list(map(str, command)), capture_output=True, text=True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--peers", "nobody"], "unknown peer 'nobody', expected one of: libmultilabel"),
        (["--datasets", "none"], "unknown dataset 'none', expected one of: toy"),
        (["--rounds", "0"], "rounds and threads must be at least 1"),
        ([], "already has rows; add --continue"),
        (["--continue"], "has rows with 2 threads"),
    ],
)
def test_refusals(tmp_path, options, message):
    (tmp_path / "data" / "toy").mkdir(parents=True)
    for split in ("train", "test"):
        (tmp_path / "data" / "toy" / f"{split}.svm").write_text("0 1:1\n")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "rows.jsonl").write_text(json.dumps(row("labeltree")) + "\n")
    result = bench_run(tmp_path / "data", tmp_path / "out", *options)
    assert result.returncode == 2
    assert message in result.stderr
    assert bench_run(tmp_path, tmp_path / "out").returncode == 2  # no dataset in that directory


def test_labeltree_alone_end_to_end(tmp_path, folder):
    """The driver, the runner and --continue, without peers and plots."""
    data = tmp_path / "data" / "toy"
    data.mkdir(parents=True)
    for split in ("train", "test"):
        (data / f"{split}.svm").write_bytes((folder / f"{split}.svm").read_bytes())
    out = tmp_path / "out"
    first = bench_run(tmp_path / "data", out, "--rounds", "1", "--no-plots")
    assert first.returncode == 0, first.stderr
    rows = [json.loads(line) for line in (out / "rows.jsonl").read_text().splitlines()]
    assert len(rows) == 1
    measured = rows[0]
    assert measured["train_s"] >= measured["tree_s"] > 0
    assert measured["peak_bytes"] > measured["above_bytes"] >= 0
    assert measured["model_bytes"] > 0
    assert 0 < measured["P@1"] <= 100
    assert measured["single_p99_ms"] >= measured["single_p50_ms"] > 0
    assert measured["read_s"] > 0
    again = bench_run(tmp_path / "data", out, "--rounds", "2", "--continue", "--no-plots")
    assert again.returncode == 0, again.stderr
    rounds = [json.loads(line)["round"] for line in (out / "rows.jsonl").read_text().splitlines() if line]
    assert rounds == [1, 2]
    results = json.loads((out / "results.json").read_text())
    assert results["datasets"]["toy"]["figures"]["labeltree"]["runs"] == 2


def test_descriptions_of_failures(tmp_path):
    from run import describe_failure

    log = tmp_path / "log"
    log.write_text("Examples 1 / 2\rExamples 2 / 2\nTraceback\nValueError: no such thing\n\n")
    assert describe_failure(1, log) == "ValueError: no such thing"
    assert describe_failure(-9, log) == "killed, probably out of memory"
    assert describe_failure(-11, log) == "killed by signal SIGSEGV"


@pytest.mark.skipif(not os.access("/proc/self/clear_refs", os.W_OK), reason="needs Linux")
def test_memory_of_loading_does_not_count_as_training():
    code = (
        "import numpy as np, measure; np.ones(25_000_000).sum(); loaded = measure.peak_bytes(); "
        "measure.reset_peak(); before = measure.resident_bytes(); np.ones(10_000_000).sum(); "
        "print(loaded, measure.peak_bytes() - before)"
    )
    command = [sys.executable, "-c", code]
    run = subprocess.run(command, cwd=PEERS, capture_output=True, text=True, check=True)
    loaded, above = map(int, run.stdout.split())
    assert loaded > 200e6
    assert 75e6 < above < 150e6  # 80e6 bytes, not 200e6


def test_published_tables_are_up_to_date():
    publish = importlib.import_module("publish")
    results = publish.load_results()
    for path, text in publish.render(results).items():
        assert path.read_text(encoding="utf-8") == text, (
            f"{path.name} is out of date; run `make bench-tables`"
        )


def test_published_sentences():
    publish = importlib.import_module("publish")
    rows = [
        row("labeltree", peak_bytes=50e6),
        row("libmultilabel", train_s=30.0, batch_ms=2.0, single_p50_ms=50.0),
        row("pecos", train_s=10.0, batch_ms=0.1, single_p50_ms=1.0, **{"P@5": 50.5}),
        row("omikuji-parabel", train_s=6.0),
        row("omikuji-bonsai", train_s=8.0),
        row("napkinxc", train_s=9.0),
    ]
    datasets = publish.collect_datasets(rows, {})
    speed = publish.speed_sentences(datasets)
    assert (
        "15 times as fast as LibMultiLabel, 5 times as fast as PECOS, 3 to 4 times as fast as omikuji"
        in speed
    )
    assert "batch prediction is at least 1 times as fast, and a single query at least" in speed
    assert publish.benefit_sentence(datasets).endswith("with precision within 0.5 points of the highest.")
    assert publish.precision_sentences(datasets) == "On toy, PECOS is higher by 0.50 points at P@5."
    assert "50 MB, compared with 100 MB for the next best" in publish.memory_sentence(datasets)
    sizes = publish.size_sentences({"toy": {"model_bytes": 1, "one_vs_rest_bytes": 8}})
    assert "12% of the space of one-vs-rest" in sizes
    assert "PECOS, omikuji and napkinXC prune small weights" in sizes


def test_a_block_is_replaced_between_its_markers():
    publish = importlib.import_module("publish")
    text = "a\n<!-- x:begin: how -->\nold\n<!-- x:end -->\nb\n"
    assert (
        publish.replace_block(text, "x", "new\n") == "a\n<!-- x:begin: how -->\n\nnew\n\n<!-- x:end -->\nb\n"
    )
    with pytest.raises(ValueError, match="0 blocks 'y'"):
        publish.replace_block(text, "y", "new")
