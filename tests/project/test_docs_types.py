"""The Python of the documentation is typed: a user's script like it passes a strict type checker."""

import subprocess
import sys

from doc_blocks import PAGES, blocks_of

OPTIONS = (
    "--strict",
    "--untyped-calls-exclude=dask",
    "--untyped-calls-exclude=distributed",
    "--config-file=mypy.ini",
    "--cache-dir=cache",
)
# Libraries without types, which a user configures, too.
CONFIG = "[mypy]\n" + "".join(
    f"[mypy-{name}.*]\nignore_missing_imports = True\n" for name in ("pandas", "sklearn")
)


def test_every_block_passes_a_strict_type_checker(tmp_path):
    for number, page in enumerate(PAGES):
        blocks = [block for block in blocks_of(page) if block.tag == "python"]
        if blocks:
            name = f"page_{number}_{page.stem.replace('-', '_').lower()}.py"
            (tmp_path / name).write_text("\n".join(block.text for block in blocks) + "\n")
    (tmp_path / "mypy.ini").write_text(CONFIG)
    files = sorted(path.name for path in tmp_path.glob("*.py"))
    assert len(files) > 10
    command = [sys.executable, "-m", "mypy", *OPTIONS, *files]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
