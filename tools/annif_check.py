"""Run the backend and Annif's own http backend with the released Annif, on the catalog of examples/.

    .venv/bin/python tools/annif_check.py

Makes an environment with Annif and labeltree in build/annif, unless it exists, and runs the tests of the
backend in it. Then it runs Annif's commands: load-vocab, train, suggest and eval, with the backend and with a
model behind `labeltree serve`. Every command and its output is shown; a result that is not as expected ends
the script.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
URI = "http://example.org/"
TEXT = "A light for the handlebar of a bicycle"
PROJECTS = """\
[tree]
name=labeltree backend
language=en
backend=labeltree
analyzer=snowball(english)
vocab=catalog
clusters=10

[remote]
name=labeltree over HTTP
language=en
backend=http
vocab=catalog
endpoint=ENDPOINT/models/tagger/suggest
"""
# Annif's analyzers split texts with NLTK's Punkt. Without its data, which NLTK would download, an empty model
# is used: it knows no abbreviations.
PUNKT = ("collocations.tab", "sent_starters.txt", "abbrev_types.txt", "ortho_context.tab")


def main() -> None:
    """Make the environment and run everything."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--env", type=Path, default=ROOT / "build" / "annif", help="default: build/annif")
    parser.add_argument(
        "--annif", default="annif[omikuji]", help="what pip installs. Default: annif[omikuji]"
    )
    parser.add_argument("--source", default=str(ROOT), help="labeltree: a wheel, or by default this tree")
    options = parser.parse_args()
    env = options.env.resolve()
    install = (env / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    if not (env / "bin" / "labeltree-annif").exists():
        show(sys.executable, "-m", "venv", env)
        show(*install, options.annif, options.source, "pytest")
    else:  # labeltree may have changed since
        show(*install, "--no-deps", "--force-reinstall", options.source)
    pytest = ("-m", "pytest", "-q", "--noconftest", "-c", "/dev/null", "-p", "no:cacheprovider")
    tests, helpers = ROOT / "tests" / "annif_backend", {"PYTHONPATH": str(ROOT / "tests" / "servers")}
    show(env / "bin" / "python", *pytest, "--rootdir", ROOT, tests, variables=helpers)
    with tempfile.TemporaryDirectory(prefix="labeltree-annif-") as directory:
        check(env / "bin", Path(directory))
    print("Everything is as expected.")


def check(programs: Path, place: Path) -> None:
    """Run Annif's commands in a directory."""
    write_corpus(place)
    punkt = place / "nltk" / "tokenizers" / "punkt_tab" / "english"
    punkt.mkdir(parents=True)
    for name in PUNKT:
        (punkt / name).touch()
    # The settings file is Annif's way to run code when it starts.
    (place / "annif_settings.py").write_text("import labeltree.annif\n\nlabeltree.annif.register()\n")
    (place / "text.txt").write_text(TEXT + "\n")
    labeltree = (sys.executable, "-m", "labeltree")
    show(*labeltree, "train", "train.jsonl", "tagger", "--clusters", "10", "--quiet", cwd=place)
    with serving(place) as endpoint:
        (place / "projects.cfg").write_text(PROJECTS.replace("ENDPOINT", endpoint))

        def annif(*arguments: str, program: str = "labeltree-annif", fails: bool = False) -> str:
            settings = {"ANNIF_SETTINGS": str(place / "annif_settings.py")} if program == "annif" else {}
            data = {"NLTK_DATA": str(place / "nltk"), **settings}
            return show(programs / program, *arguments, cwd=place, variables=data, fails=fails)

        annif("load-vocab", "catalog", "vocabulary.tsv", "--language", "en")
        annif("train", "tree", "train.tsv")
        expect(annif("list-projects"), r"tree +labeltree backend +catalog +en +True")
        expect(annif("suggest", "tree", "text.txt", "--limit", "3"), f"<{URI}(outdoor|cycling|lamps)>")
        first = f1(annif("eval", "tree", "test.tsv"))
        annif("train", "tree", "--cached", "-b", "labeltree.trees=3", "-b", "labeltree.weights=int8")
        second = f1(annif("eval", "tree", "test.tsv", "--jobs", "2", program="annif"))
        wrong = annif("train", "tree", "--cached", "-b", "labeltree.clusters=many", fails=True)
        expect(wrong, "Misconfigured backend 'labeltree': clusters is 'many', expected an integer")
        remote_answer = annif("suggest", "remote", "text.txt", "--limit", "3", program="annif")
        expect(remote_answer, f"<{URI}(outdoor|cycling|lamps)>")
        remote = f1(annif("eval", "remote", "test.tsv", program="annif"))
    if min(first, second, remote) < 0.5:
        sys.exit("F1@5 is lower than expected")


def write_corpus(place: Path) -> None:
    """Write the catalog as Annif reads it, and for `labeltree train`, with URIs as subjects."""
    names: set[str] = set()
    for part in ("train", "test"):
        lines = (ROOT / "examples" / f"catalog-{part}.tsv").read_text(encoding="utf-8").splitlines()
        rows = [line.split("\t") for line in lines]
        labels = [row[1].split() for row in rows]
        names.update(*labels)
        with open(place / f"{part}.tsv", "w") as file:
            for row, names_of in zip(rows, labels, strict=True):
                file.write(f"{row[2]}\t{' '.join(f'<{URI}{name}>' for name in names_of)}\n")
        with open(place / f"{part}.jsonl", "w") as file:
            for row, names_of in zip(rows, labels, strict=True):
                file.write(json.dumps({"text": row[2], "labels": [URI + name for name in names_of]}) + "\n")
    lines = [f"<{URI}{name}>\t{name}\n" for name in sorted(names)]
    (place / "vocabulary.tsv").write_text("".join(lines))


@contextlib.contextmanager
def serving(place: Path) -> Iterator[str]:
    """Run `labeltree serve` on a free port; yield its address."""
    command = [sys.executable, "-m", "labeltree", "serve", "tagger", "--port", "0"]
    print("$ labeltree serve tagger --port 0", flush=True)
    with subprocess.Popen(command, cwd=place, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            for line in process.stderr:
                print(line, end="", flush=True)
                if found := re.search(r"http://\S+", line):
                    yield found[0].rstrip("/.,")
                    break
            else:
                sys.exit("labeltree serve did not start")
        finally:
            process.terminate()


def show(
    *command: str | Path, cwd: Path = ROOT, variables: dict[str, str] | None = None, fails: bool = False
) -> str:
    """Run a command, print it with its output, and return the output; exit if its code is not as expected."""
    first, *rest = (str(part) for part in command)
    print("$", Path(first).name, *rest, flush=True)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    is_own = first == sys.executable
    done = subprocess.run(
        [first, *rest],
        cwd=cwd,
        env=(dict(os.environ) if is_own else environment) | (variables or {}),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    print(done.stdout, flush=True)
    if bool(done.returncode) != fails:
        sys.exit(f"{Path(first).name} ended with the exit code {done.returncode}")
    return done.stdout


def expect(output: str, pattern: str) -> None:
    """Exit if an output does not contain a pattern."""
    if not re.search(pattern, output):
        sys.exit(f"the output does not contain {pattern}")


def f1(output: str) -> float:
    """Return F1@5 of an evaluation."""
    found = re.search(r"F1@5:\s*([0-9.]+)", output)
    if found is None:
        sys.exit("the output does not contain F1@5")
    return float(found[1])


if __name__ == "__main__":
    main()
