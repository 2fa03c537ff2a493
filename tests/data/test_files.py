"""Files as people have them: several, Parquet and Arrow, matrices, archives, and those of Annif and PECOS."""

import csv
import gzip
import io
import json
import sys
import tarfile
import zipfile

import numpy as np
import pyarrow
import pytest
from pyarrow import feather, ipc, parquet
from scipy import sparse

from labeltree import InputError, load, read_data, write_svm
from labeltree.data.columns import Columns
from labeltree.data.paths import data_files
from labeltree.data.records import read_text
from labeltree.data.svm import read_svm

ROWS = [(f"word{i % 7} common{i % 3}", [f"t{i % 5}", f"u{i % 4}"]) for i in range(60)]
BINARY = ("parquet", "arrow", "feather")


def write(path, rows, title=("text", "labels")):
    """Write documents in the format of the name of a file, and return its path."""
    kind = path.name.split(".")[1]
    if kind in BINARY:
        table = pyarrow.table(dict(zip(title, zip(*rows, strict=True), strict=True)))
        save = {"parquet": parquet.write_table, "feather": feather.write_feather}.get(kind, write_stream)
        save(table, path)
        return path
    text = io.StringIO()
    if kind == "csv":
        csv.writer(text).writerows([title, *((text, ",".join(labels)) for text, labels in rows)])
    for document, labels in rows if kind != "csv" else ():
        text.write(
            json.dumps(dict(zip(title, (document, labels), strict=True)))
            if kind == "jsonl"
            else f"{' '.join(labels)}\t{document}"
        )
        text.write("\n")
    content = text.getvalue().encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def write_stream(table, path):
    """Write an Arrow stream, as Hugging Face datasets do."""
    with ipc.new_stream(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=7)


def same(one, other):
    return (
        one.label_names == other.label_names
        and one.text.names == other.text.names
        and (one.X != other.X).nnz == (one.Y != other.Y).nnz == 0
    )


# Several files


@pytest.mark.parametrize("kind", ["tsv", "csv", "jsonl", "jsonl.gz", "parquet", "arrow", "feather"])
def test_several_files_are_one_dataset(tmp_path, run, kind):
    whole = read_data(write(tmp_path / "whole.csv", ROWS))
    parts = [
        write(tmp_path / f"part-{at}.{kind}", ROWS[start : start + 25])
        for at, start in enumerate((0, 25, 50))
    ]
    reported = []
    assert same(whole, read_data(parts, progress=reported.append))
    assert reported == sorted(reported)
    assert all(0 <= part <= 1 for part in reported)
    assert same(whole, read_data(tmp_path / "part-*"))
    assert data_files(f"{tmp_path}/part-[01]*") == tuple(map(str, parts[:2]))
    model = tmp_path / "model"
    assert run("train", *parts, model, "--clusters", 2, "-q")[0] == 0
    assert same(whole, read_data(parts, like=load(model)))
    assert json.loads(run("evaluate", model, *parts, "--json")[1])["rows"] == 60
    out = run("predict", model, tmp_path / "part-*", "--format", "jsonl", "--top", 1, "-q")[1]
    assert [json.loads(line)["row"] for line in out.splitlines()] == list(range(60))
    assert run("estimate", *parts, "-q")[0] == 0
    assert run("convert", *parts, tmp_path / "c.svm", "-q")[0] == 0


def test_several_libsvm_files_are_one_dataset(tmp_path, monkeypatch):
    lines = ["0,2 2:1 5:0.5", "1 3:1", "\n".join(["2 1:1", "1 2:0.25"]), "3 7:1"]
    whole, files = tmp_path / "whole.svm", [tmp_path / f"{i}.svm" for i in range(4)]
    whole.write_text("\n".join(lines))
    for file, text, before, end in zip(
        files, lines, ("", "\ufeff", "", ""), ("", "\n", "\r\n\n\n", "\n"), strict=True
    ):
        file.write_text(before + text + end)
    expected = read_svm(whole)
    for piece_bytes in (1 << 20, 5):
        monkeypatch.setattr("labeltree.data.svm._PIECE_BYTES", piece_bytes)
        found = read_data(files)
        assert (found.X != expected.X).nnz == (found.Y != expected.Y).nnz == 0
        assert found.one_based == expected.one_based
    files[2].write_text("2 1:1\n1 2:x\n")
    with pytest.raises(InputError, match=r"2\.svm:2: expected a number after the colon, got '2:x'"):
        read_data(files)
    files[2].write_text("1 7 4\n2 1:1\n")
    with pytest.raises(InputError, match=r"2\.svm:1: .*; remove the header; several files have none"):
        read_data(files)


def test_mistakes_in_one_of_several_files_name_it(tmp_path, refused):
    good = write(tmp_path / "a.csv", ROWS)
    other = write(tmp_path / "b.csv", ROWS, ("text", "tags"))
    with pytest.raises(InputError, match=r"b\.csv:1: the header has no column 'labels'"):
        read_data([good, other])
    message = refused("train", good, write(tmp_path / "c.tsv", ROWS), tmp_path / "m")
    assert f"c.tsv: the format is tsv, but that of {good} is csv; pass files of one format" in message
    assert "x-*.csv: no file matches this pattern" in refused("estimate", tmp_path / "x-*.csv")
    (tmp_path / "d.tsv").write_text("1\ta b\ttext\n")
    with pytest.raises(InputError, match=r"d.tsv:1: expected labels and text separated by tabs as in the fi"):
        read_data([tmp_path / "c.tsv", tmp_path / "d.tsv"])
    assert "missing argument 'MODEL'" in refused("train", good)


@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_a_header_inside_joined_files_is_refused(tmp_path, mark):
    path = tmp_path / "d.csv"
    path.write_text('text,labels\n"a\nb",x\n' + mark + "text,labels\nc,y\n")
    with pytest.raises(InputError, match=r"d\.csv:4: the header occurs again; remove this line, or pass"):
        read_data(path)
    path.write_text("text\na\ntext\n")  # a word
    assert [text for text, *_ in read_text(path, require_labels=False)] == ["a", "text"]


# Parquet and Arrow


@pytest.mark.parametrize("kind", BINARY)
def test_columnar_files(tmp_path, run, refused, kind):
    labels = [["a", "b, c"], [], None, ["a", None], ["b, c"]]
    columns = {"title": ["one", None, "two", None, "three"], "body": ["x y", "z", None, None, "x"]}
    columns |= {"tags": labels, "key": [7, 8, 9, 10, 11], "other": [b"\xff"] * 5}
    table, path = pyarrow.table(columns), tmp_path / f"d.{kind}"
    {"parquet": parquet.write_table, "feather": feather.write_feather}.get(kind, write_stream)(table, path)
    named = {"text": ["title", "body"], "labels": "tags", "id": "key"}
    given = Columns(**{**named, "text": ("title", "body")})
    texts = ["one x y", "z", "two", "", "three x"]
    expected = [["a", "b, c"], [], [], ["a"], ["b, c"]]
    rows = list(zip(texts, expected, map(str, columns["key"]), strict=True))
    assert list(read_text(path, columns=given)) == rows
    assert read_data(path, **named).n_skipped == 1
    with pytest.raises(InputError, match=rf"d\.{kind}:2: the document has no labels"):
        read_data(path, **named, strict=True)
    with pytest.raises(InputError, match=rf"d\.{kind}: the file has no column named 'text', only 'title'"):
        read_data(path)
    with pytest.raises(InputError, match=rf"d\.{kind}:1: 'other' is a value of type bytes, expected a str"):
        read_data(path, labels="tags", text="other")
    with pytest.raises(InputError, match=rf"d\.{kind}:1: 'key' is a number, expected a string"):
        read_data(path, labels="tags", text="key")
    options = ["--text-column", "title", "--text-column", "body", "--label-column", "tags", "--clusters", 2]
    assert run("train", path, tmp_path / "m", *options, "-q")[0] == 0
    out = run("predict", tmp_path / "m", path, "--id-column", "key", "--format", "jsonl", "--top", 1, "-q")[1]
    answers = [json.loads(line) for line in out.splitlines()]
    assert [row["id"] for row in answers] == ["7", "8", "9", "10", "11"]
    assert [len(row["labels"]) for row in answers] == [1, 0, 1, 0, 1]
    code, _, err = run("predict", tmp_path / "m", path, "--strict", "-q")
    assert (code, f"d.{kind}:4: the document has no text" in err) == (2, True)
    name = "Parquet" if kind == "parquet" else "Arrow"
    message = refused("estimate", path, "--delimiter", ";")
    assert f"--delimiter applies only to CSV, but DATA is in {name} format" in message


def test_labels_of_columnar_files_may_be_strings(tmp_path):
    table = pyarrow.table({"text": ["one", "two"], "labels": pyarrow.array(["a;b", "c"]).dictionary_encode()})
    parquet.write_table(table, tmp_path / "d")
    found = read_data(tmp_path / "d", format="parquet", separator=";")
    assert found.label_names == ("a", "b", "c")
    with pytest.raises(InputError, match="the file is a Parquet file, which cannot be read; set format"):
        read_data(tmp_path / "d")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("d.parquet", b"text,labels\n", "cannot be read as Parquet"),
        ("d.arrow", b"", "cannot be read as Arrow"),
        (
            "d.parquet.gz",
            b"\x1f\x8b",
            "compressed or from a pipe, which cannot be read; pass a plain",
        ),
    ],
)
def test_damaged_columnar_files(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=message):
        read_data(tmp_path / name)


def test_missing_columnar_files(tmp_path, refused, monkeypatch):
    assert "d.parquet: no such file" in refused("estimate", tmp_path / "d.parquet")
    assert "standard input: the file is compressed or from a pipe" in refused(
        "estimate", "-", "--data-format", "parquet"
    )
    write(tmp_path / "d.parquet", ROWS)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    message = refused("estimate", tmp_path / "d.parquet")
    assert (
        "this needs pyarrow, which is not installed; install it with: pip install 'labeltree[parq" in message
    )


# Other formats


def zipped(names):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name in names:
            archive.writestr(name, "text,labels\n")
    return content.getvalue()


def tarred():
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("d.csv"))
    return content.getvalue()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("d.xlsx", b"", "the file is an Excel workbook, which cannot be read; save it as CSV"),
        ("d.ODS", b"", "an OpenDocument spreadsheet, which cannot be read; save it as CSV"),
        ("d.csv.zip", b"", "a ZIP archive, which cannot be read; unpack it, and pass the files in it"),
        ("d.csv", zipped(["d.csv"]), "a ZIP archive or a spreadsheet, which cannot be read; unpack it, and"),
        ("d", b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
        ("d.tar.gz", b"", "a tar archive"),
        ("d.svm", tarred(), "a tar archive"),
        ("d.tsv", bytes.fromhex("d0cf11e0a1b11ae1"), "an Excel workbook"),
    ],
)
def test_archives_and_spreadsheets_are_named(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=f"d.*: the file is .*{message.removeprefix('the file is ')}"):
        read_data(tmp_path / name)


def test_matrices(tmp_path, run, refused):
    rng = np.random.default_rng(0)
    X = sparse.csr_matrix(np.round(rng.random((40, 6)), 2) * (rng.random((40, 6)) < 0.5))
    Y = sparse.csr_matrix(np.eye(5, dtype=int)[np.arange(40) % 5])
    x, y, model = tmp_path / "X.npz", tmp_path / "Y.npz", tmp_path / "m"
    sparse.save_npz(x, X)
    sparse.save_npz(y, Y)
    found = read_data([x, y])
    assert (X.astype(np.float32) != found.X).nnz == (found.Y != Y).nnz == 0
    assert run("train", x, y, model, "--clusters", 2, "-q")[0] == 0
    assert json.loads(run("evaluate", model, x, y, "--json")[1])["rows"] == 40
    write_svm(tmp_path / "d.svm", found, header=True)
    expected = run("predict", model, tmp_path / "d.svm", "-q")[1]
    assert run("predict", model, x, "-q")[1] == expected
    assert run("convert", tmp_path / "d.svm", tmp_path / "c.npz", "-q")[0] == 0
    assert (read_data(tmp_path / "c.npz").Y != Y).nnz == 0
    assert "X.npz: the file has features only; add the file with the labels" in refused("estimate", x)
    assert "there are 3 .npz files, expected two" in refused("estimate", x, y, x)
    assert "X has 40 rows and Y has 5" in refused("estimate", x, save_small(tmp_path / "Z.npz"))
    (tmp_path / "w.npz").write_bytes(b"PK")
    assert "w.npz: the file is not a sparse matrix" in refused("estimate", tmp_path / "w.npz")
    np.savez(tmp_path / "w.npz", X.toarray())
    assert "w.npz: the file is not a sparse matrix" in refused("estimate", tmp_path / "w.npz")


def save_small(path):
    sparse.save_npz(path, sparse.eye(5, format="csr"))
    return path


def test_names_alone_are_no_query_of_features(folder, refused, monkeypatch, tmp_path):
    (tmp_path / "d.svm").write_text("Venice\nRome\n")
    message = refused("predict", folder / "model", tmp_path / "d.svm")
    assert "d.svm: no row has any features (expected index:value pairs)" in message
