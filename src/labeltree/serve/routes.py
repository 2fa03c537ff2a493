"""What is asked with GET: models, labels, health, metrics and the documentation of the interface."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import FastAPI, Path, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, PlainTextResponse, Response
from starlette.exceptions import HTTPException

from labeltree._version import __version__
from labeltree.base.json import to_json
from labeltree.errors import InputError
from labeltree.explain.label import find_label
from labeltree.serve import answers
from labeltree.serve.errors import FAILED, RequestError
from labeltree.serve.openapi import docs_page, post_paths
from labeltree.serve.settings import MOST_LABELS, MOST_NAME, MOST_WORDS
from labeltree.serve.tree_view import page_router
from labeltree.settings import DEFAULT_WORDS

if TYPE_CHECKING:
    from labeltree.serve.registry import Registry, Served

# Any integer that fits in an array index.
_MOST_OFFSET = 2**31 - 1
_DOCS_POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"


def make_routes(registry: Registry, metrics_text: Callable[[], str]) -> FastAPI:
    """Return the application for everything but predictions and explanations.

    Parameters
    ----------
    registry : Registry
    metrics_text : callable
        Returns the metrics of all workers.

    Returns
    -------
    FastAPI
    """
    # The usual documentation pages load programs from elsewhere; /docs here needs no network.
    app = FastAPI(
        title="labeltree",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        openapi_url="/openapi.json",
        redirect_slashes=False,
    )
    app.state.registry = registry
    _handle_errors(app)
    _add_models(app)
    _add_health(app, metrics_text)
    app.include_router(page_router(lambda name: _find(registry, name).model))
    generated = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            schema = generated()
            for path, item in post_paths().items():
                schema["paths"].setdefault(path, {}).update(item)
        assert app.openapi_schema is not None
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]
    return app


def _served(request: Request, name: str) -> Served:
    """Return the model of a path, or raise an error with status 404."""
    return _find(request.app.state.registry, name)


def _find(registry: Registry, name: str) -> Served:
    try:
        return registry.find(name)
    except KeyError:
        what = f"there is no model {name[:100]!r}"
        raise RequestError(404, what, "GET /models lists the models") from None


def _json(content: Any) -> Response:
    return Response(to_json(content), media_type="application/json")


def _add_models(app: FastAPI) -> None:
    @app.get("/models", summary="List the models", response_class=Response)
    async def models(request: Request) -> Response:
        return _json({"models": [answers.model_line(served) for served in request.app.state.registry]})

    @app.get("/models/{name}", summary="Describe a model, as `labeltree info` does", response_class=Response)
    def model(request: Request, name: str) -> Response:
        return _json(answers.model_summary(_served(request, name)))

    @app.get("/models/{name}/labels", summary="Search the labels of a model", response_class=Response)
    def labels(
        request: Request,
        name: str,
        search: Annotated[str, Query(max_length=MOST_NAME, description="A part of the name.")] = "",
        offset: Annotated[int, Query(ge=0, le=_MOST_OFFSET)] = 0,
        limit: Annotated[int, Query(ge=1, le=MOST_LABELS)] = 50,
    ) -> Response:
        return _json(answers.label_page(_served(request, name), search, offset, limit))

    @app.get(
        "/models/{name}/labels/{label:path}",
        summary="Describe a label, given by its number or name",
        response_class=Response,
    )
    def label(
        request: Request,
        name: str,
        label: Annotated[str, Path(max_length=MOST_NAME)],
        words: Annotated[int, Query(ge=0, le=MOST_WORDS)] = DEFAULT_WORDS,
    ) -> Response:
        served = _served(request, name)
        return _json(answers.label_profile(served, _find_label(served, label), words))


def _find_label(served: Served, label: str) -> int:
    """Find a label by its number; by its name if it is not a number of a label."""
    if label.isascii() and label.isdigit() and len(label) < 10 and int(label) < served.model.n_labels:
        return int(label)
    try:
        return find_label(served.model, label)
    except InputError as error:
        wrong = RequestError.of(error)
        raise RequestError(404, wrong.message, wrong.hint) from None


def _add_health(app: FastAPI, metrics_text: Callable[[], str]) -> None:
    @app.get("/healthz", summary="Whether the process is alive")
    async def healthz() -> PlainTextResponse:
        return PlainTextResponse("ok\n")

    @app.get("/readyz", summary="Whether requests are answered")
    async def readyz() -> PlainTextResponse:
        return PlainTextResponse("ok\n")

    @app.get("/metrics", summary="Metrics in the format of Prometheus")
    async def metrics() -> PlainTextResponse:
        kind = "text/plain; version=0.0.4; charset=utf-8"
        return PlainTextResponse(metrics_text(), media_type=kind)

    @app.get("/docs", include_in_schema=False)
    async def docs() -> HTMLResponse:
        return HTMLResponse(docs_page(app.openapi()), headers={"content-security-policy": _DOCS_POLICY})


def _handle_errors(app: FastAPI) -> None:
    def send(error: RequestError, headers: Any = None) -> Response:
        return Response(error.body(), error.status, headers, "application/json")

    @app.exception_handler(HTTPException)
    async def http_error(request: Request, error: HTTPException) -> Response:
        what = {404: "there is nothing at this path", 405: f"{request.method} is not supported here"}
        hint = {404: "GET /docs lists the paths"}.get(error.status_code)
        return send(
            RequestError(error.status_code, what.get(error.status_code, str(error.detail)), hint),
            error.headers,
        )

    @app.exception_handler(RequestValidationError)
    async def validation_error(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        return send(RequestError(400, f"{first['loc'][-1]}: {first['msg'][:1].lower()}{first['msg'][1:]}"))

    @app.exception_handler(RequestError)
    async def request_error(request: Request, error: RequestError) -> Response:
        return send(error)

    @app.exception_handler(InputError)
    async def input_error(request: Request, error: InputError) -> Response:
        return send(RequestError.of(error))

    @app.exception_handler(Exception)
    async def failure(request: Request, error: Exception) -> Response:
        return send(FAILED)
