"""Every format gives the same documents, and errors name the file and the line."""

import bz2
import csv
import functools
import gzip
import io
import json
import lzma

import numpy as np
import pytest
import text_twin
from helpers import examples, read_documents, read_text
from hypothesis import given
from hypothesis import strategies as st

from labeltree import InputError, TextSettings
from labeltree.base.paths import format_of
from labeltree.data.columns import Columns
from labeltree.data.records import _PIECE_BYTES

DOCUMENTS = [("one two", ["a", "b"]), ("Größe, “drei”", ["c"]), ("", []), ("four", ["a"])]


def tsv(documents):
    return "".join(f"{i}\t{' '.join(labels)}\t{text}\n" for i, (text, labels) in enumerate(documents))


def as_csv(documents, separator=","):
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(["id", "labels", "text"])
    writer.writerows((i, separator.join(labels), text) for i, (text, labels) in enumerate(documents))
    return out.getvalue()


def jsonl(documents):
    return "".join(json.dumps({"labels": labels, "text": text}) + "\n" for text, labels in documents)


@pytest.mark.parametrize(("ending", "written"), [("tsv", tsv), ("csv", as_csv), ("jsonl", jsonl)])
@pytest.mark.parametrize(
    ("suffix", "pack"), [("", bytes), (".gz", gzip.compress), (".bz2", bz2.compress), (".xz", lzma.compress)]
)
def test_formats_and_compressions_give_the_same_documents(tmp_path, ending, written, suffix, pack):
    path = tmp_path / f"d.{ending}{suffix}"
    path.write_bytes(pack(written(DOCUMENTS).encode()))
    assert [document[:2] for document in read_text(path)] == DOCUMENTS


@examples(50)
@given(
    st.lists(
        st.tuples(
            st.text(st.characters(exclude_categories=["Cs"])),
            st.lists(st.text(st.characters(categories=["L", "N"]), min_size=1), max_size=3),
        ),
        min_size=1,
        max_size=5,
    )
)
def test_csv_and_jsonl_keep_any_text(tmp_path_factory, documents):
    place = tmp_path_factory.mktemp("any")
    lines = [(text.replace("\r", " "), labels) for text, labels in documents]  # line ends become \n in CSV
    (place / "d.csv").write_bytes(as_csv(lines).replace("\r\n", "\n").encode())
    assert [document[:2] for document in read_text(place / "d.csv")] == lines
    (place / "d.jsonl").write_text(jsonl(documents))
    assert [document[:2] for document in read_text(place / "d.jsonl")] == documents


def test_formats_are_detected_from_the_name():
    names = ("a.tsv", "a.CSV.gz", "a.jsonl.xz", "a.ndjson", "a.json", "a.svm.bz2", "a.txt", "-", "a")
    expected = ["tsv", "csv", "jsonl", "jsonl", "jsonl", "svm", None, None, None]
    assert [format_of(name) for name in names] == expected


def read(tmp_path, name, content, *arguments, **options):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return [document[:2] for document in read_text(path, *arguments, **options)]


def test_tsv_files_of_libmultilabel(tmp_path):
    assert read(tmp_path, "d.tsv", '1\ta  b\t"quoted" text\r\n\n2\t\tmore\ttabs\n') == [
        ('"quoted" text', ["a", "b"]),
        ("more\ttabs", []),
    ]
    assert read(tmp_path, "d.tsv", "\ufeffa b\tone\nc\ttwo") == [("one", ["a", "b"]), ("two", ["c"])]
    assert read(tmp_path, "d.tsv", "one\n\ntwo\n", require_labels=False) == [
        ("one", []),
        ("", []),
        ("two", []),
    ]
    assert read(tmp_path, "d.tsv", "1\tx y;z\tt\n", None, Columns(separators=(";",)))[0][1] == ["x y", "z"]


@pytest.mark.parametrize(
    ("separators", "labels", "expected"),
    [
        (None, " a b, c ,,", ["a b", "c"]),
        (None, "a \t b,c", ["a b", "c"]),
        ((";",), "a;b,c", ["a", "b,c"]),
        ((" ",), "a\tb  c", ["a", "b", "c"]),
        ((" ", "\t"), "a\tb  c", ["a", "b", "c"]),
        ((";", "|"), "a|b ; c d", ["a", "b", "c d"]),
        ((";", " "), "a;b  c", ["a", "b", "c"]),
        (("||",), "a||b|c", ["a", "b|c"]),
        ((".",), "a.b", ["a", "b"]),
    ],
)
def test_label_separators(tmp_path, separators, labels, expected):
    columns = Columns("body", "tags", separators)
    assert read(tmp_path, "d.csv", f'body,tags\nt,"{labels}"\n', None, columns) == [("t", expected)]
    line = json.dumps({"tags": labels, "body": "t"})
    assert read(tmp_path, "d.jsonl", line, None, columns) == [("t", expected)]


def test_labels_in_json_are_lists_strings_numbers_or_nothing(tmp_path):
    given = ('[1, "b, c"]', "7", "null", '"x,y"', "[]", '["x", null]', "[null]")
    lines = [f'{{"text": "t", "labels": {labels}}}' for labels in given]
    expected = [["1", "b, c"], ["7"], [], ["x", "y"], [], ["x"], []]
    assert [labels for _, labels in read(tmp_path, "d.jsonl", "\n\n".join(lines))] == expected
    with pytest.raises(InputError, match=":1: 'labels' contains null; correct it, or remove strict"):
        read(tmp_path, "d.jsonl", lines[5], strict=True)
    assert read(tmp_path, "d.jsonl", lines[5], strict=True, require_labels=False) == [("t", ["x"])]


def test_labels_are_optional_for_prediction(tmp_path):
    assert read(tmp_path, "d.csv", "text\none\n", require_labels=False) == [("one", [])]
    assert read(tmp_path, "d.jsonl", '{"text": "one"}', require_labels=False) == [("one", [])]
    assert read(tmp_path, "d.txt", "one\r\n\nb", "txt", require_labels=False) == [
        ("one", []),
        ("", []),
        ("b", []),
    ]


def test_long_fields_and_lines_across_pieces(tmp_path):
    limit = csv.field_size_limit()
    texts = ["ü" * (3 * _PIECE_BYTES // 4), "b" * _PIECE_BYTES, "c"]
    assert [text for text, _ in read(tmp_path, "d.csv", as_csv([(text, ["a"]) for text in texts]))] == texts
    assert [text for text, _ in read(tmp_path, "d.tsv", tsv([(text, ["a"]) for text in texts]))] == texts
    assert csv.field_size_limit() == limit


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("d.tsv", b"1\ta\tone\n2\ta\t\xfftwo\n", ":2: the byte 0xff is not UTF-8"),
        ("d.csv", b'text,labels\n"a\nb",x\n"c\n\xe9",x\n', ":5: the byte 0xe9 is not UTF-8"),
        ("d.jsonl", b"{}\xc3", ":1: the byte 0xc3 is not UTF-8"),
        ("d.tsv", "1\ta\tone\n2\ttwo\n", ":2: expected id, labels and text separated by tabs, got 2 columns"),
        (
            "d.tsv",
            "one\n",
            ":1: expected labels and text, or id, labels and text, separated by tabs, got 1 column",
        ),
        ("d.csv", "id,body,tags\n", ":1: the header has no column 'text', only 'id', 'body', 'tags'"),
        ("d.csv", "text,tags\n", ":1: the header has no column 'labels'"),
        ("d.csv", "text,tags\n", "set the name of the label column (labels)"),
        (
            "d.csv",
            "body~tags\n",
            "(text), or the character between columns (delimiter)",
        ),
        ("d.csv", "", ": the file is empty; check"),
        ("d.csv", "\ntext,labels\n", ":1: the first line is empty, expected a header"),
        ("d.csv", "text,labels,text\n", ":1: the header has 2 columns named 'text'"),
        ("d.csv", 'text,labels\n"a\nb",x\n1,2,3\n', ":4: the record has 3 fields, expected 2"),
        ("d.csv", 'text,labels\na,b\n"a,b\nc,d\n', ":3: not a CSV record"),
        (
            "d.jsonl",
            '\n{"text": "t"}\n',
            ":2: the object has no 'labels', only 'text'",
        ),
        ("d.jsonl", '{"labels": []}\n', ":1: the object has no 'text', only 'labels'"),
        ("d.jsonl", "\n{text\n", ":2: not JSON"),
        ("d.jsonl", "[" * 100_000, ":1: not JSON"),
        ("d.json", '[{"text": "t", "labels": []}]\n', ":1: expected a JSON object, got a list"),
        ("d.jsonl", '{"text": 3, "labels": []}\n', ":1: 'text' is a number, expected a string"),
        ("d.jsonl", '{"text": "", "labels": [true]}\n', ":1: 'labels' contains a boolean"),
        ("d.jsonl", '{"text": "", "labels": [{}]}\n', ":1: 'labels' contains an object"),
        ("d.jsonl", '{"text": "", "labels": {}}\n', ":1: 'labels' is an object, expected a string"),
        ("d.jsonl", '{"text": "", "labels": 1.5}\n', ":1: 'labels' is a number, expected a string, an"),
        ("d.jsonl", "{}\n", ":1: the object has no 'text'; add it"),
        ("d.jsonl", '{"text": "\\ud800", "labels": []}\n', ":1: the document contains an unpaired surrogate"),
        ("d.tsv.gz", gzip.compress(b"1\ta\tone\n" * 99, mtime=0)[:-9], "truncated or damaged"),
    ],
)
def test_invalid_files(tmp_path, name, content, message):
    with pytest.raises(InputError) as caught:
        read(tmp_path, name, content)
    assert str(caught.value).startswith(str(tmp_path / name))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_invalid_formats_and_separators():
    with pytest.raises(InputError, match=r"plain text .* has no labels"):
        read_documents("-", "txt")
    with pytest.raises(InputError, match="label separator is empty"):
        Columns(separators=("",))


def test_a_string_is_one_separator(tmp_path):
    labels = Columns(separators="; ").split(",")
    assert labels("man, old; a;b") == ["man, old", "a;b"]
    assert Columns(separators=["; ", "|"]) == Columns(separators=("; ", "|"))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"text": 3}, "text is a number, expected a string or several"),
        ({"text": ["a", None]}, "text contains null, expected only strings"),
        ({"text": []}, "there is no text column"),
        ({"labels": ["a", "b"]}, "labels is a list, expected a string"),
        ({"labels": None}, "labels is null, expected a string"),
        ({"separators": 3}, "separator is a number"),
        ({"id": 3}, "id is a number"),
        ({"delimiter": 3}, "delimiter is a number"),
        ({"delimiter": ";;"}, "the delimiter is ';;'"),
    ],
)
def test_invalid_columns(given, message):
    with pytest.raises(InputError, match=message):
        Columns(**given)


def test_a_dataset_of_documents(tmp_path):
    (tmp_path / "d.tsv").write_text("0\tb a b\tone two\n1\t\ttwo\n2\tc\tthree one\n")
    data = read_documents(tmp_path / "d.tsv")
    assert data.label_names == ("a", "b", "c")
    assert data.Y.toarray().tolist() == [[1, 1, 0], [0, 0, 0], [0, 0, 1]]
    assert data.text.names == ("one", "three", "two")
    assert data.X.dtype == np.float32
    assert (data.X.toarray() > 0).tolist() == [[1, 0, 1], [0, 0, 1], [1, 1, 0]]
    (tmp_path / "other.tsv").write_text("0\tz\tthree unknown\n")
    other = read_documents(tmp_path / "other.tsv", features=data.text)
    assert other.X.toarray().tolist() == [[0, 1, 0]]
    assert other.align(data.label_names, 3).Y.indices.tolist() == [3]


def test_progress_is_reported(tmp_path):
    (tmp_path / "d.tsv").write_text("0\ta\tone two three\n" * 300_000)
    reported = []
    assert sum(1 for _ in read_text(tmp_path / "d.tsv", progress=reported.append)) == 300_000
    assert len(reported) == 300_000 * 18 // _PIECE_BYTES
    assert reported == sorted(reported)
    assert 0 < reported[0] < reported[-1] <= 1


def test_columns_default_to_those_of_the_features(tmp_path):
    (tmp_path / "d.csv").write_text("body,tags\none two,a;b\n")
    data = read_documents(tmp_path / "d.csv", columns=Columns("body", "tags", (";",)))
    assert data.label_names == ("a", "b")
    assert read_documents(tmp_path / "d.csv", features=data.text).label_names == ("a", "b")
    again = read_documents(tmp_path / "d.csv", columns=Columns("body", "tags", (",",)), features=data.text)
    assert again.label_names == ("a;b",)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "d.tsv: there are no documents"),
        ("0\ta\t\n1\ta\t! ? .\n", "d.tsv: the documents contain no words of two or more characters"),
        ("0\t\tone\n", "d.tsv: no document has a label"),
    ],
)
def test_nothing_to_learn_from(tmp_path, content, message):
    (tmp_path / "d.tsv").write_text(content)
    with pytest.raises(InputError, match=message):
        read_documents(tmp_path / "d.tsv")


FIELDS = st.sampled_from(
    ["one two", "a", "b a", "", " ", "ΣΑΣ", "a\u2003b", "x\x1cy", "\ufeff", "three \r", "\x85"]
)
LINES = st.one_of(
    st.lists(FIELDS, max_size=4).map("\t".join).map(str.encode),
    st.lists(FIELDS, min_size=3, max_size=3).map("\t".join).map(str.encode),
    st.sampled_from([b"", b"\r", b"\xff", b"a\t\xc3", b"1\ta\t\xed\xa0\x80", b"1\ta\t\xf4\x90\x80\x80"]),
)


@examples(300)
@given(
    st.lists(LINES, max_size=8).map(b"\n".join),
    st.sampled_from([b"", b"\xef\xbb\xbf"]),
    st.sampled_from([("tsv", True), ("tsv", False), ("txt", False)]),
    st.integers(1, 40),
    st.integers(1, 3),
)
def test_datasets_have_the_documents_of_a_file(
    tmp_path_factory, content, mark, options, piece_bytes, threads
):
    """The same documents, labels and errors, however the file is cut into pieces."""
    path = tmp_path_factory.mktemp("lines") / "d"
    path.write_bytes(mark + content)
    format, require_labels = options
    settings = TextSettings(analyzer="char", lowercase=False)
    expected, error = [], None
    try:
        expected = list(read_text(path, format, require_labels=require_labels))
    except InputError as invalid:
        error = str(invalid)
    n_read = len(expected)
    if require_labels:  # documents without text are skipped
        expected = [document for document in expected if document.text.strip()]
    names = sorted({label for _, labels, _ in expected for label in labels})
    rows = [sorted({names.index(label) for label in labels}) for _, labels, _ in expected]
    terms, _, X = text_twin.learn([text for text, *_ in expected], settings)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("labeltree.data.records._PIECE_BYTES", piece_bytes)
        read = functools.partial(
            read_documents, path, format, settings=settings, require_labels=require_labels, threads=threads
        )
        if error is not None or not terms or (require_labels and not names):
            with pytest.raises(InputError) as caught:
                read()
            assert error is None or str(caught.value) == error
            return
        data = read()
    assert data.n_skipped == n_read - len(expected)
    assert list(data.label_names) == names
    assert [data.Y[i].indices.tolist() for i in range(data.n_instances)] == rows
    assert list(data.text.names) == terms
    assert data.X.toarray().tolist() == X.toarray().tolist()
