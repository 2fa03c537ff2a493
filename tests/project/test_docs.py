"""The documentation: every block of code runs and shows what it says; pages and workflows hang together."""

import importlib.util
import re
from pathlib import Path

import pytest
import yaml
from doc_blocks import PAGES, ROOT, TAGS, Block, blocks_of, check_tags, compare, run_page

from labeltree import LabelTreeClassifier
from labeltree.cli.app import COMMANDS

BLOCKS = {page.relative_to(ROOT).as_posix(): page for page in PAGES}


@pytest.mark.parametrize("name", BLOCKS)
def test_every_block_of_a_page_runs(name, tmp_path, monkeypatch):
    blocks = blocks_of(BLOCKS[name])
    check_tags(blocks)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["labeltree"])
    monkeypatch.setenv("LABELTREE_CACHE", str(tmp_path / "cache"))
    run_page(blocks)


def test_the_pages_use_every_tag():
    # Unused tags would not be maintained.
    assert {block.tag for page in PAGES for block in blocks_of(page)} == set(TAGS)


def _page(tmp_path, monkeypatch, text):
    monkeypatch.setattr("doc_blocks.ROOT", tmp_path)
    page = tmp_path / "page.md"
    page.write_text(text)
    return page


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("```sh\nls\n```\n", "got the tag 'sh', expected one of python"),
        ("```text\n$ labeltree info model\n```\n", "must run"),
        ("```text\nimport labeltree\n```\n", "must run"),
        ("Look:\n\n    labeltree info model\n", "page.md:3: indented code"),
        ("```python\n", "does not end"),
    ],
)
def test_what_would_not_run_is_refused(tmp_path, monkeypatch, text, fault):
    page = _page(tmp_path, monkeypatch, text)
    with pytest.raises(AssertionError, match=re.escape(fault)):
        check_tags(blocks_of(page))


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("```python\nprint(2 + 2)\n```\n```output\n5\n```\n", "but it prints"),
        ("```python\nprint(200)\n```\n```exact\n201\n```\n", "prints 200"),
        ("```python\nraise SystemError\n```\n", None),
        ("```pycon\n>>> 2 + 2\n5\n```\n", "Expected"),
        ("```pycon\n2 + 2\n```\n", "without a"),
        ("```console\n$ labeltree --version\nlabeltree 99\n```\n", "but it prints"),
        ("```console\n$ labeltree info missing\n```\n", "exit code 2"),
        ("```console\n$ echo good | sed s/good/bad/\ngood\n```\n", "but it prints"),
        ("```console\nlabeltree --version\n```\n", "must begin with"),
        ("```bash\nlabeltree info missing\n```\n", "exit code 2"),
        ("```bash\ntrue && false\n```\n", "exit code 1"),
    ],
)
def test_a_page_that_is_wrong_fails(tmp_path, monkeypatch, text, fault):
    page = _page(tmp_path, monkeypatch, text)
    monkeypatch.chdir(tmp_path)
    with pytest.raises((AssertionError, SystemError), match=fault and re.escape(fault)):
        run_page(blocks_of(page))


@pytest.mark.parametrize(
    ("wanted", "got", "same"),
    [
        ("a 100 b", "a 101 b", False),
        ("1,000,000 bytes", "1,000,001 bytes", False),
        ("0.177", "0.220", True),
        ("0.177", "0.290", False),
        ("K  P@1\n40  90.8", "K  P@1\n40  88.1", True),
        ("K  P@1\n40  90.8", "K  P@1\n41  90.8", False),
        ("5,000 -> 1,000 bytes", "5,000 -> 1,050 bytes", True),
        ("5 rows in 0.1 s", "5 rows in 17.3 s", True),
        ("1.0 GB available", "7.3 GB available", True),
        ("1.0 GB on disk", "7.3 GB on disk", False),
        ("5 labels (3, ...) 0.99", "5 labels (3, 4, 7) 0.98", True),
        ("a\n...\nd", "a\nb\nc\nd", True),
        ("a\n...\nd", "a\nb\nc", False),
        ("a\nb", "a", False),
    ],
)
def test_comparison(wanted, got, same):
    place = Block(PAGES[0], 1, "output", "").place
    if same:
        compare(wanted, got, place)
    else:
        with pytest.raises(AssertionError, match="the page shows"):
            compare(wanted, got, place)


def _leaves(nav):
    for entry in nav:
        for target in entry.values() if isinstance(entry, dict) else [entry]:
            yield from [target] if isinstance(target, str) else _leaves(target)


def test_the_navigation_lists_every_page_once():
    site = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
    listed = list(_leaves(site["nav"]))
    assert sorted(listed) == sorted(p.relative_to(ROOT / "docs").as_posix() for p in PAGES[1:])


def test_the_reference_lists_every_method_of_an_estimator():
    estimator = LabelTreeClassifier
    page = (ROOT / "docs" / "api" / "estimator.md").read_text()
    section = page.partition(f".{estimator.__name__}\n")[2].partition(":::")[0]
    listed = yaml.safe_load(section)["options"]["members"]
    package = estimator.__module__.rpartition(".")[0]
    names = {name for base in estimator.__mro__ if base.__module__.startswith(package) for name in vars(base)}
    # scikit-learn adds a method set_..._request for each method with a parameter of its own.
    assert set(listed) == {name for name in names if not name.startswith(("_", "set_"))}
    assert len(set(listed)) == len(listed)


def test_every_picture_is_shown():
    shown = {
        (page.parent / target).resolve()
        for page in PAGES
        for target in re.findall(r"!\[[^\]]*\]\(([^)#]+)", page.read_text(encoding="utf-8"))
    }
    assert {path.resolve() for path in (ROOT / "docs").rglob("*.svg")} <= shown
    assert all(path.is_file() for path in shown)


WORKFLOWS = ROOT / ".github" / "workflows"


@pytest.mark.parametrize("path", sorted(WORKFLOWS.glob("*.yml")), ids=lambda path: path.stem)
def test_workflow(path: Path):
    flow = yaml.safe_load(path.read_text())
    assert flow["permissions"] == {"contents": "read"}
    makefile = (ROOT / "Makefile").read_text()
    for job in flow["jobs"].values():
        assert job["timeout-minutes"] <= 90
        for step in job["steps"]:
            assert ("uses" in step) != ("run" in step)
            assert re.fullmatch(r"[\w.-]+/[\w./-]+@v\d+(\.\d+)*", step.get("uses", "a/b@v1"))
            for target in re.findall(r"\bmake ([\w-]+)", step.get("run", "")):
                assert f"\n{target}:" in makefile


def test_the_workflow_tests_every_supported_platform():
    flow = yaml.safe_load((WORKFLOWS / "test.yml").read_text())
    matrix = flow["jobs"]["test"]["strategy"]["matrix"]
    assert matrix["python"] == ["3.10", "3.11", "3.12", "3.13", "3.14"]
    assert {name.split("-")[0] for name in matrix["os"]} == {"ubuntu", "macos"}


def test_the_reference_of_the_command_line():
    specification = importlib.util.spec_from_file_location("hooks", ROOT / "docs" / "hooks.py")
    hooks = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(hooks)
    page = hooks.on_page_markdown(f"# Commands\n\n{hooks.PLACEHOLDER}\n")
    assert re.findall("^## (.+)$", page, re.MULTILINE) == list(COMMANDS)
    assert "| `--clusters N` | Number of clusters that a node is split into (K). Default: `100`. |" in page
