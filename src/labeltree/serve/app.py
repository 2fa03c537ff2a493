"""The application: one function per path, from the validated request to the response."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any
from urllib.parse import parse_qsl

from anyio.to_thread import current_default_thread_limiter, run_sync
from fastapi import APIRouter, FastAPI, Path, Query, Request, Security
from fastapi.exceptions import RequestValidationError
from fastapi.security import HTTPBearer
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.responses import PlainTextResponse, Response

from labeltree._version import __version__
from labeltree.base.limits import LARGEST_INT32, MAP_BOXES, MAP_DEPTH
from labeltree.errors import InputError
from labeltree.evaluation.accepted import Decision
from labeltree.explain.label import describe_label
from labeltree.explain.prediction import explain_prediction
from labeltree.serve import responses, schemas
from labeltree.serve.batcher import Batcher, Queries, Ranked
from labeltree.serve.errors import JsonResponse, RequestError
from labeltree.serve.guard import Guard
from labeltree.serve.models import Models, ServedModel
from labeltree.serve.page import FILES, SECURITY_POLICY, overview, page_file
from labeltree.serve.prometheus import Metrics
from labeltree.serve.settings import MOST_ANSWERS, MOST_LABELS, MOST_NAME, MOST_WORDS, ServiceSettings
from labeltree.serve.tree_map import tree_map
from labeltree.settings import DEFAULT_TOP, DEFAULT_WORDS, MAX_ACCEPTED

Number = Annotated[int, Query(ge=0, le=LARGEST_INT32)]
_FORM_FIELDS = 1000
# Explanations at a time: nothing can interrupt them, but those that wait are dropped after the time limit.
_THREADS = 4
# Labels in an answer that is written in a thread, so that other requests need not wait.
_MANY = 10_000
# What the service can fail with; the client learns of the last one that it failed, and the log says why.
_ERRORS = (RequestError, InputError, RequestValidationError, ValidationError, HTTPException, Exception)


def create_app(
    models: Models, settings: ServiceSettings | None = None, metrics: Metrics | None = None
) -> FastAPI:
    """Return the service as an ASGI application."""
    settings, metrics = settings or ServiceSettings(), metrics or Metrics()
    batcher = Batcher(metrics, settings.max_waiting)

    @asynccontextmanager
    async def life(_: FastAPI) -> AsyncIterator[None]:
        current_default_thread_limiter().total_tokens = _THREADS
        yield
        batcher.close()

    app = FastAPI(
        title="labeltree",
        version=__version__,
        lifespan=life,
        docs_url=None,  # these pages load scripts from other sites
        redoc_url=None,
        redirect_slashes=False,
        default_response_class=JsonResponse,
        responses=responses.COMMON_ERRORS,
        generate_unique_id_function=lambda route: route.name,
        exception_handlers=dict.fromkeys(_ERRORS, _answer_error),
    )
    app.add_middleware(Guard, settings=settings, metrics=metrics)
    access: dict[str, Any] = {}
    if settings.token is not None:  # which the guard compares; this documents it
        bearer = Security(HTTPBearer(scheme_name="token", auto_error=False))
        access = {"dependencies": [bearer], "responses": responses.errors(401)}
    app.include_router(_prediction_paths(models, settings, batcher), **access)
    app.include_router(_model_paths(models), **access)
    app.include_router(_metrics_path(metrics), **access)
    app.include_router(_open_paths())
    return app


async def _answer_error(_: Request, error: Exception) -> Response:
    return RequestError.of(error).response()


def _prediction_paths(models: Models, settings: ServiceSettings, batcher: Batcher) -> APIRouter:
    router = APIRouter(responses=responses.errors(400, 404, 409))

    @router.post(
        "/predict", summary="Predict the labels of texts or rows", response_model=responses.PredictResponse
    )
    async def predict(body: schemas.PredictRequest) -> Response:
        served = models.find(body.model)
        texts = body.texts if body.text is None else [body.text]
        number = len(texts or body.rows or [])
        if number > settings.max_texts:
            what = f"there are {number:,} texts or rows, expected at most {settings.max_texts:,}"
            raise RequestError(413, what, "send several requests")
        queries: Queries
        if body.rows is not None:
            queries = schemas.to_matrix(served.model, body.rows, settings)
        else:
            queries = schemas.check_texts(served.model, texts or [], settings)
        decision = _decision(served, body)
        top = body.top or (DEFAULT_TOP if decision is None else MAX_ACCEPTED)
        if number * top > MOST_ANSWERS:
            what = f"{number:,} texts or rows with {top:,} labels each are too many for one answer"
            raise RequestError(413, what, f"ask for at most {MOST_ANSWERS:,} labels in all")
        ranked = await batcher.predict(served, queries, top)
        if decision is not None and number:
            ranked = decision.accept(*ranked)
        if ranked[0].size > _MANY:
            return await run_sync(_answer, served, ranked)
        return _answer(served, ranked)

    @router.post(
        "/explain",
        summary="Explain the labels of a text or a row: paths, and words for and against",
        response_model=responses.ExplainResponse,
    )
    def explain(body: schemas.ExplainRequest) -> Response:
        served = models.find(body.model)
        model = served.model
        query: Any = None if body.row is None else schemas.to_matrix(model, [body.row], settings)
        if query is None:
            [query] = schemas.check_texts(model, [body.text or ""], settings)
        labels = None if body.label is None else [body.label]
        found = explain_prediction(model, query, labels=labels, top=body.top, words=body.words)
        return JsonResponse({"model": served.name, "predictions": [item.to_dict() for item in found]})

    form = {"application/x-www-form-urlencoded": {"schema": schemas.SuggestRequest.model_json_schema()}}

    @router.post(
        "/models/{name}/suggest",
        summary="Predict the labels of a text, in the format of Annif's http backend",
        response_model=responses.SuggestResponse,
        openapi_extra={"requestBody": {"required": True, "content": form}},
    )
    async def suggest(name: str, request: Request) -> Response:
        served = models.find(name)
        try:
            content = (await request.body()).decode()
            fields = parse_qsl(content, True, errors="strict", max_num_fields=_FORM_FIELDS)
        except ValueError:  # also UnicodeDecodeError
            raise RequestError(400, "the form fields cannot be read", "send them URL-encoded") from None
        body = schemas.SuggestRequest.model_validate(dict(fields))
        texts = schemas.check_texts(served.model, [body.text], settings)
        ranked = await batcher.predict(served, texts, body.limit)
        return JsonResponse({"results": _suggestions(served, ranked)})

    return router


def _decision(served: ServedModel, body: schemas.PredictRequest) -> Decision | None:
    """Return which labels to accept: by a threshold, or as stored in the model; None for all."""
    if not body.accepted:
        return None if body.threshold is None else Decision(body.threshold)
    if served.model.decision is None:
        hint = "send a threshold, or choose one with `labeltree threshold`"
        raise RequestError(409, "the model has no threshold", hint)
    return served.model.decision


def _answer(served: ServedModel, ranked: Ranked) -> Response:
    names = served.model.label_names
    rows = []
    for labels, scores in zip(ranked[0].tolist(), ranked[1].tolist(), strict=True):
        entries = [
            {"label": label, "name": names and names[label], "score": float(f"{score:.7g}")}
            for label, score in zip(labels, scores, strict=True)
            if label >= 0
        ]
        rows.append({"labels": entries})
    return JsonResponse({"model": served.name, "predictions": rows})


def _suggestions(served: ServedModel, ranked: Ranked) -> list[dict[str, Any]]:
    """Return labels as Annif expects them: a name in angle brackets is a URI."""
    names, results = served.model.label_names, []
    for label, score in zip(ranked[0][0].tolist(), ranked[1][0].tolist(), strict=True):
        if label >= 0:
            name = str(label) if names is None else names[label]
            uri = name[1:-1] if name.startswith("<") and name.endswith(">") else name
            results.append({"uri": uri, "label": name, "notation": None, "score": round(score, 7)})
    return results


def _model_paths(models: Models) -> APIRouter:
    router = APIRouter(responses=responses.errors(400, 404))

    @router.get("/models", summary="List the models", response_model=responses.ModelsResponse)
    async def list_models() -> Response:
        lines = [
            {
                "name": served.name,
                "labels": served.model.n_labels,
                "features": served.model.n_features,
                "trees": len(served.model.trees),
                "bytes": served.model.bytes,
                "text": served.model.text is not None,
                "names": served.model.label_names is not None,
            }
            for served in models
        ]
        return JsonResponse({"models": lines})

    @router.get(
        "/models/{name}",
        summary="Describe a model, as `labeltree info` does, with measured results",
        response_model=responses.ModelResponse,
    )
    def describe_model(name: str) -> Response:
        served = models.find(name)
        annif = {"is_trained": True, "modification_time": served.measured.written}
        return JsonResponse({"model": name, **overview(served.model, served.measured), **annif})

    @router.get(
        "/models/{name}/labels",
        summary="Search the labels of a model by a part of their names",
        response_model=responses.LabelsResponse,
    )
    def search_labels(
        name: str,
        search: Annotated[str, Query(max_length=MOST_NAME, description="A part of the name.")] = "",
        offset: Number = 0,
        limit: Annotated[int, Query(ge=1, le=MOST_LABELS)] = 50,
    ) -> Response:
        served = models.find(name)
        model, names = served.model, served.model.label_names
        found = served.search(search)
        page = [
            {"label": label, "name": names and names[label], "count": int(model.label_counts[label])}
            for label in found[offset : offset + limit]
        ]
        return JsonResponse({"total": len(found), "labels": page})

    @router.get(
        "/models/{name}/labels/{label:path}",
        summary="Describe a label, given by its number or name",
        response_model=responses.LabelResponse,
    )
    def label(
        name: str,
        label: Annotated[str, Path(max_length=MOST_NAME)],
        words: Annotated[int, Query(ge=0, le=MOST_WORDS)] = DEFAULT_WORDS,
    ) -> Response:
        model = models.find(name).model
        is_number = label.isascii() and label.isdigit() and len(label) < 10 and int(label) < model.n_labels
        found = describe_label(model, int(label) if is_number else label, words=words)
        return JsonResponse({"model": name, **found.to_dict()})

    @router.get(
        "/models/{name}/tree",
        summary="Describe a node of a tree and the largest parts below it",
        response_model=responses.TreeResponse,
    )
    def tree(
        name: str,
        tree: Number = 0,
        node: Annotated[
            int | None,
            Query(ge=0, le=LARGEST_INT32, description="Default: the node above the label, or the root."),
        ] = None,
        depth: Annotated[int, Query(ge=MAP_DEPTH.least, le=MAP_DEPTH.most)] = 2,
        limit: Annotated[int, Query(ge=MAP_BOXES.least, le=MAP_BOXES.most)] = 400,
        label: Annotated[int | None, Query(ge=0, le=LARGEST_INT32, description="List this label.")] = None,
    ) -> Response:
        served = models.find(name)
        hits = served.measured.hits
        view = tree_map(served.model, tree, node, depth=depth, limit=limit, label=label, hits=hits)
        return JsonResponse(view)

    return router


def _open_paths() -> APIRouter:
    router = APIRouter()

    @router.api_route("/", methods=["GET", "HEAD"], include_in_schema=False)
    async def page() -> Response:
        return await file("index.html")

    @router.api_route("/page/{name}", methods=["GET", "HEAD"], include_in_schema=False)
    async def file(name: str) -> Response:
        if name not in FILES:
            raise HTTPException(404)
        headers = {"Content-Security-Policy": SECURITY_POLICY, "Cache-Control": "no-cache"}
        return Response(page_file(name), media_type=FILES[name], headers=headers)

    @router.get("/healthz", summary="Whether the process is alive", **responses.PLAIN_TEXT)
    @router.get("/readyz", summary="Whether requests are answered", **responses.PLAIN_TEXT, name="ready")
    async def health() -> Response:
        return PlainTextResponse("ok\n")

    return router


def _metrics_path(metrics: Metrics) -> APIRouter:
    router = APIRouter()

    @router.get("/metrics", summary="Metrics in the format of Prometheus", **responses.PLAIN_TEXT)
    def prometheus() -> Response:
        return PlainTextResponse(metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    return router
