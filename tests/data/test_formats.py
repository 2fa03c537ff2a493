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
from helpers import read_documents, read_text
from pyarrow import feather, ipc, parquet
from scipy import sparse

from labeltree import Dataset, InputError, describe_data, load, read_data
from labeltree.base.paths import data_files
from labeltree.data.columns import Columns
from labeltree.data.svm import read_svm, write_svm

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
    assert read_documents(path, columns=given).n_skipped == 1
    with pytest.raises(InputError, match=rf"d\.{kind}:2: the document has no labels"):
        read_documents(path, columns=given, strict=True)
    with pytest.raises(InputError, match=rf"d\.{kind}: the file has no column 'text', only 'title'"):
        read_data(path)
    with pytest.raises(InputError, match=rf"d\.{kind}:1: 'other' is a value of type bytes, expected a str"):
        read_documents(path, columns=Columns(text="other", labels="tags"))
    with pytest.raises(InputError, match=rf"d\.{kind}:1: 'key' is a number, expected a string"):
        read_documents(path, columns=Columns(text="key", labels="tags"))
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
    assert f"applies only to CSV, but the data is in {name} format" in message


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
        ("d.csv", zipped(["d.csv"]), "a ZIP archive or a spreadsheet, which cannot be read; unpack it, and"),
        ("d.xlsx", zipped(["d.xml"]), "a ZIP archive or a spreadsheet, .* or save it as CSV"),
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


# Annif and PECOS

PARIS, ROME = "http://example.org/paris", "http://example.org/rome"
CITIES = [("a journey\tto Paris", [PARIS]), ("from Rome to Paris", [ROME, PARIS]), ("nowhere", [])]
URIS = {
    "d.tsv": "".join(f"{text}\t{' '.join(f'<{uri}>' for uri in uris)}\n" for text, uris in CITIES[1:])
    + f"{CITIES[0][0]}\t<{PARIS}>\n",
    "plain.tsv": "".join(f"{text}\t{' '.join(uris)}\n" for text, uris in CITIES[1:] + CITIES[:1]),
    "d.csv": "text,subject_uris\n" + "".join(f"{text},{' '.join(uris)}\n" for text, uris in CITIES),
    "b.csv": "text,subject_uris\n"
    + "".join(f"{text},{' '.join(f'<{uri}>' for uri in uris)}\n" for text, uris in CITIES),
    "d.jsonl": "".join(
        json.dumps({"text": text, "subjects": [{"uri": uri, "label": "x"} for uri in uris]}) + "\n"
        for text, uris in CITIES
    ),
    "labels.csv": "text,labels\n" + "".join(f"{text},{' '.join(uris)}\n" for text, uris in CITIES),
    "first.tsv": "".join(f"{' '.join(f'<{uri}>' for uri in uris)}\t{text}\n" for text, uris in CITIES[::-1]),
}


@pytest.mark.parametrize("name", URIS)
def test_files_of_annif_are_read_as_they_are(tmp_path, name):
    (tmp_path / name).write_text(URIS[name])
    found = sorted((text, labels) for text, labels, _ in read_text(tmp_path / name))
    assert found == sorted(CITIES)
    data = read_data(tmp_path / name)
    assert data.label_names == (PARIS, ROME)
    assert describe_data(data)["warnings"] == []
    if name == "d.tsv":  # not read as id, labels and text
        (tmp_path / name).write_text(f"a\tb c\t<{PARIS}>\n")
        with pytest.raises(InputError, match="the last of three columns has URIs, where text") as caught:
            read_data(tmp_path / name)
        assert caught.value.parameters == {"text": 2, "labels": 3}
        (tmp_path / name).write_text("no subjects\t\n")
        assert [row.text for row in read_text(tmp_path / name, require_labels=False)] == ["no subjects"]


def test_uris_in_a_string_are_separated_by_spaces():
    for cell in ("<{}> <{}>", "{} {}", "{}, {}", "<{}>,<{}>"):
        assert Columns().split(",")(cell.format(PARIS, ROME)) == [PARIS, ROME]
    assert Columns().split(",")(f"see {PARIS}, a:b c") == [f"see {PARIS}", "a:b c"]
    assert Columns(separators=";").split(",")(f"{PARIS} {ROME}") == [f"{PARIS} {ROME}"]


def test_long_texts_with_uris_are_looked_at_in_no_time(tmp_path):
    (tmp_path / "d.tsv").write_text(f"a\t{'x://y' * 10_000} <<\n")
    assert read_data(tmp_path / "d.tsv").label_names == ("a",)


def test_files_of_pecos_are_read_as_they_are(tmp_path):
    (tmp_path / "d.tsv").write_text("3,7\tone two\n\tthree\n7\tone\n")
    assert [row[:2] for row in read_text(tmp_path / "d.tsv")] == [
        ("one two", ["3", "7"]),
        ("three", []),
        ("one", ["7"]),
    ]
    for text, features in (("one two", 2), ("1:0.5 3:1", 3)):  # LIBSVM may have a tab, too
        (tmp_path / "d.txt").write_text(f"3,7\t{text}\n7\t{text}\n")
        data = read_data(tmp_path / "d.txt")
        assert (data.n_features, data.text is not None) == (features, features == 2)
    (tmp_path / "d.tsv").write_text("1::2.0,5::1\tone two\n7::1e-3\tthree\n")
    data = read_data(tmp_path / "d.tsv")
    assert data.label_names == ("1", "5", "7")
    assert describe_data(data)["warnings"][0].startswith(
        "The relevance of labels, such as 2.0 in 1::2.0, was"
    )
    # Separators that are given count.
    assert read_data(tmp_path / "d.tsv", separator=" ").label_names == ("1::2.0,5::1", "7::1e-3")


TITLES = [f"{['Large', 'Small', 'Old', 'New'][i % 4]} study {i} of light number {i * i}" for i in range(60)]


def test_the_columns_of_tsv_can_be_numbered(tmp_path, run, refused):
    path, model = tmp_path / "d.tsv", tmp_path / "m"
    path.write_text("".join(f"{title}\tx{i % 7} y{i % 5}\n" for i, title in enumerate(TITLES)))
    message = refused("train", path, model)
    assert "d.tsv: it is not clear which of the two columns has the labels; number the columns" in message
    assert message.endswith("as in --text-column 1 and --label-column 2")
    data = read_data(path, labels=2, text=1)
    assert (data.n_instances, data.n_labels) == (60, 12)
    assert run("train", path, model, "--text-column", 1, "--label-column", 2, "--clusters", 2, "-q")[0] == 0
    assert json.loads(run("evaluate", model, path, "--json")[1])["unknown_labels"] == 0
    path.write_text("7\tred\tx y\tapples\n8\tblue\tz\twhales\n")
    columns = Columns(text=("2", "4"), labels="3", id="1")
    assert list(read_text(path, columns=columns)) == [
        ("red apples", ["x", "y"], "7"),
        ("blue whales", ["z"], "8"),
    ]
    for given, what in [
        (Columns(text="2"), "the text column has a number, but not the label column; set labels to its"),
        (Columns(text="5", labels="1"), r"d\.tsv:1: there is no column 5, only 4; correct text"),
    ]:
        with pytest.raises(InputError, match=what):
            read_documents(path, columns=given)
    path.write_text("7\tred\tx y\tapples\n8\tblue\tz\n")
    with pytest.raises(InputError, match=":2: expected id, text, labels and text separated by tabs, got 3"):
        read_documents(path, columns=columns)


@pytest.mark.parametrize(
    "columns",
    [
        (lambda i: f"x{i % 7} y{i % 5}", TITLES.__getitem__),
        (lambda i: f"{i} {i * i}", lambda i: f"word{i % 3}"),  # numbers
        (lambda i: f"<http://x.org/{i}>", lambda i: f"word{i % 3}"),
    ],
)
def test_labels_come_first_in_tsv(tmp_path, columns):
    (tmp_path / "d.tsv").write_text("".join("\t".join(cell(i) for cell in columns) + "\n" for i in range(60)))
    rows = list(read_text(tmp_path / "d.tsv"))
    assert [text for text, *_ in rows] == [columns[1](i) for i in range(60)]


# What is noted


def test_repeated_ids_and_nul_bytes_are_noted(tmp_path):
    lines = [f"{i % 59}\tx{i % 3}\tword{i % 5}{chr(0) * (i == 7)}\n" for i in range(60)]
    (tmp_path / "d.tsv").write_text("".join(lines))
    warnings = describe_data(read_data(tmp_path / "d.tsv"))["warnings"]
    assert warnings == [
        "1 document contains NUL bytes. Check that the text was exported completely.",
        "1 document has the ID of another. If they are copies, remove them.",
    ]


def test_rare_labels_are_dropped(tmp_path, run):
    rows = [*ROWS, ("word1", ["rare"]), ("word2", ["rare2", "t1"])]
    path, model = write(tmp_path / "d.csv", rows), tmp_path / "m"
    code, _, err = run("train", path, model, "--min-label-count", 2, "--clusters", 2)
    assert code == 0
    assert "62 rows, 1 without labels" in err
    assert "9, 1.95 per row, at most 2; 0 with one row, 2 rare ones dropped" in err
    assert load(model).n_labels == 9
    assert (
        json.loads(run("estimate", path, "--min-label-count", 2, "--json")[1])["data"]["dropped_labels"] == 2
    )
    options = ["--out", tmp_path / "t", "--min-label-count", 2, "--validation", 0.5]
    assert run("tune", path, *options, "--max-time", 0.001, "-q")[0] == 0
    assert json.loads((tmp_path / "t" / "settings.json").read_text())["min_label_count"] == 2
    write_svm(tmp_path / "d.svm", Dataset.from_matrices(np.eye(4), [[1, 0], [1, 0], [1, 0], [0, 1]]))
    assert run("train", tmp_path / "d.svm", model, "--min-label-count", 2, "--overwrite", "-q")[0] == 0
    assert load(model).label_names == ("0",)


@pytest.mark.parametrize(
    "names",
    [
        [f'"Title {i}"' for i in range(20)],
        [f'Study for "Title {i}" (detail)' for i in range(20)],
        [f"'Song {i}' and 'Song {i + 1}'" for i in range(20)],
        [f"[Letter {i}]" for i in range(20)],
        [f"http://x.org/a/{i}" for i in range(50)],
    ],
)
def test_titles_and_uris_are_no_mistakes(tmp_path, names):
    names = [*names, *(f"plain {i}" for i in range(len(names) + 2))]
    write(tmp_path / "d.jsonl", [(f"word{i % 7}", [names[i % len(names)]]) for i in range(300)])
    assert describe_data(read_data(tmp_path / "d.jsonl"))["warnings"] == []


def test_more_labels_than_rows_is_for_training(tmp_path, run):
    path, model = write(tmp_path / "d.jsonl", ROWS), tmp_path / "m"
    assert run("train", path, model, "--clusters", 2, "-q")[0] == 0
    write(tmp_path / "t.jsonl", [("word1", ["a", "b", "c"]), ("word2", ["t1"])])
    assert "more labels" not in run("evaluate", model, tmp_path / "t.jsonl")[2]


def test_swapped_arguments_of_train(tmp_path, refused):
    data = write(tmp_path / "d.csv", ROWS)
    (tmp_path / "old").mkdir()
    for model in ("old", "new"):
        message = refused("train", tmp_path / model, data)
        assert f"{data}: is a file, expected the directory of a model; pass the data first, then" in message
