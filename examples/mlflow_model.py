"""Log a labeltree model with MLflow, as a model of its `pyfunc` flavor, and predict with it.

    pip install mlflow labeltree
    python examples/mlflow_model.py

MLflow stores the model directory as an artifact, and this file as the code that opens it: nothing is pickled,
and the weights are mapped from the artifact. `mlflow models serve -m models:/...` serves it.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import mlflow
import numpy as np
import pandas as pd

import labeltree


class Tagger(mlflow.pyfunc.PythonModel):
    """A labeltree model that was trained on text."""

    def load_context(self, context: Any) -> None:
        """Open the model, which is an artifact."""
        self.model = labeltree.load(context.artifacts["model"])

    def predict(
        self, context: Any, model_input: pd.DataFrame, params: dict[str, Any] | None = None
    ) -> list[list[dict[str, Any]]]:
        """Return a list of labels with scores for each document: of a list, a Series, an array or a frame."""
        texts = np.asarray(model_input, dtype=object).ravel()  # a frame with one column, if MLflow makes one
        labels, scores = self.model.predict(texts, top=(params or {}).get("top", 5))
        return [
            [{"label": str(label), "score": float(score)} for label, score in zip(*row, strict=True)]
            for row in zip(labels, scores, strict=True)
        ]


# MLflow runs this file when it opens the model.
mlflow.models.set_model(Tagger())


def main() -> None:
    """Train a model, log it, open it again, and predict."""
    here = Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(description="Log a labeltree model with MLflow.")
    parser.add_argument("--train", default=here / "catalog-train.tsv", help="documents with labels")
    parser.add_argument("--test", default=here / "catalog-test.tsv", help="documents to evaluate on")
    parser.add_argument("documents", nargs="*", default=["Keeps tea hot on a long walk."])
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        model = labeltree.train(arguments.train, path=Path(work) / "model", clusters=10)
        with mlflow.start_run():
            mlflow.log_params(model.manifest["settings"])
            metrics = model.evaluate(arguments.test)
            mlflow.log_metrics({name.replace("@", "_at_"): value for name, value in metrics.items()})
            logged = mlflow.pyfunc.log_model(
                name="tagger",
                python_model=__file__,
                artifacts={"model": str(model.path)},
                signature=mlflow.models.infer_signature(pd.Series(arguments.documents), params={"top": 5}),
                pip_requirements=["labeltree", "pandas"],
            )
    again = mlflow.pyfunc.load_model(logged.model_uri)
    found = again.predict(arguments.documents, params={"top": 2})
    for document, row in zip(arguments.documents, found, strict=True):
        print(document)
        print(pd.DataFrame(row).to_string(index=False))


if __name__ == "__main__":
    main()
