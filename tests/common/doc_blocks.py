"""Blocks of code in Markdown: found, run page by page, and their output compared with what the page shows."""

import contextlib
import doctest
import io
import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from labeltree.cli import main

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

# What becomes of a block with each tag; any other is refused, so that nothing escapes by accident.
TAGS = {
    "python": "runs; the blocks of a page share their names",
    "output": "what the page's Python blocks printed since the last one",
    "exact": "the same, to the letter",
    "pycon": "runs as a doctest, with the same names",
    "console": "lines after `$ ` run, and what follows is their output",
    "bash": "lines run one by one",
    "text": "is not run: data, layouts, and commands of other programs",
}

# What differs from machine to machine, in any way: times, memory and disk that are free, threads.
_MACHINE = [
    (re.compile(r"\d[\d.]*( (h|min|s|ms)\b( \d+ (min|s)\b)?)"), "TIME"),
    (re.compile(r"\d[\d.]* [kMGTP]?B(?= (available|free|at peak|of free disk))"), "SIZE"),
    (re.compile(r"(?<=needs )\d[\d.]* [kMGTP]?B(?= of memory)"), "SIZE"),
    (re.compile(r"^(memory .*?)\d[\d.]* [kMGTP]?B(?= needed)"), r"\1SIZE"),
    (re.compile(r"\b\d+ threads?\b"), "THREADS"),
]
# Other whole numbers are exact; how far those with decimals may be off, so that a new solver is no new page:
_POINTS = 3  # of a percentage, absolutely
_SHARE = 0.05  # of any other, relatively; of a score or an alpha, absolutely
_ZEROS_SHARE = 0.1  # of a line that depends on which weights are exactly zero: whole numbers, too
_METRIC = re.compile(r"(P|nDCG)@\d|@1\b")
_ZEROS = re.compile(r"non-zero| other features? | -> |--prune \d|of them kept|at most .* planned")
_NUMBER = r"\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?"
_TOKEN = re.compile(rf"(\.\.\.|{_NUMBER})")
_LABELTREE_LINE = re.compile(
    r"^\s*(\$ )?(python3? -m )?labeltree \w|^\s*(import|from) labeltree\b", re.MULTILINE
)


@dataclass(frozen=True)
class Block:
    """A fenced block: its page, the number of the line after the fence, its tag and its text."""

    page: Path
    line: int
    tag: str
    text: str

    @property
    def place(self):
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks_of(page):
    """Find the fenced blocks of a page. Code that is only indented is refused: it has no tag."""
    found, fence, before = [], None, ""
    lines = page.read_text(encoding="utf-8").split("\n")
    for number, line in enumerate(lines, 1):
        if fence is None and (match := re.match(r"(`{3,}|~{3,})\s*(.*?)\s*$", line)):
            fence, tag, first = match[1], match[2], number + 1
        elif fence is not None and line.strip() == fence:
            found.append(Block(page, first, tag, "\n".join(lines[first - 1 : number - 1])))
            fence = None
        elif fence is None and line.startswith("    ") and not before.strip():
            raise AssertionError(f"{page.relative_to(ROOT)}:{number}: indented code; fence it, with a tag")
        before = line
    assert fence is None, f"{page.relative_to(ROOT)}: the block at line {first} does not end"
    return found


def check_tags(blocks):
    """Refuse unknown tags, and blocks that ought to run but have a tag that does not."""
    for block in blocks:
        assert block.tag in TAGS, (
            f"{block.place}: got the tag {block.tag!r}, expected one of {', '.join(TAGS)}"
        )
        if block.tag == "text":
            stray = _LABELTREE_LINE.search(block.text)
            assert not stray, f"{block.place}: {stray[0]!r} must run; tag it python, console or bash"


def run_page(blocks):
    """Run the blocks of a page in the current, empty directory; it gets a link to the examples."""
    os.symlink(ROOT / "examples", "examples")
    for part in ("train", "test"):
        os.symlink(ROOT / "examples" / f"catalog-{part}.tsv", f"{part}.tsv")
    names, printed = {"__name__": "__main__"}, ""
    for block in blocks:
        if block.tag == "python":
            code = compile("\n" * (block.line - 1) + block.text, block.page, "exec")
            with contextlib.redirect_stdout(io.StringIO()) as out:
                exec(code, names)
            printed += out.getvalue()
        elif block.tag == "output":
            compare(block.text, printed, block.place)
            printed = ""
        elif block.tag == "exact":
            assert _lines(block.text) == _lines(printed), f"{block.place}: prints {printed}"
            printed = ""
        elif block.tag == "pycon":
            test = doctest.DocTestParser().get_doctest(
                block.text, names, block.place, str(block.page), block.line - 1
            )
            report = io.StringIO()
            runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
            failed, tried = runner.run(test, out=report.write, clear_globs=False)
            assert tried, f"{block.place}: a block of pycon without a `>>>`"
            assert not failed, report.getvalue()
            names.update(test.globs)
        elif block.tag == "console":
            for command, shown in commands_of(block):
                compare(
                    shown,
                    run_command(command, "error: " in shown, block.place),
                    f"{block.place}: $ {command}",
                )
        elif block.tag == "bash":
            for command in filter(str.strip, block.text.split("\n")):
                run_command(command, False, block.place)


def commands_of(block):
    """Split a console block into commands, each with the output that is shown."""
    assert block.text.startswith("$ "), f"{block.place}: a console block must begin with `$ `"
    for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        command, _, shown = part.partition("\n")
        yield command, shown


def run_command(command, may_fail, place):
    """Run a line of a shell; `labeltree` itself in this process. Returns what a reader sees of its output."""
    if command.startswith("labeltree ") and not re.search(r"[|<>&;$*]", command):
        out, err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8"), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main(shlex.split(command, comments=True)[1:])
        out.flush()
        printed, stderr = out.buffer.getvalue().decode(), err.getvalue()
    else:
        path = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
        done = subprocess.run(
            ["bash", "-c", command],
            env={**os.environ, "PATH": path},
            capture_output=True,
            text=True,
            check=False,
        )
        code, printed, stderr = done.returncode, done.stdout, done.stderr
    assert code == (2 if may_fail else 0), f"{place}: $ {command}: exit code {code}\n{stderr}"
    # Progress is on standard error, and gone from a terminal when the work is done.
    kept = [line for line in stderr.split("\n") if line.startswith(("error: ", "note: "))]
    return printed + "\n".join(kept)


def compare(shown, got, place):
    """Compare lines: `...` stands for any text, alone on a line for any lines; numbers need only be near."""
    same = matches(_lines(shown), _lines(got), _METRIC.search(shown) is not None)
    assert same, f"{place}: the page shows\n{shown}\n\nbut it prints\n{got}"


def matches(wanted, lines, metrics=False):
    """Return whether lines are as wanted; with `metrics`, numbers with decimals may be percentages."""
    if not wanted:
        return not lines
    if wanted[0] == "...":
        return any(matches(wanted[1:], lines[k:], metrics) for k in range(len(lines) + 1))
    if not lines or not _line_matches(wanted[0], lines[0], metrics):
        return False
    return matches(wanted[1:], lines[1:], metrics)


def _lines(text):
    return [" ".join(line.split()) for line in text.strip().split("\n") if line.strip()]


def _line_matches(wanted, line, metrics):
    for pattern, name in _MACHINE:
        wanted, line = pattern.sub(name, wanted), pattern.sub(name, line)
    words = _TOKEN.split(wanted)  # numbers, and `...`, are every other word
    places = [k for k in range(1, len(words), 2) if words[k] != "..."]
    pattern = [".*" if word == "..." else re.escape(word) for word in words]
    for k in places:
        pattern[k] = f"({_NUMBER})"
    found = re.fullmatch("".join(pattern), line)
    return found is not None and all(
        abs(_value(words[k]) - _value(number))
        <= _slack(words[k], words[k + 1], metrics, _ZEROS.search(wanted))
        for k, number in zip(places, found.groups(), strict=True)
    )


def _value(number):
    return float(number.rstrip(",").replace(",", ""))


def _slack(number, after, metrics, zeros):
    """Return how far off a number may be, given what follows it."""
    value, decimals = _value(number), "." in number
    slack = _ZEROS_SHARE * value if zeros else 0
    if after.lstrip().startswith("%") or (metrics and decimals and value > 2):
        return max(slack, _POINTS)
    return max(slack, _SHARE, _SHARE * value) if decimals else slack
