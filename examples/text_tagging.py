"""Tag documents from end to end: read, plan, train, evaluate, and predict labels of new documents.

    python examples/text_tagging.py
    python examples/text_tagging.py --train train.tsv --test test.tsv --clusters 100 "A new document."

Without arguments, it uses the catalog next to this file: products of a fictional shop.
"""

import argparse
import sys
import tempfile
from pathlib import Path

import labeltree

HERE = Path(__file__).parent
DOCUMENTS = [
    "Boots with a good grip on wet rock.",
    "A light for the handlebar that charges from a USB port.",
    "A board game for a rainy weekend, nicely wrapped.",
]


def train(path, directory, clusters):
    """Train a model on a file of documents, and print its size before and after."""
    data = labeltree.read_data(path)  # settings=labeltree.TextSettings(ngrams=(1, 2)) adds word pairs
    tree = labeltree.build_tree(data, clusters=clusters)
    plan = labeltree.make_plan(data, tree, labeltree.SolverSettings(cost=4))
    print(f"{data.n_instances:,} documents, {data.n_features:,} words, {data.n_labels:,} labels")
    print(f"The model will take {plan.model_bytes / 1e3:.1f} kB.")
    model = labeltree.train_model(data, plan, directory)
    print(f"It takes {model.bytes / 1e3:.1f} kB.\n")
    return model


def evaluate(model, path):
    """Print the quality of a model on documents with known labels."""
    score = model.evaluate(path)
    print(", ".join(f"{name} {100 * score[name]:.1f}%" for name in ("P@1", "P@3", "P@5", "micro_F1")), "\n")


def tag(model, documents):
    """Print each document with the labels that reach the threshold which training chose."""
    labels, scores = model.predict(documents, threshold="stored")
    for document, names, row_scores in zip(documents, labels, scores, strict=True):
        accepted = [f"{name} ({score:.2f})" for name, score in zip(names, row_scores, strict=True)]
        print(f"{document}\n    {', '.join(accepted) or 'no label'}")


def main():
    """Run all steps. The model is deleted at the end, unless --model is given."""
    parser = argparse.ArgumentParser(description="Train a tagger for documents, evaluate it and use it.")
    parser.add_argument("documents", nargs="*", default=DOCUMENTS, help="documents to tag")
    parser.add_argument("--train", default=HERE / "catalog-train.tsv", metavar="FILE")
    parser.add_argument("--test", default=HERE / "catalog-test.tsv", metavar="FILE")
    parser.add_argument("--clusters", type=int, default=10, metavar="K")
    parser.add_argument("--model", type=Path, metavar="DIR", help="keep the model in this directory")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        directory = arguments.model or Path(temporary, "model")
        model = train(arguments.train, directory, arguments.clusters)
        evaluate(model, arguments.test)
        tag(model, arguments.documents)


if __name__ == "__main__":
    try:
        main()
    except labeltree.InputError as error:
        sys.exit(f"error: {error}")
