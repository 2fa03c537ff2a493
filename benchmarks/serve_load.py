"""Load the service and a plain FastAPI handler with the same texts: requests per second, p50, p99, CPU time.

usage: python benchmarks/serve_load.py MODEL TEXTS.tsv [--clients 1,8,64] [--seconds 4] [--rounds 3]
       [--workers 1] [--plain-workers 1] [--json]
The clients send single texts over the loopback interface from one process. Both servers get the same load in
turn, and the medians over the rounds are printed.
"""

import argparse
import asyncio
import itertools
import json
import os
import socket
import statistics
import sys
import time
from pathlib import Path

import numpy as np
import program
from serve_tools import await_server, cpu_seconds, exchange, load, post, running_server, serve_command

WARM_UP = 500  # requests


def plain_app():
    """Return what one would write without the service: a handler that calls predict for each request."""
    from fastapi import FastAPI
    from pydantic import BaseModel

    import labeltree

    model = labeltree.load(os.environ["LABELTREE_BENCH_MODEL"])
    app = FastAPI()

    class Query(BaseModel):
        text: str
        top: int = 5

    def predict(query: Query) -> dict:
        labels, scores = model.predict(model.text.transform([query.text]), top=query.top)
        found = [
            {"label": label, "name": model.label_names[label] if model.label_names else None, "score": score}
            for label, score in zip(labels[0].tolist(), scores[0].tolist(), strict=True)
            if label >= 0
        ]
        return {"model": "model", "predictions": [{"labels": found}]}

    predict.__annotations__["query"] = Query
    app.post("/predict")(predict)
    return app


def free_port():
    """Return a port that is free now: with several workers, uvicorn does not print the one that it found."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def plain_server(model, workers):
    """Start the plain handler with uvicorn and the same HTTP parser."""
    options = ["--factory", "--port", str(free_port()), "--http", "httptools", "--no-access-log"]
    command = [sys.executable, "-m", "uvicorn", "serve_load:plain_app", *options, "--workers", str(workers)]
    folder = Path(__file__).parent
    path = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
    return running_server(command, env={"LABELTREE_BENCH_MODEL": str(model), "PYTHONPATH": path})


def measure(url, requests, n_clients, seconds):
    """Send requests for some seconds, and return requests per second and latencies."""
    source = itertools.cycle(requests)
    times = []
    wrong = []

    def on_answer(request, status, body, taken):
        times.append(taken)
        if status != 200:
            wrong.append((status, body))

    async def run():
        start = time.perf_counter()
        end = start + seconds

        def next_request():
            return next(source) if time.perf_counter() < end else None

        errors = await load(url, n_clients, next_request, on_answer)
        return errors, time.perf_counter() - start

    errors, taken = asyncio.run(run())
    if errors or wrong:
        raise SystemExit(f"error: {len(errors)} connections failed, {len(wrong)} wrong answers {wrong[:1]}")
    return {
        "requests": len(times),
        "per_second": len(times) / taken,
        "p50_ms": 1000 * float(np.percentile(times, 50)),
        "p99_ms": 1000 * float(np.percentile(times, 99)),
    }


def read_requests(path, count=5000):
    """Return a request for each text of a TSV file."""
    with open(path, encoding="utf-8") as lines:
        texts = [line.rstrip("\n").split("\t", 2)[2] for line in itertools.islice(lines, count)]
    return [post("/predict", {"text": text}) for text in texts]


def compare(arguments, requests):
    """Measure both servers in turn."""
    rows = []
    with (
        running_server(serve_command(arguments.model, "--workers", arguments.workers)) as ours,
        plain_server(arguments.model, arguments.plain_workers) as plain,
    ):
        for _, url in (ours, plain):
            await_server(url)
            exchange(url, *requests[:WARM_UP])
        for n_clients in arguments.clients:
            rounds = {"service": [], "plain": []}
            for _ in range(arguments.rounds):
                for name, (process, url) in (("service", ours), ("plain", plain)):
                    used = cpu_seconds(process.pid)
                    result = measure(url, requests, n_clients, arguments.seconds)
                    result["cpu_ms"] = 1000 * (cpu_seconds(process.pid) - used) / result["requests"]
                    rounds[name].append(result)
            row = {"clients": n_clients}
            for name, results in rounds.items():
                row[name] = {key: statistics.median(r[key] for r in results) for key in results[0]}
            ratios = [
                a["per_second"] / b["per_second"]
                for a, b in zip(rounds["service"], rounds["plain"], strict=True)
            ]
            row["ratio"] = statistics.median(ratios)
            rows.append(row)
            if not arguments.json:
                print_row(row, first=len(rows) == 1)
    return {"workers": arguments.workers, "plain_workers": arguments.plain_workers, "load": rows}


def print_row(row, first):
    """Print one line per server."""
    if first:
        print("clients  server   requests/s  ratio  p50 (ms)  p99 (ms)  CPU (ms/request)")
    for name, ratio in (("service", row["ratio"]), ("plain", 1)):
        r = row[name]
        print(
            f"{row['clients']:7}  {name:7}  {r['per_second']:10.0f}  {ratio:5.2f}  {r['p50_ms']:8.2f}"
            f"  {r['p99_ms']:8.2f}  {r['cpu_ms']:8.3f}",
            flush=True,
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("texts", type=Path)
    parser.add_argument("--clients", type=lambda text: [int(n) for n in text.split(",")], default=[1, 8, 64])
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--plain-workers", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    requests = read_requests(arguments.texts)
    result = compare(arguments, requests)
    if arguments.json:
        print(json.dumps(result))


if __name__ == "__main__":
    program.run(main)
