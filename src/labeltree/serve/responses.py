"""Responses: JSON, and what it contains, for the documentation."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field
from starlette.responses import Response

from labeltree.base.json import to_json


class JsonResponse(Response):
    """JSON without NaN and infinity, which become null."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """Return the content as bytes."""
        return to_json(content).encode()


class PredictedLabel(BaseModel):
    """A label of a prediction."""

    label: int
    name: str | None = None
    score: float = Field(default=0.0, description="From 0 to 1; a probability if the model is calibrated.")


class PredictedLabels(BaseModel):
    """The labels of one text or row, best first."""

    labels: list[PredictedLabel]


class PredictResponse(BaseModel):
    """What POST /predict returns."""

    model: str
    predictions: list[PredictedLabels]


class ErrorDetails(BaseModel):
    """What is wrong with a request."""

    status: int
    message: str
    hint: str | None = Field(default=None, description="What to do about it.")


class ErrorResponse(BaseModel):
    """What is returned with a status from 400 on."""

    error: ErrorDetails
