"""The service: answers, errors, limits, batches, tokens, and what Annif sends."""

import asyncio
import json
import math
import os
import shutil
import threading
from datetime import datetime
from pathlib import Path
from urllib.parse import urlencode

import numpy as np
import pytest
from asgi import ask, running, talk

import labeltree
from labeltree.cli import main
from labeltree.explain import describe_label, explain_prediction
from labeltree.serve import answers, batching, process
from labeltree.serve import registry as registry_module
from labeltree.serve.app import Service
from labeltree.serve.errors import RequestError
from labeltree.serve.http import host_name
from labeltree.serve.metrics import Metrics
from labeltree.serve.registry import Registry
from labeltree.serve.settings import ServiceSettings

EXAMPLES = Path(__file__).parents[2] / "examples"
TEXT = "A light for the handlebar of a bicycle"


@pytest.fixture(scope="module")
def tagger(tmp_path_factory):
    path = tmp_path_factory.mktemp("serve") / "tagger"
    assert main(["train", str(EXAMPLES / "catalogue-train.tsv"), str(path), "--quiet"]) == 0
    return path


@pytest.fixture(scope="module")
def registry(tagger, folder):
    return Registry([tagger, folder / "model", folder / "named-model"], print)


@pytest.fixture
def service(registry):
    return Service(registry)


def expected(model, X, top=5):
    labels, scores = model.predict(X, top=top)
    names = model.label_names
    return [
        {
            "labels": [
                {"label": j, "name": names and names[j], "score": pytest.approx(s, rel=1e-6)}
                for j, s in zip(row, values, strict=True)
                if j >= 0
            ]
        }
        for row, values in zip(labels.tolist(), scores.tolist(), strict=True)
    ]


# Predictions


def test_texts(service, tagger):
    model = labeltree.load(tagger)
    texts = [TEXT, "Keeps tea hot", "", "wwwww"]
    one, many, none, some = talk(
        service,
        ("POST", "/predict", {"text": TEXT}),
        ("POST", "/predict", {"model": "tagger", "texts": texts, "top": 3}),
        ("POST", "/predict", {"texts": []}),
        ("POST", "/predict", {"text": TEXT, "threshold": 0.5, "names": False, "scores": False}),
    )
    assert one.status == many.status == 200
    assert one.json == {"model": "tagger", "predictions": expected(model, model.text.transform([TEXT]))}
    assert many.json["predictions"] == expected(model, model.text.transform(texts), 3)
    assert many.json["predictions"][2:] == [{"labels": []}] * 2
    assert none.json == {"model": "tagger", "predictions": []}
    labels, scores = model.predict(model.text.transform([TEXT]))
    assert some.json["predictions"] == [{"labels": [{"label": int(j)} for j in labels[0][scores[0] >= 0.5]]}]
    assert 0 < len(some.json["predictions"][0]["labels"]) < 5


def test_accepted_labels(service, tagger):
    model = labeltree.load(tagger)
    accepted, both = talk(
        service,
        ("POST", "/predict", {"text": TEXT, "accepted": True}),
        ("POST", "/predict", {"text": TEXT, "accepted": True, "threshold": 0.5}),
    )
    (labels,), _ = model.predict([TEXT], threshold="stored")
    assert [item["name"] for item in accepted.json["predictions"][0]["labels"]] == labels
    assert 0 < len(labels) < model.n_labels
    assert both.status == 400
    assert "exclude each other" in both.json["error"]["message"]


def test_rows(service, folder):
    model = labeltree.load(folder / "model")
    X = labeltree.read_svm(folder / "test.svm").X[:3]
    rows = [{"indices": row.indices.tolist()[::-1], "values": row.data.tolist()[::-1]} for row in X]
    rows.append({"indices": [], "values": []})
    [answer] = talk(service, ("POST", "/predict", {"model": "model", "rows": rows}))
    X.resize(4, X.shape[1])
    assert answer.json["predictions"] == expected(model, X)


def test_requests_at_the_same_time_form_batches(registry, tagger, folder, monkeypatch):
    monkeypatch.setattr(batching, "BATCH_ROWS", 8)
    service = Service(registry)
    model, named = labeltree.load(tagger), labeltree.load(folder / "named-model")
    X = labeltree.read_svm(folder / "test.svm").X
    texts = [f"{TEXT} {i}" for i in range(30)]

    async def run():
        async with running(service):
            single = [
                ask(service, "POST", "/predict", {"text": text, "top": 1 + i % 7})
                for i, text in enumerate(texts)
            ]
            large = ask(service, "POST", "/predict", {"texts": texts})
            row = {"indices": X[0].indices.tolist(), "values": X[0].data.tolist()}
            other = ask(service, "POST", "/predict", {"model": "named-model", "rows": [row]})
            answers = await asyncio.gather(*single, large, other)
            return answers, service.metrics.text(registry)

    (*single, large, other), metrics = asyncio.run(run())
    wanted = expected(model, model.text.transform(texts), 7)
    for i, answer in enumerate(single):
        assert answer.json["predictions"][0]["labels"] == wanted[i]["labels"][: 1 + i % 7]
    assert large.json["predictions"] == expected(model, model.text.transform(texts))
    assert other.json["predictions"] == expected(named, X[0])
    # 62 rows: one large request of 30, the other 31 in batches of up to 8.
    assert "labeltree_batch_rows_sum 61\n" in metrics
    n_batches = int(metrics.split("labeltree_batch_rows_count ")[1].split()[0])
    assert n_batches <= 8


def test_too_many_waiting_requests_are_refused(registry):
    service = Service(registry, ServiceSettings(max_waiting=3))
    [fits, refused] = talk(
        service,
        ("POST", "/predict", {"texts": [TEXT] * 3}),
        ("POST", "/predict", {"texts": [TEXT] * 4}),
    )
    assert (fits.status, refused.status, refused.headers["retry-after"]) == (200, 503, "1")
    assert "labeltree_refused_total 1\n" in service.metrics.text(registry)


def test_an_error_in_a_batch_is_not_shown(service, monkeypatch, caplog):
    def fail(requests, is_text):
        raise RuntimeError("secret")

    monkeypatch.setattr(batching, "_search_together", fail)
    [answer] = talk(service, ("POST", "/predict", {"text": TEXT}))
    assert answer.status == 500
    assert b"secret" not in answer.content
    assert "secret" in caplog.text


def test_a_failure_is_answered_and_logged_once(service, monkeypatch, caplog):
    def fail(served):
        raise RuntimeError("secret")

    monkeypatch.setattr(answers, "model_summary", fail)
    [answer] = talk(service, ("GET", "/models/tagger"))
    assert (answer.status, answer.json["error"]["message"]) == (500, "the service failed")
    assert [record.getMessage().split("\n")[0] for record in caplog.records] == [
        "GET '/models/tagger' failed"
    ]


def test_a_request_that_takes_too_long_is_given_up(registry, monkeypatch):
    service = Service(registry, ServiceSettings(timeout=0.01))
    late, search = threading.Event(), batching._search

    def search_late(batch):
        late.wait()
        return search(batch)

    async def run():
        async with running(service):
            first = await ask(service, "POST", "/predict", {"text": TEXT})
            behind = await ask(service, "POST", "/predict", {"text": TEXT})
            waiting = service.batcher.n_waiting
            late.set()
            while service.batcher.n_waiting:
                await asyncio.sleep(0.001)
            return first.status, behind.status, waiting

    for served in registry:
        monkeypatch.setattr(served.pace, "per_row", 1.0)
    monkeypatch.setattr(batching, "_search", search_late)
    assert asyncio.run(run()) == (503, 503, 2)


def test_quick_batches_need_no_thread(registry, monkeypatch):
    service, threads, search = Service(registry), [], batching._search

    def noted(batch):
        threads.append(threading.current_thread() is not threading.main_thread())
        return search(batch)

    async def run():
        async with running(service):
            for per_row, text in ((0.001, TEXT), (1.0, TEXT), (0.001, TEXT), (1e-9, "tea " * 30_000)):
                service.registry.find("tagger").pace.per_row = per_row
                answer = await ask(service, "POST", "/predict", {"text": text})
                assert answer.status == 200

    monkeypatch.setattr(batching, "_search", noted)
    asyncio.run(run())
    assert threads == [False, True, False, True]


def test_the_pace_of_a_model():
    pace = registry_module.Pace()
    assert pace.per_row == math.inf
    pace.learn(8, 0.01)
    assert pace.per_row == pytest.approx(0.001)
    pace.learn(8, 10.0)  # held up
    assert pace.per_row == pytest.approx(0.001 * (1 + 7 / 8))
    for _ in range(100):
        pace.learn(8, 10.0)
    assert pace.per_row == pytest.approx(1.0, rel=1e-3)
    for _ in range(100):
        pace.learn(8, 0.01)
    assert pace.per_row == pytest.approx(0.001, rel=1e-2)


# Explanations, models and labels


def test_explain(service, tagger):
    model = labeltree.load(tagger)
    text, label, missing = talk(
        service,
        ("POST", "/explain", {"text": TEXT, "top": 2}),
        ("POST", "/explain", {"text": TEXT, "label": "tea", "words": 2}),
        ("POST", "/explain", {"text": TEXT, "label": "taxi"}),
    )
    found = explain_prediction(model, TEXT, top=2)
    assert [item["name"] for item in text.json["predictions"]] == [item.name for item in found]
    step = text.json["predictions"][0]["paths"][0]["steps"][0]
    assert step["margin"] == pytest.approx(found[0].paths[0].steps[0].margin)
    [tea] = label.json["predictions"]
    assert tea["name"] == "tea"
    assert tea["score"] < found[0].score
    assert (missing.status, "no label 'taxi'" in missing.json["error"]["message"]) == (400, True)


def test_models(service, tagger):
    models, one, missing = talk(service, ("GET", "/models"), ("GET", "/models/tagger"), ("GET", "/models/x"))
    assert [model["name"] for model in models.json["models"]] == ["tagger", "model", "named-model"]
    model = labeltree.load(tagger)
    assert models.json["models"][0] == {
        "name": "tagger",
        "labels": model.n_labels,
        "features": model.n_features,
        "trees": 1,
        "bytes": model.bytes,
        "text": True,
        "names": True,
    }
    assert one.json["model_bytes"] == model.bytes
    assert (one.json["model"], str(tagger.parent) in one.content.decode()) == ("tagger", False)
    assert missing.status == 404


def test_info_reports_the_same(service, tagger, run):
    [answer] = talk(service, ("GET", "/models/tagger"))
    printed = json.loads(run("info", tagger, "--json")[1])
    assert {key: answer.json[key] for key in printed} == {**printed, "model": "tagger"}


def test_labels(service, tagger, folder):
    model = labeltree.load(tagger)
    page, found, profile, by_name, numbers, missing = talk(
        service,
        ("GET", "/models/tagger/labels?limit=3&offset=1"),
        ("GET", "/models/tagger/labels?search=TEA"),
        ("GET", "/models/tagger/labels/0"),
        ("GET", "/models/tagger/labels/tea"),
        ("GET", "/models/model/labels?search=1&limit=1000"),
        ("GET", "/models/tagger/labels/taxi"),
    )
    long = talk(
        service,
        *(("GET", f"/models/{name}/labels/{'9' * n}") for name in ("model", "tagger") for n in (1000, 5000)),
    )
    assert [answer.status for answer in long] == [404, 400] * 2
    assert all(len(answer.content) < 500 for answer in long)
    order = np.argsort(-model.label_counts, kind="stable")
    assert page.json["total"] == model.n_labels
    assert [label["label"] for label in page.json["labels"]] == order[1:4].tolist()
    assert page.json["labels"][0]["count"] == model.label_counts[order[1]]
    assert {label["name"] for label in found.json["labels"]} == {n for n in model.label_names if "tea" in n}
    assert profile.json["name"] == model.label_names[0]
    assert by_name.json["label"] == model.label_names.index("tea")
    wanted = describe_label(model, 0).paths[0][0].supporting[0].name
    assert profile.json["paths"][0][0]["supporting"][0]["name"] == wanted
    assert all("1" in str(label["label"]) for label in numbers.json["labels"])
    assert numbers.json["total"] == len(numbers.json["labels"]) > 0
    assert missing.status == 404


def test_health_metrics_and_docs(service):
    paths = ("/healthz", "/readyz", "/models/nope", "/metrics", "/openapi.json", "/docs")
    healthz, readyz, _, metrics, schema, docs = talk(service, *(("GET", path) for path in paths))
    assert healthz.status == readyz.status == 200
    assert 'labeltree_requests_total{endpoint="health",status="2xx"} 2\n' in metrics.content.decode()
    assert 'labeltree_requests_total{endpoint="models",status="4xx"} 1\n' in metrics.content.decode()
    assert {"/predict", "/explain", "/models", "/models/{name}/suggest"} <= set(schema.json["paths"])
    assert docs.headers["content-security-policy"].startswith("default-src 'none'; style-src")
    assert "POST /predict" in docs.content.decode()
    assert "http" not in docs.content.decode().replace("HTTP", "").replace("/http", "").replace(
        "http backend", ""
    )


# What Annif's http backend sends


def test_annif(service, tagger):
    model = labeltree.load(tagger)
    form = {"text": TEXT, "metadata_title": "x", "project": "p", "limit": "3"}
    headers = [("Content-Type", "application/x-www-form-urlencoded"), ("User-Agent", "Annif/1.4.3")]
    info, found, default, wrong, missing = talk(
        service,
        ("GET", "/models/tagger"),
        ("POST", "/models/tagger/suggest", urlencode(form).encode(), headers),
        ("POST", "/models/tagger/suggest", urlencode({"text": TEXT}).encode(), headers),
        ("POST", "/models/tagger/suggest", urlencode({**form, "limit": "many"}).encode(), headers),
        ("POST", "/models/tagger/suggest", b"limit=3", headers),
    )
    assert info.json["is_trained"] is True
    assert datetime.fromisoformat(info.json["modification_time"]).tzinfo is not None
    labels, scores = model.predict(model.text.transform([TEXT]), top=3)
    assert [hit["uri"] for hit in found.json["results"]] == [model.label_names[j] for j in labels[0]]
    assert [hit["score"] for hit in found.json["results"]] == pytest.approx(scores[0].tolist(), abs=1e-6)
    assert len(default.json["results"]) == 10
    assert (wrong.status, missing.status) == (400, 400)


def test_long_forms_are_read_by_a_thread(service, monkeypatch):
    threads = []
    read = service.reader.suggest

    def suggest(*arguments):
        threads.append(threading.current_thread() is threading.main_thread())
        return read(*arguments)

    monkeypatch.setattr(service.reader, "suggest", suggest)
    bodies = (b"text=tea", b"text=tea&more=" + b"x" * 70_000)
    found = talk(service, *(("POST", "/models/tagger/suggest", body) for body in bodies))
    assert [answer.status for answer in found] == [200, 200]
    assert threads == [True, False]


# Bad requests


@pytest.mark.parametrize(
    ("path", "body", "status", "message"),
    [
        ("/predict", b"", 400, "the body is not JSON"),
        ("/predict", b"\xff", 400, "not UTF-8"),
        ("/predict", b'{"text": "\\ud800"}', 400, "unpaired surrogate"),
        ("/predict", b"[" * 100_000, 400, "nested too deeply"),
        ("/predict", b'{"top": NaN}', 400, "not a finite number"),
        ("/predict", [], 400, "not a JSON object"),
        ("/predict", {}, 400, "expected one of the fields text, texts or rows, but there is none"),
        ("/predict", {"text": "a", "rows": []}, 400, "there are text and rows"),
        ("/predict", {"txt": "a"}, 400, "unknown field 'txt'"),
        ("/predict", {"text": 3}, 400, "'text' is not a string"),
        ("/predict", {"texts": "a"}, 400, "'texts' is not a list"),
        ("/predict", {"texts": ["a", None]}, 400, "text 1 is not a string"),
        ("/predict", {"text": "a", "top": 0}, 400, "top is 0, expected an integer from 1 to 1,000"),
        ("/predict", {"text": "a", "top": True}, 400, "top is True"),
        ("/predict", {"text": "a", "top": 10**400}, 400, "top is"),
        ("/predict", {"text": "a", "threshold": "x"}, 400, "threshold is 'x', expected a number from 0 to 1"),
        ("/predict", {"text": "a", "names": 1}, 400, "names is 1"),
        ("/predict", {"text": "a", "model": 3}, 400, "'model' is not a string"),
        ("/predict", {"text": "a", "model": "b"}, 404, "there is no model 'b'"),
        ("/predict", {"text": "a", "model": "model"}, 400, "the model was not trained on text"),
        ("/predict", {"rows": [3]}, 400, "row 0 is not an object"),
        ("/predict", {"rows": [{"indices": [0], "values": []}]}, 400, "of the same length"),
        ("/predict", {"rows": [{"indices": [-1], "values": [1]}]}, 400, "an index that no feature has"),
        ("/predict", {"rows": [{"indices": [0.5], "values": [1]}]}, 400, "an index that no feature has"),
        ("/predict", {"rows": [{"indices": [1, 1], "values": [1, 2]}]}, 400, "row 0 has feature 1 twice"),
        ("/predict", {"rows": [{"indices": [1], "values": [1e16]}]}, 400, "a value that is not a number"),
        ("/predict", {"rows": [{"indices": [1], "values": ["1"]}]}, 400, "a value that is not a number"),
        ("/predict", {"texts": ["a"] * 101}, 413, "'texts' has 101 entries, expected at most 100"),
        ("/predict", {"texts": ["a"] * 100 + ["b" * 1]}, 413, "entries"),
        ("/predict", {"text": "a" * 1001}, 413, "'text' has 1,001 characters, expected at most 1,000"),
        ("/predict", b"x" * 200_001, 413, "the body is too long"),
        ("/explain", {"text": "a", "row": {}}, 400, "there are text and row"),
        ("/explain", {"text": "a", "label": 10**9}, 400, "'label' is not the name"),
        ("/explain", {"text": "a", "label": "9" * 1001}, 400, "'label' is not the name"),
        ("/explain", {"text": "a", "label": []}, 400, "'label' is not the name"),
        ("/explain", {"text": "a", "words": -1}, 400, "words is -1"),
        ("/models/x/suggest", b"text=a", 404, "there is no model 'x'"),
        ("/models/tagger/suggest", b"text=%ff", 400, "the form fields cannot be read"),
        ("/models", b"", 405, "POST is not supported here"),
        ("/nothing", b"", 404, "there is nothing at this path"),
    ],
)
def test_bad_requests(registry, path, body, status, message):
    settings = ServiceSettings(max_texts=100, max_length=1000, max_body=200_000)
    [answer] = talk(Service(registry, settings), ("POST", path, body))
    error = answer.json["error"]
    assert (answer.status, error["status"]) == (status, status)
    assert message in error["message"]


def test_too_many_labels_in_one_answer(service):
    [answer] = talk(service, ("POST", "/predict", {"texts": ["a"] * 1000, "top": 1000}))
    assert (answer.status, "too many for one answer" in answer.json["error"]["message"]) == (400, True)


@pytest.mark.parametrize(
    "path", ["labels?limit=0", "labels?limit=1e9", "labels?offset=-1", "labels/0?words=x"]
)
def test_bad_queries(service, path):
    [answer] = talk(service, ("GET", f"/models/tagger/{path}"))
    assert (answer.status, set(answer.json["error"])) == (400, {"status", "message"})


def test_slow_and_cut_off_bodies(registry):
    service = Service(registry, ServiceSettings(timeout=0.01, max_body=100))
    start = ("POST", "/predict", b"", ())
    slow, gone, long, announced = talk(
        service,
        (*start, [b'{"text"']),
        (*start, [b'{"text"', None]),
        (*start, [b" " * 60] * 2),
        ("POST", "/predict", b"{}", [("Content-Length", "101")]),
    )
    assert (slow.status, slow.headers["connection"]) == (408, "close")
    assert gone is None
    assert (long.status, announced.status) == (413, 413)


def test_other_methods(service):
    answers = talk(service, ("GET", "/predict"), ("DELETE", "/models"), ("GET", "/models/tagger/suggest"))
    assert [answer.status for answer in answers] == [405] * 3


def test_a_slash_at_the_end_is_another_path(service):
    [answer] = talk(service, ("GET", "/metrics/"))
    assert answer.status == 404


# Host names


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ("LocalHost:8080", "localhost"),
        ("localhost.", "localhost"),
        ("127.0.0.1", "127.0.0.1"),
        ("[::1]:80", "::1"),
        ("[::1]", "::1"),
        ("::1", "::1"),
        ("evil.example:8080", "evil.example"),
        ("localhost:x", "localhost:x"),
        ("", ""),
    ],
)
def test_names_in_host_headers(value, name):
    assert host_name(value) == name


def test_host(registry):
    service = Service(registry, ServiceSettings(hosts=frozenset({"localhost", "tagger.example"})))
    wanted = [("localhost:8080", 200), ("tagger.example", 200), ("evil.example", 403), ("localhost@x", 403)]
    for path, method, body in (
        ("/models", "GET", b""),
        ("/predict", "POST", {"text": TEXT}),
        ("/", "GET", b""),
    ):
        found = talk(service, *((method, path, body, [("Host", host)]) for host, _ in wanted))
        assert [answer.status for answer in found] == [status for _, status in wanted]
        assert talk(service, (method, path, body))[0].status == 200  # not from a browser


def test_allowed_hosts():
    local = {"localhost", "127.0.0.1", "::1"}
    with process.listen("127.0.0.1", 0) as here, process.listen("0.0.0.0", 0) as anywhere:
        assert process.allowed_hosts(here, ["127.0.0.1"], []) == local
        assert process.allowed_hosts(here, ["MyHost"], ["A.example"]) == local | {"myhost", "a.example"}
        assert process.allowed_hosts(anywhere, ["0.0.0.0"], []) is None
        assert process.allowed_hosts(anywhere, ["0.0.0.0"], ["b"]) == local | {"0.0.0.0", "b"}


# Bodies


def test_bodies_of_all_requests_have_a_limit(registry):
    service = Service(registry, ServiceSettings(max_buffered=100))

    async def run():
        async with running(service):
            parts = [b'{"text": "', b"x" * 60]
            slow = asyncio.create_task(ask(service, "POST", "/predict", pieces=parts))
            while service.buffered.size < 70:
                await asyncio.sleep(0)
            refused = await ask(service, "POST", "/predict", {"text": "x" * 60})
            slow.cancel()
            await asyncio.gather(slow, return_exceptions=True)
            fits = await ask(service, "POST", "/predict", {"text": "x" * 60})
            return refused, fits

    refused, fits = asyncio.run(run())
    assert (refused.status, refused.headers["retry-after"], fits.status) == (503, "1", 200)
    assert service.buffered.size == 0


# Tokens


def test_token(registry):
    service = Service(registry, ServiceSettings(token="secret-token"))
    wanted = [
        ((), 401),
        ([("Authorization", "Bearer secret-token")], 200),
        ([("Authorization", "bearer  secret-token")], 200),
        ([("Authorization", "Basic secret-token")], 401),
        ([("Authorization", "Bearer secret-toker")], 401),
        ([("Authorization", "Bearer secret-token")] * 2, 401),
    ]
    for path, method, body in (("/models", "GET", b""), ("/predict", "POST", {"text": TEXT})):
        answers = talk(service, *((method, path, body, headers) for headers, _ in wanted))
        assert [answer.status for answer in answers] == [status for _, status in wanted]
    assert talk(service, ("GET", "/metrics"))[0].headers["www-authenticate"] == "Bearer"
    opened = talk(service, *(("GET", path) for path in ("/healthz", "/readyz", "/docs", "/openapi.json")))
    assert [answer.status for answer in opened] == [200] * 4


def test_an_error_of_the_library_shows_no_path():
    error = RequestError.of(labeltree.InputError("wrong", file="/secret/path", hint="stop"))
    assert (error.status, error.message, error.hint) == (400, "wrong", "stop")


# New versions of a model


def test_a_new_version_is_opened(tagger, folder, tmp_path):
    path = tmp_path / "model"
    labeltree.load(tagger).save(path)
    lines = []
    registry = Registry([path], lines.append)
    old = registry.find()
    registry.refresh()
    assert (registry.find() is old, lines) == (True, [])
    labeltree.load(folder / "model").save(path, overwrite=True)
    registry.refresh()
    new = registry.find("model")
    assert (new.model.text, lines) == (None, ["model: opened the new model"])
    # A request that began with the old model ends with it.
    assert old.model.predict(old.model.text.transform([TEXT]))[0][0, 0] >= 0
    (path / "manifest.json").write_text("{}")
    registry.refresh()
    registry.refresh()
    assert registry.find() is new
    assert lines[1].startswith("model: kept the old model: ")
    assert (len(lines), registry.reloads, registry.failures) == (2, 1, 1)


def test_watching(tagger, tmp_path):
    path = tmp_path / "model"
    model = labeltree.load(tagger)
    model.save(path)
    opened = []
    registry = Registry([path], opened.append)
    service = Service(registry, ServiceSettings(watch=0.01))

    async def run():
        async with running(service):
            model.save(path, overwrite=True)
            for _ in range(6000):
                if opened:
                    return
                await asyncio.sleep(0.01)

    asyncio.run(run())
    assert opened == ["model: opened the new model"]


def test_watching_goes_on_after_any_failure(tagger, tmp_path, monkeypatch, caplog):
    path = tmp_path / "model"
    model = labeltree.load(tagger)
    model.save(path)
    lines = []
    service = Service(Registry([path], lines.append), ServiceSettings(watch=0.01))
    failures = [KeyError("one"), ZeroDivisionError()]

    def fail_at_first(where):
        if failures:
            raise failures.pop(0)
        return load(where)

    load = registry_module.load
    monkeypatch.setattr(registry_module, "load", fail_at_first)
    look = service.registry.refresh
    broken = [OSError("no standard error")]

    def refresh():
        if broken:
            raise broken.pop()
        look()

    monkeypatch.setattr(service.registry, "refresh", refresh)

    async def run():
        async with running(service):
            for n_lines in (1, 2, 3):
                model.save(path, overwrite=True)
                for _ in range(6000):
                    if len(lines) >= n_lines:
                        break
                    await asyncio.sleep(0.01)

    asyncio.run(run())
    kept = "model: kept the old model: "
    assert lines == [kept + "'one'", kept + "ZeroDivisionError", "model: opened the new model"]
    assert "no standard error" in caplog.text


def test_two_models_of_one_name(tagger):
    with pytest.raises(labeltree.InputError, match="two models have the name 'tagger'"):
        Registry([tagger, tagger], print)


def test_settings_have_limits():
    with pytest.raises(labeltree.InputError, match="timeout is 0, expected a positive number"):
        ServiceSettings(timeout=0)


# Metrics, and what was measured


def test_a_worker_that_is_started_again_goes_on_counting():
    metrics = Metrics(2)
    for _ in range(2):
        metrics.use_row(1)
        for name in ("refused", "reloads", "reload_failures"):
            metrics.add(name, 2)
        metrics.put("waiting", 7)
    metrics.use_row(1)
    lines = metrics.text(()).splitlines()
    assert {"labeltree_refused_total 4", "labeltree_reloads_total 4"} < set(lines)
    assert {"labeltree_reload_failures_total 4", "labeltree_waiting_rows 0"} < set(lines)


def test_results_are_those_of_the_model_that_was_opened(tagger, tmp_path):
    path = tmp_path / "tagger"
    shutil.copytree(tagger, path)
    (path / "precision.csv").write_text("label,predicted,correct\n0,4,1\n")
    service = Service(Registry([path], print))
    (path / "precision.csv").write_text("label,predicted,correct\n0,4,4\n")
    os.utime(path / "manifest.json", (0, 0))
    [answer] = talk(service, ("GET", "/models/tagger/overview"))
    assert answer.json["precision"] == 0.25
    assert not answer.json["written"].startswith("1970")
