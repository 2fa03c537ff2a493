"""The service: answers, errors, limits, batches, tokens, new versions of a model, and what Annif sends."""

import asyncio
import gzip
import json
import os
import re
import shutil
import socket
import threading
import time
from datetime import datetime
from pathlib import Path
from urllib.parse import urlencode

import numpy as np
import pytest
from pydantic import TypeAdapter
from starlette.testclient import TestClient

import labeltree
from labeltree.cli import main
from labeltree.explain.label import describe_label
from labeltree.explain.prediction import explain_prediction
from labeltree.serve import app, batcher, responses, server
from labeltree.serve.app import create_app
from labeltree.serve.errors import RequestError
from labeltree.serve.guard import host_name
from labeltree.serve.models import Models
from labeltree.serve.prometheus import Metrics
from labeltree.serve.settings import ServiceSettings

EXAMPLES = Path(__file__).parents[2] / "examples"
TEXT = "A light for the handlebar of a bicycle"


@pytest.fixture(scope="module")
def tagger(tmp_path_factory):
    path = tmp_path_factory.mktemp("serve") / "tagger"
    assert main(["train", str(EXAMPLES / "catalog-train.tsv"), str(path), "--quiet"]) == 0
    return path


@pytest.fixture(scope="module")
def models(tagger, folder):
    shutil.copytree(folder / "model", folder / "unsure")
    labeltree.load(folder / "unsure").store_decision(None, None)
    return Models([tagger, folder / "model", folder / "named-model", folder / "unsure"])


class DocumentedClient(TestClient):
    """Compares every answer with the OpenAPI document: its status, its content type and all its fields."""

    def request(self, method, url, **options):
        answer = super().request(method, url, **options)
        for template, operations in self.app.openapi()["paths"].items():
            path = template.replace("{name}", "[^/]+").replace("{label}", ".*")
            if re.fullmatch(path, answer.url.path) and method.lower() in operations:
                described = operations[method.lower()]["responses"][str(answer.status_code)]
                kind = answer.headers["content-type"].partition(";")[0]
                reference = described["content"][kind]["schema"].get("$ref")
                if reference is not None:
                    fields = TypeAdapter(getattr(responses, reference.rpartition("/")[2]))
                    read = fields.dump_json(fields.validate_json(answer.content), exclude_unset=True)
                    known = json.loads(read)
                    assert known == {name: answer.json()[name] for name in known}
                    assert known.keys() == answer.json().keys() or "is_trained" in known
        return answer


def client_of(models, **settings):
    """Return a client of a service with these settings; its address is one that browsers use."""
    service = create_app(models, ServiceSettings(**settings))
    return DocumentedClient(service, base_url="http://localhost", raise_server_exceptions=False)


@pytest.fixture(scope="module")
def client(models):
    with client_of(models) as opened:
        yield opened


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


@pytest.mark.parametrize("in_a_thread", [False, True])
def test_texts(client, tagger, monkeypatch, in_a_thread):
    monkeypatch.setattr(app, "_MANY", 0 if in_a_thread else app._MANY)
    model = labeltree.load(tagger)
    texts = [TEXT, "Keeps tea hot", "", "wwwww"]
    one = client.post("/predict", json={"text": TEXT})
    many = client.post("/predict", json={"model": "tagger", "texts": texts, "top": 3}).json()
    assert one.headers["x-content-type-options"] == "nosniff"
    assert one.json() == {"model": "tagger", "predictions": expected(model, model.text.transform([TEXT]))}
    assert many["predictions"] == expected(model, model.text.transform(texts), 3)
    assert many["predictions"][2:] == [{"labels": []}] * 2
    assert client.post("/predict", json={"texts": []}).json() == {"model": "tagger", "predictions": []}
    for option, threshold in ({"threshold": 0.5}, 0.5), ({"accepted": True}, "stored"):
        [found] = client.post("/predict", json={"text": TEXT, **option}).json()["predictions"]
        (accepted,), _ = model.predict([TEXT], threshold=threshold)
        assert [item["name"] for item in found["labels"]] == accepted
        assert 0 < len(accepted) < model.n_labels


def test_rows(client, folder):
    model = labeltree.load(folder / "model")
    X = labeltree.read_svm(folder / "test.svm").X[:3]
    rows = [{"indices": row.indices.tolist()[::-1], "values": row.data.tolist()[::-1]} for row in X]
    rows[0]["indices"] = list(map(float, rows[0]["indices"]))  # integers in JSON Schema
    rows.append({"indices": [], "values": []})
    answer = client.post("/predict", json={"model": "model", "rows": rows})
    X.resize(4, X.shape[1])
    assert answer.json()["predictions"] == expected(model, X)


def test_requests_at_the_same_time_form_batches(models, tagger, folder, monkeypatch):
    monkeypatch.setattr(batcher, "BATCH_ROWS", 8)
    metrics = Metrics()
    model, named = labeltree.load(tagger), labeltree.load(folder / "named-model")
    X = labeltree.read_svm(folder / "test.svm").X
    texts = [f"{TEXT} {i}" for i in range(30)]
    served, other = models.find("tagger"), models.find("named-model")

    async def run():
        batches = batcher.Batcher(metrics, 100)
        single = [batches.predict(served, [text], 1 + i % 7) for i, text in enumerate(texts)]
        found = await asyncio.gather(
            *single, batches.predict(served, texts, 5), batches.predict(other, X[:1], 5)
        )
        assert batches.n_waiting == 0
        with pytest.raises(RequestError, match="too many requests are waiting"):
            await batches.predict(served, texts * 4, 5)
        batches.close()
        return found

    *single, large, rows = asyncio.run(run())
    wanted = model.predict(model.text.transform(texts), top=7)
    for i, found in enumerate(single):
        for part, whole in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(part[0], whole[i, : 1 + i % 7])
    np.testing.assert_array_equal(large[0], wanted[0][:, :5])
    np.testing.assert_array_equal(rows[1], named.predict(X[:1])[1])
    text = metrics.text().decode()
    assert "labeltree_batch_rows_sum 61.0\n" in text  # in batches of up to 8
    assert float(text.split("labeltree_batch_rows_count ")[1].split()[0]) <= 12
    assert "labeltree_refused_total 1.0\n" in text


def test_a_failure_is_logged_but_not_shown(client, monkeypatch):
    def fail(*_):
        raise RuntimeError("secret")

    monkeypatch.setattr(batcher, "_predict", fail)
    answer = client.post("/predict", json={"text": TEXT})
    assert (answer.status_code, answer.json()["error"]["message"]) == (500, "the service failed")
    assert "secret" not in answer.text


def test_time_limits(models, monkeypatch):
    release = threading.Event()
    monkeypatch.setattr(batcher, "_predict", lambda *_: release.wait())
    with client_of(models, timeout=1) as client:
        late = client.post("/predict", json={"text": TEXT})
        release.set()
    assert late.status_code == 504
    assert late.json()["error"]["message"] == "the request was not answered within 1 seconds"


# Explanations, models and labels


def test_explain(client, tagger):
    model = labeltree.load(tagger)
    text = client.post("/explain", json={"text": TEXT, "top": 2}).json()
    [tea] = client.post("/explain", json={"text": TEXT, "label": "tea", "words": 2}).json()["predictions"]
    found = explain_prediction(model, TEXT, top=2)
    assert [item["name"] for item in text["predictions"]] == [item.name for item in found]
    step = text["predictions"][0]["paths"][0]["steps"][0]
    assert step["margin"] == pytest.approx(found[0].paths[0].steps[0].margin)
    assert tea["name"] == "tea"
    assert tea["score"] < found[0].score


def test_models(client, tagger, run):
    listed = client.get("/models").json()["models"]
    assert [model["name"] for model in listed] == ["tagger", "model", "named-model", "unsure"]
    model = labeltree.load(tagger)
    sizes = {"labels": model.n_labels, "features": model.n_features, "trees": 1, "bytes": model.bytes}
    assert listed[0] == {"name": "tagger", **sizes, "text": True, "names": True}
    one = client.get("/models/tagger")
    printed = json.loads(run("info", tagger, "--json")[1])
    assert {key: one.json()[key] for key in printed} == {**printed, "model": "tagger"}
    assert str(tagger.parent) not in one.text


def test_labels(client, tagger):
    model = labeltree.load(tagger)
    get = lambda path: client.get(f"/models/{path}").json()  # noqa: E731
    order = np.argsort(-model.label_counts, kind="stable")
    page = get("tagger/labels?limit=3&offset=1")
    assert page["total"] == model.n_labels
    assert [label["label"] for label in page["labels"]] == order[1:4].tolist()
    assert page["labels"][0]["count"] == model.label_counts[order[1]]
    found = get("tagger/labels?search=TEA")["labels"]
    assert {label["name"] for label in found} == {n for n in model.label_names if "tea" in n}
    profile = get("tagger/labels/0")
    assert profile["name"] == model.label_names[0]
    wanted = describe_label(model, 0).paths[0][0].supporting[0].name
    assert profile["paths"][0][0]["supporting"][0]["name"] == wanted
    assert get("tagger/labels/tea")["label"] == model.label_names.index("tea")
    numbers = get("model/labels?search=1&limit=1000")
    assert all("1" in str(label["label"]) for label in numbers["labels"])
    assert numbers["total"] == len(numbers["labels"]) > 0


def test_health_metrics_and_schema(models):
    with client_of(models) as client:
        assert client.get("/healthz").status_code == client.get("/readyz").status_code == 200
        client.get("/models/nope")
        client.get("/nope")
        metrics = client.get("/metrics").text
        for endpoint, status in ("/healthz", 200), ("/models/{name}", 404), ("other", 404):
            assert f'labeltree_requests_total{{endpoint="{endpoint}",status="{status}"}} 1.0\n' in metrics
        schema = client.get("/openapi.json").json()
        rules = [
            schema["components"]["schemas"][name]["allOf"] for name in ("PredictRequest", "ExplainRequest")
        ]
        assert [[*rule] for rules in rules for rule in rules] == [["oneOf"], ["anyOf"], ["oneOf"]]
    assert {"/predict", "/explain", "/models", "/models/{name}/suggest"} <= set(schema["paths"])
    operations = [one for operations in schema["paths"].values() for one in operations.values()]
    assert all("422" not in one["responses"] and "401" not in one["responses"] for one in operations)
    assert len({one["operationId"] for one in operations}) == len(operations)
    row = schema["components"]["schemas"]["Row"]["properties"]
    assert (row["indices"]["uniqueItems"], row["indices"]["items"]["maximum"]) == (True, 2**31 - 1)
    with client_of(models, token="secret-token") as client:
        schema = client.get("/openapi.json", headers={"Authorization": "Bearer secret-token"}).json()
    assert schema["paths"]["/predict"]["post"]["security"] == [{"token": []}]
    assert "security" not in schema["paths"]["/healthz"]["get"]
    assert schema["components"]["securitySchemes"] == {"token": {"type": "http", "scheme": "bearer"}}


def test_annif(client, tagger):
    model = labeltree.load(tagger)
    form = {"text": TEXT, "metadata_title": "x", "project": "p", "limit": "3"}

    def suggest(fields):
        headers = {"Content-Type": "application/x-www-form-urlencoded", "User-Agent": "Annif/1.4.3"}
        return client.post("/models/tagger/suggest", content=urlencode(fields).encode(), headers=headers)

    info = client.get("/models/tagger").json()
    assert info["is_trained"] is True
    assert datetime.fromisoformat(info["modification_time"]).tzinfo is not None
    labels, scores = model.predict(model.text.transform([TEXT]), top=3)
    found = suggest(form).json()["results"]
    assert [hit["uri"] for hit in found] == [model.label_names[j] for j in labels[0]]
    assert [hit["score"] for hit in found] == pytest.approx(scores[0].tolist(), abs=1e-6)
    assert len(suggest({"text": TEXT}).json()["results"]) == 10
    assert "limit: " in suggest({**form, "limit": "many"}).json()["error"]["message"]
    assert "text: " in suggest({"limit": "3"}).json()["error"]["message"]


# Bad requests


@pytest.fixture(scope="module")
def limited(models):
    with client_of(models, max_texts=100, max_length=1000, max_body=200_000) as opened:
        yield opened


@pytest.mark.parametrize(
    ("path", "body", "status", "message"),
    [
        ("/predict", b"", 400, "the body is not a JSON object"),
        ("/predict", b"{", 400, "the body is not JSON"),
        ("/predict", b"\xff", 400, "there was an error parsing the body"),
        ("/predict", b'{"text": "\\ud800"}', 400, "text: input should be a valid string"),
        ("/predict", b"[" * 100_000, 400, "there was an error parsing the body"),
        ("/predict", b'{"text": "a", "threshold": NaN}', 400, "threshold: input should be"),
        ("/predict", [], 400, "not a JSON object"),
        ("/predict", {}, 400, "expected one of the fields text, texts or rows, but there is none"),
        ("/predict", {"text": "a", "rows": []}, 400, "there are text and rows"),
        ("/predict", {"txt": "a"}, 400, "unknown field 'txt'"),
        ("/predict", {"texts": ["a", None]}, 400, "texts[1]: input should be a valid string"),
        ("/predict", {"text": "a", "top": 0}, 400, "top: input should be greater than or equal to 1"),
        ("/predict", {"text": "a", "top": 10**400}, 400, "top: "),
        ("/predict", {"text": "a", "top": "5"}, 400, "top: "),
        ("/explain", {"text": "a", "label": "0" * 1001}, 400, "label"),
        ("/predict", {"text": "a", "accepted": True, "threshold": 0.5}, 400, "exclude each other"),
        ("/predict", {"text": "a", "model": "b"}, 404, "there is no model 'b'"),
        ("/predict", {"text": "a", "model": "model"}, 409, "the model was not trained on text"),
        ("/predict", {"rows": [{"indices": [0], "values": []}]}, 409, "different lengths"),
        ("/predict", {"rows": [{"indices": [-1], "values": [1]}]}, 400, "rows[0].indices[0]: "),
        ("/predict", {"rows": [{"indices": [10**6], "values": [1]}]}, 404, "there is no feature 1000000"),
        ("/predict", {"rows": [{"indices": [1, 1], "values": [1, 2]}]}, 400, "a row has a feature twice"),
        ("/predict", {"rows": [{"indices": [1], "values": [1e16]}]}, 400, "rows[0].values[0]: "),
        ("/predict", {"texts": ["a"] * 101}, 413, "there are 101 texts or rows, expected at most 100"),
        ("/predict", {"text": "a" * 1001}, 413, "a text has 1,001 characters, expected at most 1,000"),
        ("/predict", b"x" * 200_001, 413, "the body is too long"),
        ("/explain", {"text": "a", "row": {"indices": [], "values": []}}, 400, "there are text and row"),
        ("/predict", {"text": "a", "accepted": True, "model": "model"}, 409, "not trained on text"),
        ("/predict", {"rows": [], "accepted": True, "model": "unsure"}, 409, "the model has no threshold"),
        ("/explain", {"text": "a", "label": 10**6}, 404, "label is 1000000"),
        ("/explain", {"text": "a", "top": 2.5}, 400, "top: input should be a valid integer"),
        ("/explain", {"text": "a", "label": "taxi"}, 404, "no label 'taxi'"),
        ("/models/x/suggest", b"text=a", 404, "there is no model 'x'"),
        ("/models/tagger/suggest", b"text=%ff", 400, "the form fields cannot be read"),
        ("/models", b"", 405, "method not allowed"),
        ("/nothing", b"", 404, "not found"),
    ],
)
def test_bad_requests(limited, path, body, status, message):
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    answer = limited.post(path, content=content, headers={"Content-Type": "application/json"})
    error = answer.json()["error"]
    assert (answer.status_code, error["status"]) == (status, status)
    assert message in error["message"]


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/models/tagger/labels?limit=0", 400),
        ("/models/tagger/labels/taxi", 404),
        ("/models/tagger/labels/" + "9" * 1000, 404),
        ("/models/tagger/labels/" + "9" * 5000, 400),
        ("/models/tagger/tree?node=99999", 404),
        ("/models/x", 404),
        ("/predict", 405),
        ("/metrics/", 404),
        ("/page/x", 404),
    ],
)
def test_bad_queries(client, path, status):
    answer = client.get(path)
    assert answer.status_code == status
    assert set(answer.json()["error"]) <= {"status", "message", "hint"}
    assert len(answer.content) < 500


def test_limits_of_answers_and_encodings(client):
    answer = client.post("/predict", json={"texts": ["a"] * 1000, "top": 1000})
    assert (answer.status_code, "too many for one answer" in answer.text) == (413, True)
    for name in ("transfer encoding", "content encoding"):
        answer = client.post("/predict", json={"text": "a"}, headers={name.replace(" ", "-"): "gzip, br"})
        assert (answer.status_code, answer.headers["accept-encoding"]) == (415, "gzip")
        assert answer.json()["error"]["message"] == f"the {name} 'gzip, br' is not supported"
    assert client.get("/predict").headers["allow"] == "POST"
    answer = client.post("/predict", content=b"text=a", headers={"Content-Type": "text/plain"})
    assert answer.json()["error"]["hint"] == "send an object, with the header Content-Type: application/json"


def test_compressed_requests(limited):
    body = json.dumps({"texts": [TEXT] * 100}).encode()
    packed = gzip.compress(body)
    bomb, many = gzip.compress(bytes(10**8)), gzip.compress(body + b" " * 200_000)
    plain = limited.post("/predict", content=body, headers={"Content-Type": "application/json"})
    for content, encoding, status, message in (
        (packed, "gzip", 200, ""),
        (packed, "GZIP", 200, ""),
        (body, "identity", 200, ""),
        (body, "gzip", 400, "the body is not compressed with gzip"),
        (packed[:-9], "gzip", 400, "the body is not compressed with gzip"),
        (packed + packed, "gzip", 400, "the body is not compressed with gzip"),
        (many, "gzip", 413, "the body is too long, expected at most 200,000 bytes"),
        (bomb, "gzip", 413, "the body is too long, expected at most 200,000 bytes"),
    ):
        headers = {"Content-Type": "application/json", "Content-Encoding": encoding}
        answer = limited.post("/predict", content=content, headers=headers)
        assert (answer.status_code, answer.json().get("error", {}).get("message", "")) == (status, message)
        assert status != 200 or answer.json() == plain.json()
    assert limited.get("/models", headers={"Content-Encoding": "gzip"}).status_code == 200


def test_compressed_answers(client):
    for accepted, texts, encoding in (("gzip", 100, "gzip"), ("identity", 100, None), ("gzip", 1, None)):
        headers = {"Accept-Encoding": accepted}
        answer = client.post("/predict", json={"texts": [TEXT] * texts}, headers=headers)
        assert answer.headers.get("content-encoding") == encoding
        assert len(answer.json()["predictions"]) == texts
        assert int(answer.headers["content-length"]) < len(answer.content) or encoding is None


def test_bodies_of_all_requests_have_a_limit(models):
    with client_of(models, max_buffered=100) as client:
        answers = [client.post("/predict", json={"text": "x" * size}) for size in (60, 100, 60)]
    assert [answer.status_code for answer in answers] == [200, 503, 200]
    assert answers[1].headers["retry-after"] == "1"


# Tokens and host names


def test_token(models):
    with client_of(models, token="secret-token") as client:
        for authorization, status in (
            (None, 401),
            ("Bearer secret-token", 200),
            ("bearer  secret-token", 200),
            ("Basic secret-token", 401),
            ("Bearer secret-toker", 401),
            ("Bearer gehe\xefm", 401),
        ):
            headers = {} if authorization is None else {"Authorization": authorization.encode("latin-1")}
            assert client.get("/models", headers=headers).status_code == status
            assert client.post("/predict", json={"text": TEXT}, headers=headers).status_code == status
        for path in ("/metrics", "/openapi.json", "/nothing"):
            answer = client.get(path)
            assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
        for path in ("/healthz", "/readyz", "/", "/page/page.css"):
            assert client.get(path).status_code == 200


def test_names_in_host_headers():
    names = {
        "localhost": ("LocalHost:8080", "localhost."),
        "127.0.0.1": ("127.0.0.1", "127.0.0.1:80"),
        "::1": ("[::1]:80", "::1"),
        "evil.example": ("evil.example:8080",),
        "localhost:x": ("localhost:x",),
        "": ("",),
    }
    for name, values in names.items():
        assert {host_name(value) for value in values} == {name}


def test_hosts(models):
    with client_of(models, hosts=frozenset({"localhost", "tagger.example"})) as client:
        for host, status in (("localhost:80", 200), ("tagger.example", 200), ("evil.example", 403)):
            for path in ("/models", "/"):
                assert client.get(path, headers={"Host": host}).status_code == status
    local = {"localhost", "127.0.0.1", "::1"}
    with server.listen("127.0.0.1", 0) as here, server.listen("0.0.0.0", 0) as anywhere:
        assert server.allowed_hosts(here, "127.0.0.1", []) == local
        assert server.allowed_hosts(here, "MyHost", ["A.example"]) == local | {"myhost", "a.example"}
        assert server.allowed_hosts(anywhere, "0.0.0.0", []) is None
        assert server.allowed_hosts(anywhere, "0.0.0.0", ["b"]) == local | {"0.0.0.0", "b"}
        with socket.create_connection(here.getsockname()), here.accept()[0] as accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


# New versions of a model


def test_a_new_version_is_opened(tagger, folder, tmp_path, caplog):
    caplog.set_level("INFO", "labeltree.serve")
    path = tmp_path / "model"
    labeltree.load(tagger).save(path)
    models = Models([path])
    old = models.find()
    models.refresh()
    assert models.find() is old
    labeltree.load(folder / "model").save(path, overwrite=True)
    models.refresh()
    new = models.find("model")
    assert new.model.text is None
    # A request that began with the old model ends with it.
    assert old.model.predict(old.model.text.transform([TEXT]))[0][0, 0] >= 0
    (path / "manifest.json").write_text("{}")
    models.refresh()
    models.refresh()
    assert models.find().model is new.model
    opened, kept = caplog.messages
    assert (opened, kept.startswith("model: kept the old model: ")) == ("model: opened the new model", True)
    shutil.rmtree(path)
    models.refresh()
    assert models.find().model is new.model


@pytest.mark.parametrize("seconds", [0.01, 0])
def test_watching(tagger, tmp_path, seconds):
    path = tmp_path / "model"
    model = labeltree.load(tagger)
    model.save(path)
    models = Models([path])
    models.watch(seconds)
    for _ in range(2):
        old = models.find()
        model.save(path, overwrite=True)
        end = time.monotonic() + 60
        while models.find() is old and time.monotonic() < end:
            if not seconds:
                models.check_soon()
            time.sleep(0.01)
        assert models.find() is not old


def test_errors_and_settings(tagger):
    with pytest.raises(labeltree.InputError, match="two models have the name 'tagger'"):
        Models([tagger, tagger])
    error = RequestError.of(labeltree.InputError("wrong", file="/secret/path", hint="stop"))
    assert (error.status, error.message, error.hint) == (404, "wrong", "stop")
    assert "secret" not in repr(ServiceSettings(token="secret-token"))


def test_results_are_those_of_the_model_that_was_opened(tagger, tmp_path):
    path = tmp_path / "tagger"
    shutil.copytree(tagger, path)
    (path / "precision.csv").write_text("label,predicted,correct\ntea,4,1\n")
    models = Models([path])
    (path / "precision.csv").write_text("label,predicted,correct\ntea,4,4\n")
    os.utime(path / "manifest.json", (0, 0))
    with client_of(models) as client:
        answer = client.get("/models/tagger").json()
    assert answer["precision"] == 0.25
    assert not answer["written"].startswith("1970")
    (path / "precision.csv").write_text("damaged")
    assert Models([path]).find().measured.hits is None
