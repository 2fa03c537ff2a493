"""Send malformed requests to the service: no 5xx, no crash, no growth of memory.

usage: python benchmarks/serve_fuzz.py MODEL [--requests 10000] [--seed 0] [--json]
The requests are fuzzed JSON, wrong types, huge, slow, cut off, and no HTTP at all.
"""

import argparse
import asyncio
import collections
import json
import random
from pathlib import Path

import program
from serve_tools import address, exchange, get, memory, post, running_server, serve_command

# Limits that the huge requests exceed.
LIMITS = ("--max-body", "1MB", "--max-texts", "50", "--max-length", "10000")
AT_A_TIME = 32
PATHS = ("/predict", "/explain", "/models/{model}/suggest")
FIELDS = ("model", "text", "texts", "rows", "row", "label", "top", "threshold", "accepted", "words")
VALID = {"text": "a strategy game", "top": 3, "threshold": 0.1, "accepted": False}
CHUNKED = b"POST /predict HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n"


class Requests:
    """Makes malformed requests: bytes in pieces, and what happens after them."""

    def __init__(self, model, seed):
        self._model, self._random = model, random.Random(seed)
        self._kinds = (
            self._changed,
            self._types,
            self._queries,
            self._huge,
            self._cut,
            self._no_http,
            self._slow,
        )
        self._weights = (30, 30, 12, 8, 12, 7, 1)

    def next(self):
        """Return the kind of a request, its bytes, and "read", "close" or "wait"."""
        [kind] = self._random.choices(self._kinds, self._weights)
        content, then = kind()
        return kind.__name__[1:], content, then

    def _path(self):
        return self._random.choice(PATHS).format(model=self._model)

    def _value(self, depth=0):
        rng = self._random
        simple = (
            None,
            True,
            False,
            0,
            -1,
            10**30,
            1.5,
            -1e300,
            "",
            "x",
            "é\x00",
            "\u202e",
            2**31,
            2**63,
            "1",
        )
        kind = rng.randrange(6 if depth < 3 else 4)
        if kind < 4:
            return rng.choice(simple)
        if kind == 4:
            return [self._value(depth + 1) for _ in range(rng.randrange(4))]
        keys = ("indices", "values", "text", "a")
        return {rng.choice(keys): self._value(depth + 1) for _ in range(rng.randrange(4))}

    def _changed(self):
        rng = self._random
        body = bytearray(json.dumps(VALID).encode())
        for _ in range(rng.randrange(1, 8)):
            at = rng.randrange(len(body) or 1)
            change = rng.randrange(4)
            if change == 0:
                body[at : at + 1] = bytes([rng.randrange(256)])
            elif change == 1:
                del body[at : at + rng.randrange(1, 20)]
            elif change == 2:
                body[at:at] = rng.choice(
                    (b"{", b"[", b'"', b"\\u", b"\\ud800", b"NaN", b"1e999", b"\xff\xfe", b"-")
                )
            else:
                body[at:at] = body[: rng.randrange(30)]
        return post(self._path(), bytes(body)), "read"

    def _types(self):
        rng = self._random
        fields = dict(VALID) if rng.random() < 0.5 else {}
        for _ in range(rng.randrange(1, 4)):
            fields[rng.choice(FIELDS)] = self._value()
        return post(self._path(), fields if rng.random() < 0.9 else self._value()), "read"

    def _queries(self):
        rng = self._random
        values = ("-1", "x", "1e9", "9" * 30, "", "%00", "%ff", "<script>", "0")
        names = ("limit", "offset", "search", "words", "tree", "node", "depth", "label")
        query = "&".join(f"{rng.choice(names)}={rng.choice(values)}" for _ in range(rng.randrange(4)))
        places = (
            "labels",
            "labels/x",
            "labels/-1",
            "tree",
            "nothing",
            "labels/%2e%2e",
        )
        name = rng.choice((self._model, "..", "%2e%2e%2f", "x" * 500))
        return get(f"/models/{name}/{rng.choice(places)}?{query}"), "read"

    def _huge(self):
        rng = self._random
        made = (
            lambda: post("/predict", b" " * 1_100_000),
            lambda: post("/predict", {"texts": ["a"] * 60}),
            lambda: post("/predict", {"text": "a" * 10_001}),
            lambda: post("/predict", b"[" * 900_000),
            lambda: post("/predict", {"rows": [{"indices": [0] * 10_001, "values": [0] * 10_001}]}),
            lambda: post("/predict", b'{"top": ' + b"9" * 100_000 + b"}"),
            lambda: get("/models/" + "x" * 100_000),
            lambda: get(f"/models/{self._model}/labels/{'9' * 5000}"),
            lambda: post("/explain", {"text": "a", "label": "9" * 5000}),
            lambda: CHUNKED + b"0\r\n" + b"x-a: b\r\n" * 20_000 + b"\r\n",
            lambda: b"GET / HTTP/1.1\r\n" + b"x-a: b\r\n" * 20_000 + b"\r\n",
            lambda: post("/models/x/suggest", b"a=1&" * 2000 + b"text=a"),
            lambda: b"POST /predict HTTP/1.1\r\ncontent-length: 99999999999999999999\r\n\r\n{}",
        )
        return rng.choice(made)(), "read"

    def _cut(self):
        content = post(self._path(), VALID)
        return content[: self._random.randrange(len(content))], "close"

    def _no_http(self):
        rng = self._random
        lines = (
            rng.randbytes(rng.randrange(1, 300)),
            b"\r\n" * rng.randrange(1, 50),
            b"GET\r\n\r\n",
            b"PREDICT /predict HTTP/1.1\r\n\r\n",
            b"GET /\xff\xfe HTTP/1.1\r\n\r\n",
            b"GET / HTTP/9.9\r\n\r\n",
            b"POST /predict HTTP/1.1\r\ncontent-length: -5\r\n\r\n{}",
            b"POST /predict HTTP/1.1\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n{}\r\n",
            b"GET /predict HTTP/1.1\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n",
            b"POST /predict HTTP/1.1\r\nupgrade: h2c\r\nconnection: upgrade\r\ncontent-length: 2\r\n\r\n{}",
            b"GET http://[::1 HTTP/1.1\r\n\r\n",
            b"HEAD /predict HTTP/1.1\r\n\r\n",
        )
        return rng.choice(lines), "close" if rng.random() < 0.8 else "read"

    def _slow(self):
        content = post("/predict", VALID)
        start = content.index(b"\r\n\r\n") + 4  # slow headers are left to a proxy
        return content[: self._random.randrange(start, len(content) - 1)], "wait"


async def send_one(place, content, then, counts):
    """Send one request, and count the status of the answer."""
    try:
        reader, writer = await asyncio.open_connection(*place)
        try:
            writer.write(content)
            if then == "close":
                writer.write_eof()
            # A server that refuses a request early does not read the rest.
            head = await asyncio.wait_for(reader.readline(), 60)
            counts[int(head.split()[1]) if head else "closed"] += 1
        finally:
            writer.close()
    except (ConnectionError, BrokenPipeError):
        counts["reset"] += 1
    except asyncio.TimeoutError:
        counts["no answer"] += 1


async def send_all(url, requests, count):
    """Send requests, a few at a time; return how often each kind and each answer occurred."""
    place, kinds, counts = address(url), collections.Counter(), collections.Counter()

    async def worker(share):
        for _ in range(share):
            kind, content, then = requests.next()
            kinds[kind] += 1
            if then == "read" and kind == "no_http":
                then = "close"  # it may wait for the rest of a request otherwise
            await send_one(place, content, then, counts)

    shares = [count // AT_A_TIME + (i < count % AT_A_TIME) for i in range(AT_A_TIME)]
    await asyncio.gather(*map(worker, shares))
    return kinds, counts


def fuzz(model, count, seed, timeout=5):
    """Serve a model, send malformed requests, and return what happened; slow ones wait for the timeout."""
    with running_server(serve_command(model, *LIMITS, "--timeout", timeout)) as (process, url):
        valid = post("/predict", VALID)
        [(status, before)] = exchange(url, valid)
        assert status == 200, before
        requests = Requests(Path(model).name, seed)
        kinds, counts, sizes = collections.Counter(), collections.Counter(), []
        for quarter in range(4):
            share = count * (quarter + 1) // 4 - count * quarter // 4
            for total, found in zip(
                (kinds, counts), asyncio.run(send_all(url, requests, share)), strict=True
            ):
                total.update(found)
            sizes.append(memory(process.pid, model)[0])
        [(_, after), (_, metrics)] = exchange(url, valid, get("/metrics"))
        alive = process.poll() is None
    failed = sum(n for status, n in counts.items() if isinstance(status, int) and status >= 500)
    return {
        "requests": count,
        "kinds": dict(kinds.most_common()),
        "answers": {str(status): n for status, n in sorted(counts.items(), key=str)},
        "server_errors": failed + metrics.count(b'status="5'),
        "unanswered": counts["no answer"],
        "alive": alive,
        "same_answer": before == after,
        "code": process.returncode,
        "bytes": sizes,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    found = fuzz(arguments.model, arguments.requests, arguments.seed)
    if arguments.json:
        print(json.dumps(found))
    else:
        sizes = ", ".join(f"{size / 1e6:.1f}" for size in found["bytes"])
        print(f"requests  {found['requests']:,} malformed: {found['kinds']}")
        print(f"answers   {found['answers']}")
        print(f"memory    {sizes} MB after each quarter, beside the pages of the model")
        print(f"server    {found['server_errors']} errors (5xx), alive: {found['alive']}")
        print(f"after     a valid request gets the same answer as before: {found['same_answer']}")
    if found["server_errors"] or found["unanswered"] or not (found["alive"] and found["same_answer"]):
        raise SystemExit(1)


if __name__ == "__main__":
    program.run(main)
