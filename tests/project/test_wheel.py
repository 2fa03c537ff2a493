"""What tools/build_wheel.py accepts as a source distribution and as a build_wheel."""

from __future__ import annotations

import io
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import build_wheel
import pytest

NATIVE = f"labeltree/_native{sysconfig.get_config_var('EXT_SUFFIX')}"


def write_wheel(path: Path, names: set[str]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name in names | {"labeltree-1.dist-info/METADATA"}:
            archive.writestr(name, "")
    return path


def write_sdist(path: Path, names: set[str]) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name in names:
            archive.addfile(tarfile.TarInfo(f"labeltree-1/{name}"), io.BytesIO())
    return path


def test_package_files() -> None:
    files = build_wheel.package_files()
    assert {"labeltree/py.typed", "labeltree/__init__.py", "labeltree/cli/app.py"} <= files
    assert any(name.startswith("labeltree/serve/web/") for name in files)
    assert not any(name.endswith((".so", ".pyc")) for name in files)


def test_wheel(tmp_path: Path) -> None:
    complete = build_wheel.package_files() | {NATIVE}
    build_wheel.check_wheel(write_wheel(tmp_path / "complete.whl", complete))
    with pytest.raises(SystemExit, match=r"complete.whl lacks labeltree/py.typed"):
        build_wheel.check_wheel(write_wheel(tmp_path / "incomplete.whl", complete - {"labeltree/py.typed"}))
    with pytest.raises(SystemExit, match="lacks labeltree/_native"):
        build_wheel.check_wheel(write_wheel(tmp_path / "pure.whl", complete - {NATIVE}))
    other = "labeltree/_native.cpython-39-x86_64-linux-gnu.so"
    with pytest.raises(SystemExit, match=f"leftover.whl must not contain {other}"):
        build_wheel.check_wheel(write_wheel(tmp_path / "leftover.whl", complete | {other}))


def test_sdist(tmp_path: Path) -> None:
    complete = {f"src/{name}" for name in build_wheel.package_files()} | {
        "CMakeLists.txt",
        "native/module.cpp",
        "tests/project/test_wheel.py",
    }
    build_wheel.check_sdist(write_sdist(tmp_path / "complete.tar.gz", complete))
    with pytest.raises(SystemExit, match=r"lacks CMakeLists.txt"):
        build_wheel.check_sdist(write_sdist(tmp_path / "incomplete.tar.gz", complete - {"CMakeLists.txt"}))
    with pytest.raises(SystemExit, match="must not contain src/labeltree/_native"):
        build_wheel.check_sdist(write_sdist(tmp_path / "compiled.tar.gz", complete | {f"src/{NATIVE}"}))
