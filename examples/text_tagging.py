"""Tag texts from end to end: read, plan, train, judge, and give labels to new texts.

    python examples/text_tagging.py
    python examples/text_tagging.py --train mine.tsv --test other.tsv --clusters 100 "A text of my own."

Without arguments it takes the catalogue beside this file: products of a shop that does not exist.
"""

import argparse
import sys
import tempfile
from pathlib import Path

import labeltree
from labeltree.system import human_bytes

HERE = Path(__file__).parent
TEXTS = [
    "Boots with a good grip on wet rock.",
    "A light for the handlebar that charges from a USB port.",
    "A board game for a rainy weekend, nicely wrapped.",
]


def train(path, folder, clusters):
    """Train a model on a file of texts, and tell what it takes before and after."""
    data = labeltree.read_documents(path)  # settings=labeltree.TextSettings(ngrams=(1, 2)) takes pairs, too
    tree = labeltree.build_tree(data, clusters=clusters)
    plan = labeltree.make_plan(data, tree)
    print(f"{data.n_instances:,} texts, {data.n_features:,} words, {data.n_labels:,} labels")
    print(f"The model will take {human_bytes(plan.model_bytes)}.")
    model = labeltree.train_model(data, plan, folder, labeltree.SolverSettings(cost=4))
    print(f"It takes {human_bytes(model.bytes)}.\n")
    return model


def judge(model, path):
    """Print how good a model is on texts whose labels are known."""
    data = labeltree.read_documents(path, features=model.text)
    labels, _ = model.predict(data.X, top=5)
    score = model.judge(data, labels)
    print(", ".join(f"{name} {100 * score[name]:.1f} %" for name in ("P@1", "P@3", "P@5", "R@5")), "\n")


def tag(model, texts, least=0.2):
    """Print each text with its labels, those whose score is at least `least`; the best in any case."""
    labels, scores = model.predict(model.text.transform(texts), top=5)
    for text, row, reached in zip(texts, labels, scores, strict=True):
        pairs = [(model.label_names[label], s) for label, s in zip(row, reached, strict=True) if label >= 0]
        kept = [f"{name} ({s:.2f})" for place, (name, s) in enumerate(pairs) if s >= least or place == 0]
        print(f"{text}\n    {', '.join(kept) or 'no word of it is known'}")


def main():
    """Run it all, in a folder that is removed in the end unless one is named."""
    parser = argparse.ArgumentParser(description="Train a tagger for texts, judge it and use it.")
    parser.add_argument("texts", nargs="*", default=TEXTS, help="texts to tag")
    parser.add_argument("--train", default=HERE / "catalogue-train.tsv", metavar="FILE")
    parser.add_argument("--test", default=HERE / "catalogue-test.tsv", metavar="FILE")
    parser.add_argument("--clusters", type=int, default=10, metavar="K")
    parser.add_argument("--model", type=Path, metavar="DIR", help="keep the model here")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.model or Path(temporary, "model")
        model = train(arguments.train, folder, arguments.clusters)
        judge(model, arguments.test)
        tag(model, arguments.texts)


if __name__ == "__main__":
    try:
        main()
    except labeltree.InputError as error:
        sys.exit(f"error: {error}")
