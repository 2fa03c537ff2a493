"""Replace a model under load: no failed request, and no answer that mixes the old model with the new one.

usage: python benchmarks/serve_swap.py MODEL OTHER TEXTS.tsv [--swaps 20] [--clients 16] [--workers 2]
Copies of MODEL and OTHER take turns under one name. Each request has several texts, and its answer must be
wholly that of one of the two models.
"""

import argparse
import asyncio
import itertools
import json
import shutil
import tempfile
import threading
import time
from pathlib import Path

import program
from serve_tools import get, load, post, running_server, serve_command

import labeltree

TEXTS_EACH = 4


def answers_of(path, texts):
    """Return the labels that a model predicts for each text."""
    model = labeltree.load(path)
    labels, _ = model.predict(model.text.transform(texts))
    return [[label for label in row if label >= 0] for row in labels.tolist()]


def swap(one, other, texts, *, swaps, clients, workers, watch=0.05):
    """Serve a model, replace it again and again, and return what happened."""
    sources = (one, other)
    found = [answers_of(path, texts) for path in sources]
    starts = [
        i for i in range(len(texts) - TEXTS_EACH + 1) if all(found[0][j] != found[1][j] for j in (i, i + 3))
    ]
    if not starts:
        raise labeltree.InputError("the two models answer all requests alike", hint="choose other models")
    requests, number = [], {}
    for i in starts:
        requests.append(post("/predict", {"texts": texts[i : i + TEXTS_EACH]}))
        number[requests[-1]] = i
    counts = {"old_or_new": [0, 0], "mixed": 0, "failed": 0}
    changes = {}
    stop = threading.Event()

    def on_answer(request, status, body, seconds):
        if status != 200:
            counts["failed"] += 1
            return
        rows = [[label["label"] for label in row["labels"]] for row in json.loads(body)["predictions"]]
        i = number[request]
        which = [k for k in (0, 1) if rows == found[k][i : i + TEXTS_EACH]]
        if which:
            counts["old_or_new"][which[0]] += 1
        else:
            counts["mixed"] += 1

    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "model"
        shutil.copytree(one, place)
        options = ("--workers", workers, "--watch", watch)
        with running_server(serve_command(place, *options)) as (process, url):

            def replace():
                try:
                    for k in range(1, swaps + 1):
                        labeltree.load(sources[k % 2], verify=False).save(place, overwrite=True)
                        # The next swap waits until this one has been seen in an answer.
                        seen = counts["old_or_new"][k % 2]
                        end = time.monotonic() + 60
                        while counts["old_or_new"][k % 2] < seen + clients and time.monotonic() < end:
                            time.sleep(0.01)
                        changes[k] = counts["old_or_new"][k % 2] - seen
                finally:
                    stop.set()

            swapper = threading.Thread(target=replace)
            swapper.start()
            source = itertools.cycle(requests)
            errors = asyncio.run(
                load(url, clients, lambda: None if stop.is_set() else next(source), on_answer)
            )
            swapper.join()
            reloads = asyncio.run(metric(url, b"labeltree_reloads_total"))
    return {
        "swaps": len(changes),
        "answers": sum(counts["old_or_new"]),
        "of_each_model": counts["old_or_new"],
        "fewest_after_a_swap": min(changes.values()),
        "mixed": counts["mixed"],
        "failed": counts["failed"] + len(errors),
        "reloads": reloads,
        "code": process.returncode,
    }


async def metric(url, name):
    """Return a figure of /metrics."""
    found = []

    def on_answer(request, status, body, seconds):
        found.extend(line for line in body.splitlines() if line.startswith(name + b" "))

    pending = [get("/metrics")]
    await load(url, 1, lambda: pending.pop() if pending else None, on_answer)
    return int(float(found[0].split()[1]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("other", type=Path)
    parser.add_argument("texts", type=Path)
    parser.add_argument("--swaps", type=int, default=20)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with open(arguments.texts, encoding="utf-8") as lines:
        texts = [line.rstrip("\n").split("\t", 2)[2] for line in itertools.islice(lines, 400)]
    found = swap(
        arguments.model,
        arguments.other,
        texts,
        swaps=arguments.swaps,
        clients=arguments.clients,
        workers=arguments.workers,
    )
    print(json.dumps(found) if arguments.json else "\n".join(f"{k:19}  {v}" for k, v in found.items()))
    if found["mixed"] or found["failed"] or not found["fewest_after_a_swap"]:
        raise SystemExit(1)


if __name__ == "__main__":
    program.run(main)
