"""The page, and what it asks for about a model as a whole and about its trees, as routes of the service."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, HTTPException, Query, Response

from labeltree.base.json import to_json
from labeltree.base.limits import LARGEST_INT32, MAP_BOXES, MAP_DEPTH
from labeltree.serve.assets import ASSETS, CONTENT_SECURITY_POLICY, asset
from labeltree.serve.overview import Results, overview
from labeltree.serve.tree_map import label_path, tree_view

if TYPE_CHECKING:
    from labeltree.model.model import Model

_Number = Annotated[int, Query(ge=0, le=LARGEST_INT32)]
_HEADERS = {"Content-Security-Policy": CONTENT_SECURITY_POLICY, "Cache-Control": "no-cache"}


def page_router(find: Callable[[str], Model]) -> APIRouter:
    """Return the routes of the page, of its files, and of what it asks for.

    Parameters
    ----------
    find : callable
        Returns the model of a name, or raises the service's error for a name that no model has.

    Returns
    -------
    APIRouter
        `InputError` is raised for a tree, node or label that the model does not have.
    """
    router = APIRouter()

    @router.api_route("/", methods=["GET", "HEAD"], include_in_schema=False)
    async def page() -> Response:
        return _file("index.html")

    @router.api_route("/page/{name}", methods=["GET", "HEAD"], include_in_schema=False)
    async def file(name: str) -> Response:
        return _file(name)

    @router.get(
        "/models/{name}/overview",
        summary="Describe a model as the page does: figures, date, frontier and precision",
        response_class=Response,
    )
    def about(name: str) -> Response:
        model = find(name)
        return _json(overview(model, Results.of(model)))

    @router.get(
        "/models/{name}/tree",
        summary="Describe a node of a tree and the largest parts below it",
        response_class=Response,
    )
    def view(
        name: str,
        tree: _Number = 0,
        node: _Number = 0,
        depth: Annotated[int, Query(ge=MAP_DEPTH.least, le=MAP_DEPTH.most)] = 2,
        limit: Annotated[int, Query(ge=MAP_BOXES.least, le=MAP_BOXES.most)] = 400,
        label: Annotated[int | None, Query(ge=0, le=LARGEST_INT32, description="List this label.")] = None,
    ) -> Response:
        model = find(name)
        hits = Results.of(model).hits
        return _json(tree_view(model, tree, node, depth=depth, limit=limit, label=label, hits=hits))

    @router.get("/models/{name}/tree/path", summary="List the nodes above a label", response_class=Response)
    def path(name: str, label: _Number, tree: _Number = 0) -> Response:
        return _json(label_path(find(name), label, tree))

    return router


def _file(name: str) -> Response:
    if name not in ASSETS:
        raise HTTPException(404)
    return Response(asset(name), media_type=ASSETS[name], headers=_HEADERS)


def _json(content: Any) -> Response:
    return Response(to_json(content), media_type="application/json")
