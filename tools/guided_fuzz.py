"""Fuzz a reader or the opening of models, guided by coverage (atheris, which contains libFuzzer).

    python tools/guided_fuzz.py svm --minutes 60
    python tools/guided_fuzz.py model --corpus DIR

TARGET is svm, tsv, csv, jsonl or model. The input of a reader is a file, plain or compressed. That of a model
is a small model whose files follow one another; after a change, all checksums are computed again. An input
may only be refused with an InputError, or work: anything else is written to crash-* and ends the run.

Python code is always traced; compiled kernels are if they were built with LABELTREE_TRACE (CMakeLists.txt),
as `make guided-fuzz` does. Inputs that reach new code are kept in the directory of --corpus.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib
import pkgutil
import re
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

TOOLS = Path(__file__).resolve().parent
TESTS = TOOLS.parent / "tests"
CORPUS = TESTS / "corpus"
READERS = {"svm": "a.svm", "tsv": "a.tsv", "csv": "a.csv", "jsonl": "a.jsonl"}
LARGEST_MODEL = 20_000  # bytes; larger ones are not used as a start
_COMPRESSED = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ")  # how such a file is recognized, whatever its name
_LENGTHS = struct.Struct("<HI")


def pack(files: dict[str, bytes]) -> bytes:
    """Return the files of a model, one after another."""
    parts = []
    for name, content in sorted(files.items()):
        parts += [_LENGTHS.pack(len(name.encode()), len(content)), name.encode(), content]
    return b"".join(parts)


def unpack(packed: bytes) -> dict[str, bytes]:
    """Return files from any bytes; names are those that a model could have."""
    files, at = {}, 0
    while at + _LENGTHS.size <= len(packed) and len(files) < 40:
        name_size, size = _LENGTHS.unpack_from(packed, at)
        at += _LENGTHS.size
        name = re.sub(r"[^a-z_0-9./-]|\.\.|^/", "_", packed[at : at + name_size].decode("latin1"))[:100]
        at += name_size
        files[name.strip("/") or "x"] = packed[at : at + size]
        at += size
    return files


def prepared(target: str, place: Path) -> tuple[Callable[[bytes], None], list[bytes]]:
    """Return what to call with each input, and the inputs to start with."""
    sys.path[:0] = [str(TESTS / folder) for folder in ("common", "oracles", "servers", "fuzz")]
    import data_mutations
    import forgery
    import mutations

    from labeltree import read_svm

    if target == "model":
        models = [pack(files) for files in mutations.make_models(place / "models").values()]

        def try_model(packed: bytes) -> None:
            files = unpack(packed)
            forgery.seal(files)
            try:
                forgery.write(files, place / "model")
            except OSError:  # a file and a directory of one name
                return
            mutations.outcome(place / "model")

        return try_model, [model for model in models if len(model) <= LARGEST_MODEL]

    def try_file(content: bytes) -> None:
        path = place / (READERS[target] + ".gz" * content.startswith(_COMPRESSED))
        path.write_bytes(content)
        if target == "svm" and path.suffix == ".gz":  # in small pieces, a bomb takes minutes
            data_mutations.attempt(lambda: read_svm(path, threads=1))
        else:
            data_mutations.outcome(path)

    plain = [data for name, data in data_mutations.FILES.items() if name.endswith(target)]
    compressed = [compress(plain[0]) for compress in data_mutations.COMPRESSORS.values()]
    return try_file, plain + compressed


def trace_kernels(place: Path) -> Callable[[], int]:
    """Let libFuzzer see what the kernels run; return how to count the places that were run."""
    from atheris import core_with_libfuzzer as fuzzer

    library = place / "trace.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-o", library, TOOLS / "trace.c"], check=True)
    trace, core = ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL), ctypes.CDLL(fuzzer.__file__)
    trace.announce(core.__sanitizer_cov_8bit_counters_init, core.__sanitizer_cov_pcs_init)
    return trace.traced  # type: ignore[no-any-return]


def import_everything() -> None:
    """Import all modules that read models or data; some others need Annif, or take long."""
    package = importlib.import_module("labeltree")
    for module in pkgutil.walk_packages(package.__path__, "labeltree."):
        if not re.search(r"__main__|\.(annif|dask|paper)\b", module.name):
            importlib.import_module(module.name)


def main() -> None:
    """Fuzz until the time is over or an input fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("target", choices=[*READERS, "model"])
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--corpus", type=Path, help="where to keep inputs; default: they are dropped")
    parser.add_argument("--reproduce", type=Path, help="try this input only")
    given = parser.parse_args()
    memory = Path("/dev/shm")  # models are written and synced again and again
    with tempfile.TemporaryDirectory(
        prefix="labeltree-fuzz-", dir=memory if memory.is_dir() else None
    ) as name:
        place = Path(name)
        traced = trace_kernels(place)
        import atheris

        with atheris.instrument_imports(include=["labeltree"]):
            import_everything()
        attempt, seeds = prepared(given.target, place)
        if given.reproduce:
            attempt(given.reproduce.read_bytes())
            return
        for seed in seeds:
            attempt(seed)
        print(f"{given.target}: {len(seeds)} inputs to start with run {traced():,} places of the kernels")
        corpus = given.corpus or place / "corpus"
        corpus.mkdir(parents=True, exist_ok=True)
        for number, seed in enumerate(seeds):
            (corpus / f"start-{number}").write_bytes(seed)
        options = [f"-max_total_time={int(60 * given.minutes)}", "-timeout=60", "-rss_limit_mb=3000"]
        options += [f"-max_len={max(1000, 2 * max(map(len, seeds)))}", "-print_final_stats=1"]
        known = [str(folder) for folder in [CORPUS / given.target] if folder.is_dir()]
        atheris.Setup([sys.argv[0], *options, str(corpus), *known], attempt)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
