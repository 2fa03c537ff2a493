"""The card of a model: metadata that YAML reads, and Markdown in which nothing of the model has a meaning."""

import json
import re
from dataclasses import replace

import pytest
import yaml
from helpers import make_data, random_data, train_small

import labeltree
from labeltree import Dataset
from labeltree.hub.card import model_card

EVIL = [
    "<script>alert(1)</script>",
    "a | b",
    "](https://evil.example)",
    "`code`\n# title",
    "---\nx: y",
    "*bold* _it_ ~s~ $m$",
    "\\| end",
    "www.evil.example",
    "\u202eright\ufeff\ud800",
    "x" * 500,
]


def parts(text):
    assert text.startswith("---\n")
    _, metadata, body = text.split("---\n", 2)
    return yaml.safe_load(metadata), body


@pytest.fixture(scope="module")
def tagger(tmp_path_factory):
    path = tmp_path_factory.mktemp("card") / "tagger"
    return labeltree.train("examples/catalog-train.tsv", path=path, clusters=10, max_depth=2)


def test_a_card_describes_the_model(tagger):
    metadata, body = parts(
        model_card(tagger, languages=["en", "de-AT"], license="cc-by-4.0", address="hf://me/tagger")
    )
    assert metadata["language"] == ["en", "de-AT"]
    assert (metadata["license"], metadata["library_name"]) == ("cc-by-4.0", "labeltree")
    assert "model-index" not in metadata
    assert body.startswith("\n# tagger\n")
    assert re.findall("^## (.*)", body, re.MULTILINE) == ["How to use", "Labels", "Training", "Limitations"]
    assert 'labeltree.load("hf://me/tagger")' in body
    assert "labeltree predict hf://me/tagger documents.txt" in body
    assert f"{tagger.bytes:,} bytes" in body
    assert "| outdoor | 114 |" in body
    assert "400 instances" in body


def test_metrics_that_were_evaluated(tagger):
    found = tagger.evaluate("examples/catalog-test.tsv")
    metadata, body = parts(model_card(tagger, metrics=found, data="catalog"))
    (result,) = metadata["model-index"][0]["results"]
    assert result["dataset"]["name"] == "catalog"
    assert {item["name"]: item["value"] for item in result["metrics"]} == pytest.approx(
        {name: value for name, value in found.items() if "@" in name}, abs=1e-4
    )
    assert {"precision_at_1", "ndcg_at_5", "psndcg_at_3"} < {item["type"] for item in result["metrics"]}
    assert f"| P\\@1 | {100 * found['P@1']:.2f} |" in body
    assert "in percent:" in body
    more = replace(found, rows_without_labels=2)
    assert "in percent; 2 rows without labels left out:" in model_card(tagger, metrics=more)


def test_names_have_no_meaning(tmp_path):
    data = make_data(60, labels=len(EVIL))
    names = tuple(name.replace("\ud800", "") for name in EVIL)
    model = train_small(tmp_path / "a`b|c", Dataset(data.X, data.Y, names), trees=1)
    metadata, body = parts(model_card(model, title=EVIL[0] + EVIL[3] + EVIL[8], metrics={}, data=EVIL[4]))
    assert metadata["library_name"] == "labeltree"
    assert "<" not in body.rpartition("<!--")[0]
    table = re.search(r"\|---\|---:\|\n((?:\|.*\n)+)", body)[1].splitlines()
    assert len(table) == len(EVIL)
    assert all(len(re.findall(r"(?<!\\)(?:\\\\)*\|", row)) == 3 for row in table)
    assert not re.search(r"(?<!\\)[`*_~$\[\]]", "".join(table))
    assert "www\\.evil" in body
    assert "https\\://" in body
    assert max(map(len, table)) < 200
    assert body.count("\n# ") == 1  # the title


@pytest.mark.parametrize("text", [*EVIL, 'a "quoted" \\ one', "key: value # comment", "- x", "\x85\u2028"])
def test_metadata_are_read_as_they_were_written(tagger, text):
    card = model_card(tagger, title=text, metrics={"P@1": 0.5}, data=text)
    card.encode()
    index = parts(card)[0]["model-index"][0]
    shown = "".join(char if char.isprintable() else "\ufffd" for char in text)
    assert (index["name"], index["results"][0]["dataset"]["name"]) == (shown, shown)


def test_limitations_depend_on_the_model(tagger, trained):
    body = model_card(labeltree.load(trained))
    assert "a row of features" in body
    assert "X: a sparse matrix with 30 features" in body
    assert re.search(r"\n- \d of 12 labels have fewer than 5 training instances\.", body)
    assert "bag of terms" not in body
    assert "bag of terms" in model_card(tagger)


def test_the_card_is_printed_by_a_dry_run(tagger, tmp_path, run):
    push = ["push", tagger.path, f"file://{tmp_path}/there", "--dry-run"]
    options = ["--title", "Tags", "--language", "en", "--license", "mit", "--test"]
    code, shown, _ = run(*push, *options, "examples/catalog-test.tsv")
    assert code == 0
    metadata, body = parts(shown)
    assert metadata["model-index"][0]["results"][0]["dataset"]["name"] == "catalog-test.tsv (100 rows)"
    assert body.startswith("\n# Tags\n")
    code, shown, err = run(*push, "--quiet")
    assert (code, err) == (0, "")
    assert shown == model_card(labeltree.load(tagger.path), address=push[2])
    assert json.loads(run(*push, "--json")[1])["card"] == shown
    assert not (tmp_path / "there").exists()


def test_a_model_without_names(tmp_path):
    model = train_small(tmp_path / "model", random_data(), trees=1)
    assert re.search(r"\| \d+ \| \d+ \|", model_card(model))
