"""Compare Annif's omikuji backend with that of labeltree, on documents rebuilt from TF-IDF features.

usage: ENV/bin/python benchmarks/annif_backends.py DATA [--train-rows N] [--test-rows N]

ENV has annif[omikuji] and labeltree (tools/annif_check.py makes it in build/annif). DATA is a directory with
train.svm and test.svm: TF-IDF of scikit-learn, fitted on train.svm with the default weights. A document gets
a word for each feature, repeated as often as the weights imply, so that both backends read text, count and
weight it with Annif's interface and their own defaults; words are split at spaces. Each run is a process of
its own. Metrics are Annif's, with at most 10 suggestions per document, as in `annif eval`.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import program

from labeltree import InputError, read_svm
from labeltree.model.directory import directory_bytes

VARIANTS = {
    "labeltree": "backend=labeltree",
    "labeltree, 3 trees": "backend=labeltree\ntrees=3",
    "labeltree, pruned": "backend=labeltree\nprune=0.05",
    "omikuji (Parabel)": "backend=omikuji",
    "omikuji (Bonsai)": "backend=omikuji\ncluster_balanced=False\ncluster_k=100\nmax_depth=3",
}
METRICS = ("F1@5", "NDCG", "NDCG@5", "Precision@1")
SINGLE = 200  # documents that are suggested for one at a time
URI = "http://example.org/"


def word_counts(X, idf):
    """Return how often each word occurs in its document, up to a factor per document.

    A weight is count times inverse document frequency, scaled to a row of length 1; the smallest count of a
    row is taken to be 1.
    """
    counts = X.data / idf[X.indices]
    lengths = np.diff(X.indptr)
    filled = np.flatnonzero(lengths)
    least = np.minimum.reduceat(counts, X.indptr[:-1][filled])
    return np.rint(counts / np.repeat(least, lengths[filled])).astype(np.int64)


def write_documents(path, data, idf, n_rows):
    """Write the first rows as Annif reads them: the text, a tab, and the URIs of the subjects."""
    X, Y = data.X, data.Y
    counts = word_counts(X, idf)
    with open(path, "w", encoding="utf-8") as file:
        for row in range(min(n_rows or X.shape[0], X.shape[0])):
            entries = slice(X.indptr[row], X.indptr[row + 1])
            words = (
                f"w{word} " * count for word, count in zip(X.indices[entries], counts[entries], strict=True)
            )
            subjects = Y.indices[Y.indptr[row] : Y.indptr[row + 1]]
            file.write("".join(words).strip() + "\t" + " ".join(f"<{URI}{s}>" for s in subjects) + "\n")


def prepare(data, place, train_rows, test_rows):
    """Write documents, vocabulary and projects; return the numbers of rows, features and labels."""
    for name in ("train.svm", "test.svm"):
        if not (data / name).is_file():
            raise InputError("no such file", file=data / name)
    train = read_svm(data / "train.svm")
    test = read_svm(data / "test.svm").widen(train.n_features)
    frequency = np.bincount(train.X.indices, minlength=train.n_features)
    idf = np.log((1 + train.n_instances) / (1 + frequency)) + 1
    write_documents(place / "train.tsv", train, idf, train_rows)
    write_documents(place / "test.tsv", test, idf, test_rows)
    n_labels = max(train.n_labels, test.n_labels)
    vocabulary = place / "data" / "vocabs" / "subjects"
    vocabulary.mkdir(parents=True)
    rows = "".join(f"{URI}{label},,{label}\n" for label in range(n_labels))
    (vocabulary / "subjects.csv").write_text("uri,notation,label_en\n" + rows)
    sections = (
        f"[{project_id(name)}]\nname={name}\nlanguage=en\nvocab=subjects\nanalyzer=simple\n{lines}\n"
        for name, lines in VARIANTS.items()
    )
    (place / "projects.cfg").write_text("\n".join(sections))
    return {
        "train": min(train_rows or train.n_instances, train.n_instances),
        "test": min(test_rows or test.n_instances, test.n_instances),
        "features": train.n_features,
        "labels": n_labels,
    }


def project_id(name):
    """Return the identifier of a project."""
    return "".join(letter for letter in name if letter.isalnum())


def split_words(text):
    return text.split()


def open_project(place, name):
    """Open a project of Annif. Its own analyzers need data that NLTK downloads."""
    import annif.registry

    import labeltree.annif

    labeltree.annif.register()
    registry = annif.registry.AnnifRegistry(str(place / "projects.cfg"), str(place / "data"), False)
    project = registry.get_project(project_id(name))
    project._analyzer = SimpleNamespace(tokenize_words=split_words)
    return project


def seconds_of(backend, method):
    """Replace a method by one that adds up its seconds; return the list that it puts them in."""
    seconds, original = [], getattr(backend, method)

    def timed(*arguments):
        start = time.perf_counter()
        try:
            return original(*arguments)
        finally:
            seconds.append(time.perf_counter() - start)

    setattr(backend, method, timed)
    return seconds


def run_train(place, name):
    """Train, and return seconds, memory and size."""
    import annif.corpus

    project = open_project(place, name)
    corpus = annif.corpus.DocumentFileTSV(str(place / "train.tsv"), project.subjects)
    own = "_train_model" if project.backend.name == "labeltree" else "_create_model"
    model_seconds = seconds_of(project.backend, own)
    start, processor = time.perf_counter(), time.process_time()
    project.train(corpus)
    model = Path(project.datadir, f"{project.backend.name}-model")
    return {
        "train_seconds": time.perf_counter() - start,
        "train_cpu_seconds": time.process_time() - processor,
        "model_seconds": sum(model_seconds),
        "train_memory": 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
        "model_bytes": directory_bytes(model),
    }


def run_suggest(place, name):
    """Suggest in Annif's batches, then for single documents; return seconds, memory and metrics."""
    import annif.corpus
    import annif.eval

    project = open_project(place, name)
    corpus = annif.corpus.DocumentFileTSV(str(place / "test.tsv"), project.subjects)
    batches = list(corpus.doc_batches)
    n_documents = sum(map(len, batches))
    project.suggest(batches[0])  # opens the model
    start, processor = time.perf_counter(), time.process_time()
    found = [project.suggest(batch) for batch in batches]
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - processor
    alone = batches[0] + [document for batch in batches[1:7] for document in batch]
    start = time.perf_counter()
    for document in alone[:SINGLE]:
        project.suggest([document])
    single = time.perf_counter() - start
    memory = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    evaluation = annif.eval.EvaluationBatch(project.subjects)
    for batch, suggestions in zip(batches, found, strict=True):
        evaluation.evaluate_many(suggestions.filter(limit=10), [document.subject_set for document in batch])
    return {
        "per_second": n_documents / seconds,
        "suggest_cpu_ms": 1000 * cpu_seconds / n_documents,
        "single_ms": 1000 * single / len(alone[:SINGLE]),
        "suggest_memory": memory,
        **{metric: float(value) for metric, value in evaluation.results(metrics=METRICS).items()},
    }


def in_process(step, place, name):
    """Run a step in a process of its own."""
    command = [sys.executable, __file__, "--step", step, "--place", str(place), "--variant", name]
    with open(place / "log", "w+") as log:  # omikuji writes a line for every example
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=log, check=False, text=True)
        if done.returncode:
            log.seek(0)
            print(log.read()[-2000:], file=sys.stderr)
            raise InputError(f"{name}: the step {step} failed", hint="see its output above")
    return json.loads(done.stdout.splitlines()[-1])


def show_heads(data):
    print(f"{data['train']:,} training and {data['test']:,} test documents, {data['labels']:,} subjects")
    heads = ["train s", "of it model s", "train CPU s", "memory MB", "model MB", "docs/s", "CPU ms/doc"]
    heads += ["single ms", "memory MB", *METRICS]
    print(f"{'':20}" + "".join(f"{head:>14}" for head in heads), flush=True)


def show_row(name, row):
    cells = [
        f"{row['train_seconds']:.1f}",
        f"{row['model_seconds']:.1f}",
        f"{row['train_cpu_seconds']:.1f}",
        f"{row['train_memory'] / 1e6:,.0f}",
        f"{row['model_bytes'] / 1e6:,.1f}",
        f"{row['per_second']:,.0f}",
        f"{row['suggest_cpu_ms']:.2f}",
        f"{row['single_ms']:.2f}",
        f"{row['suggest_memory'] / 1e6:,.0f}",
        *(f"{row[metric]:.4f}" for metric in METRICS),
    ]
    print(f"{name:20}" + "".join(f"{cell:>14}" for cell in cells), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("data", nargs="?", type=Path)
    parser.add_argument("--train-rows", type=int, metavar="N", help="use the first N. Default: all")
    parser.add_argument("--test-rows", type=int, metavar="N", help="use the first N. Default: all")
    names = f"default: all of {', '.join(VARIANTS)}"
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=list(VARIANTS), help=names)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--step", choices=["train", "suggest"], help=argparse.SUPPRESS)
    parser.add_argument("--place", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--variant", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.step:
        step = run_train if options.step == "train" else run_suggest
        print(json.dumps(step(options.place, options.variant)))
        return
    if options.data is None:
        raise InputError("there is no DATA", hint="give a directory with train.svm and test.svm")
    with tempfile.TemporaryDirectory(prefix="labeltree-annif-") as directory:
        place = Path(directory)
        report = {"data": prepare(options.data, place, options.train_rows, options.test_rows), "results": {}}
        if not options.json:
            show_heads(report["data"])
        for name in options.variants:
            trained = in_process("train", place, name)
            report["results"][name] = {**trained, **in_process("suggest", place, name)}
            if not options.json:
                show_row(name, report["results"][name])
    if options.json:
        print(json.dumps(report, indent=1))


if __name__ == "__main__":
    program.run(main)
