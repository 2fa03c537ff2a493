"""The page of a model: the map of its tree, one file without a service, and both in a real browser."""

import contextlib
import json
import re
import shutil
import threading
from pathlib import Path

import numpy as np
import pytest
import uvicorn
from helpers import PATIENCE
from playwright.sync_api import Error, sync_playwright

import labeltree
from labeltree.cli import main
from labeltree.errors import InputError
from labeltree.evaluation.accepted import Decision
from labeltree.evaluation.calibration import Calibration
from labeltree.explain.label import path_to
from labeltree.serve import page as page_module
from labeltree.serve.app import create_app
from labeltree.serve.model_quality import LabelHits, Measurements, read_frontier
from labeltree.serve.models import Models
from labeltree.serve.page import FILES, SCRIPTS, make_page, page_file
from labeltree.serve.server import listen
from labeltree.serve.settings import ServiceSettings
from labeltree.serve.tree_map import tree_map

EXAMPLES = Path(__file__).parents[2] / "examples"
HOSTILE = (
    '<img src=x onerror="window.hacked=1">',
    "</script><script>window.hacked=1</script>",
    "\"><svg onload='window.hacked=1'>",
    "{{constructor.constructor('window.hacked=1')()}}",
)
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--no-proxy-server"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)


@pytest.fixture(scope="module")
def tagger(tmp_path_factory):
    """A model of text, four of whose labels have names that a careless page would run."""
    place = tmp_path_factory.mktemp("page")
    lines = (EXAMPLES / "catalog-train.tsv").read_text().splitlines()
    with (place / "train.jsonl").open("w") as file:
        for i, line in enumerate(lines):
            _, labels, text = line.split("\t")
            names = [*labels.split(), HOSTILE[i % 40]] if i % 40 < len(HOSTILE) else labels.split()
            print(json.dumps({"text": text, "labels": names}), file=file)
    path = place / "tagger"
    assert main(["train", str(place / "train.jsonl"), str(path), "--clusters", "8", "--quiet"]) == 0
    return path


# The map


def boxes_of(box):
    yield box
    for child in box.get("children", ()):
        yield from boxes_of(child)


def below(part, node):
    """Bytes of a node and of all nodes below it, by walking down."""
    children = part.tree.children[part.tree.child_ptr[node] : part.tree.child_ptr[node + 1]]
    return part.node_bytes[node] + sum(below(part, child) for child in children[children >= 0])


@pytest.mark.parametrize("limit", [1, 7, 5000])
def test_every_byte_of_a_tree_is_in_a_box(trained, limit):
    model = labeltree.load(trained)
    for tree, part in enumerate(model.trees):
        root = tree_map(model, tree, depth=8, limit=limit)["root"]
        assert (root["bytes"], root["labels"]) == (part.node_bytes.sum(), model.n_labels)
        boxes = list(boxes_of(root))
        assert len(boxes) - 1 <= limit
        for box in boxes:
            if "children" not in box:
                continue
            rest = box.get("rest", {"bytes": 0, "labels": 0, "children": 0})
            assert len(box["children"]) + rest["children"] == part.tree.child_count[box["node"]]
            assert sum(child["labels"] for child in box["children"]) + rest["labels"] == box["labels"]
            total = sum(child["bytes"] for child in box["children"]) + rest["bytes"]
            assert total == pytest.approx(below(part, box["node"]), abs=len(box["children"]))
        if limit == 5000:
            assert sorted(box["label"] for box in boxes if "label" in box) == list(range(model.n_labels))
            assert {box["node"] for box in boxes if "node" in box} == set(range(part.tree.n_nodes))


def test_a_view_has_the_figures_of_its_nodes(trained):
    model = labeltree.load(trained)
    view = tree_map(model, 1, node=1, depth=1)
    assert (view["tree"], view["trees"], [box["node"] for box in view["path"]]) == (1, 2, [0])
    part = model.trees[1]
    assert view["root"]["features"] == part.used_features[1]
    assert view["root"]["alpha"] == pytest.approx(part.used_features[1] / part.used_features[0], abs=1e-4)
    for box in view["root"]["children"]:
        if "label" in box:
            assert box["name"] == model.label_names[box["label"]]
            assert box["instances"] == model.label_counts[box["label"]]


def test_a_label_is_found_however_small_it_is(trained):
    model = labeltree.load(trained)
    for label in range(model.n_labels):
        above = [node for node, _ in path_to(model.trees[0].tree, label)]
        view = tree_map(model, limit=1, label=label)
        assert [box["node"] for box in (*view["path"], view["root"])] == above
        assert [box["label"] for box in view["root"]["children"]] == [label]
        assert tree_map(model, node=above[-1], limit=1, label=label) == view


@pytest.mark.parametrize("wrong", [{"tree": 2}, {"node": 999}, {"label": 99}])
def test_a_view_of_what_does_not_exist_is_refused(trained, wrong):
    with pytest.raises(InputError, match=f"{next(iter(wrong))} is "):
        tree_map(labeltree.load(trained), **wrong)


# What was measured


def test_the_precision_of_each_label(run, folder, tmp_path):
    file = tmp_path / "precision.csv"
    code, out, _ = run("evaluate", folder / "model", folder / "test.svm", "--per-label", file, "--json")
    assert code == 0
    model = labeltree.load(folder / "model")
    hits = LabelHits.read(file, 40, model.label_names)
    table = model.evaluate(folder / "test.svm").per_label
    assert hits.predicted.sum() == table["predicted"].sum() > 0
    known = [int(label) for label in table["label"] if int(label) < 40]
    np.testing.assert_array_equal(hits.correct[known], table["correct"][: len(known)])
    assert (
        json.loads(out)["micro_F1"]
        == 2 * table["correct"].sum() / (table["predicted"] + table["support"]).sum()
    )
    view = tree_map(model, hits=hits)
    assert view["root"]["precision"] == round(hits.correct.sum() / hits.predicted.sum(), 4)
    assert hits.precision(np.flatnonzero(hits.predicted == 0)) is None


def test_an_existing_table_is_not_replaced(refused, folder, tmp_path):
    (tmp_path / "t.csv").write_text("mine")
    error = refused("evaluate", folder / "model", folder / "test.svm", "--per-label", tmp_path / "t.csv")
    assert "already exists" in error
    assert (tmp_path / "t.csv").read_text() == "mine"


COUNTS = "label,predicted,correct\n"
POINT = "trees,weights,threshold,model_bytes,P@1,P@3,P@5,chosen\n1,int8,0.1,900,0.505,0.4,0.3,True\n"


@pytest.mark.parametrize(
    ("read", "content", "message"),
    [
        (LabelHits.read, "label,predicted\n1,2\n", "the column 'correct' is missing"),
        *((LabelHits.read, f"{COUNTS}{row}\n", ":2: not the counts") for row in ("1,x,2", "1,2,3", "10,2,1")),
        *(
            (read_frontier, POINT + row, ":3: not a point of a frontier; measure it again")
            for row in (
                "1,float32,,0,1,1,1,False\n",
                "1,float32,,9,nan,1,1,False\n",
                "1,float32,,9,50,1,1,False\n",
                "x,a,,9,1,1,1,F\n",
            )
        ),
    ],
)
def test_damaged_tables_are_refused(tmp_path, read, content, message):
    (tmp_path / "t.csv").write_text(content)
    with pytest.raises(InputError, match=re.escape(message)):
        read(tmp_path / "t.csv", *([10] if read == LabelHits.read else []))


def test_unknown_columns_are_ignored(tmp_path):
    (tmp_path / "t.csv").write_text('name,label,predicted,correct,f1\n"a, ""b""",2,4,3,x\n,1,0,0\n')
    hits = LabelHits.read(tmp_path / "t.csv", 3)
    assert (hits.predicted.tolist(), hits.correct.tolist()) == ([0, 0, 4], [0, 0, 3])


def test_a_frontier(tmp_path):
    (tmp_path / "f.csv").write_text(POINT)
    [point] = read_frontier(tmp_path / "f.csv")
    assert point == {"trees": 1, "weights": "int8", "threshold": 0.1, "bytes": 900, "chosen": True} | {
        "P@1": 50.5,
        "P@3": 40,
        "P@5": 30,
    }


# One file


def embedded(page):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page)[1])


def test_the_page_is_one_file(run, refused, tagger, tmp_path):
    out = tmp_path / "page.html"
    code, printed, _ = run("page", tagger, "-o", out, "--json")
    figures = json.loads(printed)
    page = out.read_text()
    assert (code, figures["bytes"]) == (0, out.stat().st_size)
    data = embedded(page)
    model = labeltree.load(tagger)
    assert figures["labels"] == figures["labels_of_model"] == model.n_labels
    assert sorted(data["labels"]["names"]) == sorted(model.label_names)
    assert str(tagger) not in page
    # Nothing is loaded from elsewhere, and names end no element.
    assert not re.search(r"""(src|href)=["'](?!data:|#)""", page)
    assert page.count("</script>") == 2
    assert "already exists" in refused("page", tagger, "-o", out)
    assert out.read_text() == page
    assert "no such directory" in refused("page", tagger, "-o", tmp_path / "no" / "page.html")
    (tmp_path / "f.csv").write_text("a,b\n")
    assert "is missing" in refused(
        "page", tagger, "-o", tmp_path / "x.html", "--frontier", tmp_path / "f.csv"
    )
    assert not (tmp_path / "x.html").exists()


def test_a_large_model_is_summed_up(trained, monkeypatch):
    for name, value in {"_BOXES": 8, "_LABELS": 5, "_NAME_LENGTH": 4, "_LEAST_BOXES": 1}.items():
        monkeypatch.setattr(page_module, name, value)
    model = labeltree.load(trained)
    page, n_boxes, n_labels = make_page(model, "m", Measurements())
    data = embedded(page)
    assert (n_boxes, n_labels) == (2 * (4 + 1), 5)
    assert data["labels"]["numbers"] == np.argsort(-model.label_counts, kind="stable")[:5].tolist()
    assert all(len(name) <= 4 for name in data["labels"]["names"])
    for tree, root in enumerate(data["trees"]):
        listed = {box["node"] for box in boxes_of(root) if "node" in box}
        for label, node in zip(data["labels"]["numbers"], data["labels"]["nodes"][tree], strict=True):
            above = [u for u, _ in path_to(model.trees[tree].tree, label)]
            assert node == [u for u in above if u in listed][-1]


def test_every_file_of_the_page_is_installed():
    assert all(page_file(name) for name in FILES)
    named = re.findall(r'(?:src|href)="page/([^"]+)"', page_file("index.html"))
    assert sorted(named) == sorted(FILES.keys() - {"index.html"})
    assert [name for name in named if name.endswith(".js")] == list(SCRIPTS)
    for name in SCRIPTS:  # text becomes text nodes
        assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\(", page_file(name))


# In a browser


@pytest.fixture(scope="module")
def browser():
    if CHROMIUM is None:
        pytest.skip("no Chromium to test the page with: install it, for example apt-get install chromium")
    with sync_playwright() as play:
        try:
            opened = play.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS), timeout=1000 * PATIENCE)
        except Error as error:
            pytest.skip(f"Chromium does not start: {error.message.splitlines()[0]}")
        yield opened
        opened.close()


@pytest.fixture
def tab(browser):
    """A page of 1280 pixels that must have no errors, and on which no name may run."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, reduced_motion="reduce")
    page = context.new_page()
    page.set_default_timeout(1000 * PATIENCE)
    page.faults = []
    page.on("pageerror", lambda error: page.faults.append(str(error)))
    page.on("console", lambda message: message.type == "error" and page.faults.append(message.text))
    yield page
    assert page.evaluate("window.hacked") is None
    assert page.faults == []
    context.close()


@pytest.fixture(scope="module")
def serving():
    """Start services on free ports; stop them at the end."""
    running = []

    def start(*paths, **settings):
        socket = listen("127.0.0.1", 0)
        service = create_app(Models(paths), ServiceSettings(**settings))
        server = uvicorn.Server(uvicorn.Config(service, log_level="warning", lifespan="on"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [socket]})
        thread.start()
        running.append((server, thread))
        return f"http://127.0.0.1:{socket.getsockname()[1]}/"

    yield start
    for server, thread in running:
        server.should_exit = True
        thread.join()


def ready(tab, address):
    tab.goto(address)
    tab.wait_for_selector("html[data-ready]")


def wait_for_name(tab, name):
    """Wait until some element shows a name, to the letter."""
    shown = "name => [...document.querySelectorAll('.what')].some((e) => e.textContent === name)"
    tab.wait_for_function(shown, arg=name)


def predict(tab, text):
    """Type a text, and wait for its labels: the ones that are shown are removed first."""
    tab.fill("#text", "")
    tab.wait_for_selector("#answer:empty", state="attached")
    tab.fill("#text", text)
    tab.wait_for_selector("#answer .row")


def text_of(tab, selector):
    return tab.locator(selector).inner_text()


def test_the_file_in_a_browser(tab, tagger, run, tmp_path):
    assert run("page", tagger, "-o", tmp_path / "page.html", "--quiet")[0] == 0
    ready(tab, (tmp_path / "page.html").as_uri())
    model = labeltree.load(tagger)
    assert f"{model.n_labels} labels" in text_of(tab, "#summary")
    assert not tab.locator("#ask").is_visible()
    # By keyboard: into a group of labels, to another box, and out again.
    tab.locator("#map button[tabindex='0']").focus()
    tab.keyboard.press("Enter")
    tab.wait_for_selector("#crumbs li:nth-child(2)")
    first = tab.evaluate("document.activeElement.getAttribute('aria-label')")
    tab.keyboard.press("ArrowRight")
    moved = tab.evaluate("document.activeElement.getAttribute('aria-label')")
    assert first != moved
    assert text_of(tab, "#map-about") == moved
    tab.keyboard.press("Escape")
    tab.wait_for_selector("#crumbs li:only-child")
    # A name that looks like markup is a name.
    for name in HOSTILE:
        tab.fill("#find", name)
        tab.wait_for_function(
            "name => document.querySelector('#found .what')?.textContent === name", arg=name
        )
        tab.locator("#found button").first.click()
        tab.wait_for_selector(".is-sought")
        assert tab.locator(".is-sought").get_attribute("aria-label").startswith(name)


def test_the_service_in_a_browser(tab, tagger, folder, serving, tmp_path):
    calibrated = Path(shutil.copytree(tagger, tmp_path / "calibrated"))
    labeltree.load(calibrated).store_decision(None, Calibration((0.0, 1.0), (0.0, 0.5)))
    address = serving(tagger, folder / "model", calibrated)
    held = []
    tab.route("**/predict", lambda route: held.append(route) if not held else route.continue_())
    ready(tab, address)
    with tab.expect_request("**/predict"):
        tab.fill("#text", "tea")
    # The answer to what was typed first comes last, and is dropped.
    text = "A light for the handlebar of a bicycle"
    tab.fill("#text", text)
    tab.wait_for_selector("#answer .row")
    with contextlib.suppress(Error):  # the page may have given it up
        held[0].continue_()
    model = labeltree.load(tagger)
    best = model.label_names[model.predict(model.text.transform([text]), top=1)[0][0, 0]]
    assert text_of(tab, "#answer li:first-child .what") == best
    assert "10 labels" in text_of(tab, "#answer-status")
    tab.locator("#answer .row").first.click()
    tab.wait_for_selector(".why .steps")
    assert tab.locator("#answer .row").first.get_attribute("aria-expanded") == "true"
    assert "handlebar" in text_of(tab, ".why:not([hidden])")
    tab.locator(".why .show").click()
    tab.wait_for_selector("#label .steps")
    assert text_of(tab, "#label h3") == best
    tab.wait_for_selector(".is-sought")
    # Labels with hostile names, as predictions and in an explanation.
    tab.select_option("#top", "50")
    wait_for_name(tab, HOSTILE[0])
    # Names for everything that can be used, and landmarks.
    unnamed = """[...document.querySelectorAll('button, input, select, textarea')].filter((e) =>
        e.checkVisibility() && !e.textContent.trim() && !e.ariaLabel && !e.labels?.length).length"""
    assert tab.evaluate(unnamed) == 0
    assert tab.locator("main, header, footer, nav[aria-label], section[aria-labelledby]").count() >= 8
    # A narrow window, in both color schemes.
    tab.set_viewport_size({"width": 390, "height": 844})
    for scheme in ("light", "dark"):
        tab.emulate_media(color_scheme=scheme)
        assert tab.evaluate("document.documentElement.scrollWidth") <= 390
    # A model whose scores are calibrated explains the number that it shows.
    tab.select_option("#model", "calibrated")
    tab.wait_for_selector("html[data-ready='calibrated']")
    predict(tab, text)
    tab.locator("#answer .row").first.click()
    tab.wait_for_selector(".why .steps")
    shown = text_of(tab, "#answer li:first-child .row .score")
    assert re.search(
        rf"score before calibration [0-9.]+, probability {shown}", text_of(tab, ".why:not([hidden])")
    )
    # A model of numbers takes rows.
    tab.select_option("#model", "model")
    tab.wait_for_selector("html[data-ready='model']")
    assert "trained on numbers" in text_of(tab, "#ask-note")
    tab.fill("#text", "1:x")
    tab.wait_for_selector("#answer-status:has-text('Expected index:value, got 1:x')")
    tab.fill("#text", "3:1 21:0.5")
    tab.wait_for_selector("#answer .row")


def test_accepted_labels_in_a_browser(tab, tagger, serving, tmp_path):
    """A line at a threshold; dimmed rows only if labels have thresholds of their own."""
    one, own, none = (Path(shutil.copytree(tagger, tmp_path / name)) for name in ("one", "own", "none"))
    model = labeltree.load(tagger)
    text = "A light for the handlebar of a bicycle"
    ranked, scores = model.predict(model.text.transform([text]), top=10)
    names = [model.label_names[label] for label in ranked[0]]
    threshold = float(scores[0, 3])
    thresholds = np.full(model.n_labels, threshold, np.float32)
    thresholds[ranked[0, 1]], thresholds[ranked[0, 8]] = 1, 0
    labeltree.load(one).store_decision(Decision(threshold, rows=9), None)
    labeltree.load(own).store_decision(Decision(threshold, rows=9, thresholds=thresholds), None)
    labeltree.load(none).store_decision(None, None)
    (one / "frontier.csv").write_text(POINT + "1,int8,,1900,0.6,0.5,0.4,False\n")
    ready(tab, serving(one, own, none))
    for name, accepted, status, facts in (
        ("one", names[:4], ", 4 accepted", f"scores from {threshold:.4g}; chosen by micro F1 on 9 rows"),
        ("own", [names[0], *names[2:4], names[8]], ", 4 accepted; the others are dimmed", "have their own"),
        ("none", names, " ms", "no threshold is stored"),
    ):
        tab.select_option("#model", name)
        tab.wait_for_selector(f"html[data-ready='{name}']")
        predict(tab, text)
        assert tab.locator("#answer .what").all_inner_texts() == names
        assert tab.locator("#answer li:not(.below) .what").all_inner_texts() == accepted
        assert text_of(tab, "#answer-status").endswith(status)
        assert tab.locator("#answer li:nth-child(5).line").count() == (name == "one")
        assert facts in text_of(tab, "#facts")
        if name == "one":
            assert text_of(tab, ".key") == "Suggested: int8, below 0.1 dropped; 900 bytes, P@1 50.50"
    assert tab.locator("#found li").count() == 14
    for width in (1280, 400):  # no row is cut
        tab.set_viewport_size({"width": width, "height": 900})
        assert tab.locator("#found").evaluate("list => list.scrollHeight - list.clientHeight") <= 1


def test_whole_words_are_found_first(tab, serving, run, tmp_path):
    names = ["part", "part", "part", "arts", "arts", "state of the art", "Art", "c++", "c"]
    rows = [json.dumps({"text": f"w{k} {name}", "labels": [name]}) for k, name in enumerate(names)]
    (tmp_path / "train.jsonl").write_text("\n".join(rows))
    assert run("train", tmp_path / "train.jsonl", tmp_path / "model", "--quiet")[0] == 0
    assert run("page", tmp_path / "model", "-o", tmp_path / "page.html", "--quiet")[0] == 0
    for address in (serving(tmp_path / "model"), (tmp_path / "page.html").as_uri()):
        ready(tab, address)
        for search, found in (
            ("art", ["Art", "state of the art", "part", "arts"]),
            ("C++", ["c++"]),
            ("the ar", ["state of the art"]),
        ):
            tab.fill("#find", search)
            shown = "[...document.querySelectorAll('#found .what')].map((e) => e.textContent)"
            tab.wait_for_function(f"found => {shown}.join() === found", arg=",".join(found))


def test_a_service_with_a_token(tab, trained, serving):
    tab.on("console", lambda message: tab.faults.clear())  # the browser reports the refusal itself
    tab.goto(serving(trained, token="secret-token-of-the-test"))
    tab.wait_for_selector("#unlock:not([hidden])")
    tab.fill("#token", "secret-token-of-the-test")
    tab.keyboard.press("Enter")
    tab.wait_for_selector("html[data-ready]")
    assert not tab.locator("#trouble").is_visible()
    tab.select_option("#tree", "1")
    tab.wait_for_selector("#map button")
