"""What the machine has, read from trees of files that look like other machines."""

import os
import resource
import shutil
import subprocess
import sys
from types import SimpleNamespace

import pytest

from labeltree.base import limits, system

GIB = 1024**3


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Return a function that writes files below a root of their own, and makes labeltree look there."""
    monkeypatch.setattr(system, "ROOT", tmp_path)

    def write(files):
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(str(text) + "\n")

    write({"proc/meminfo": f"MemTotal: {16 * 1024**2} kB\nMemAvailable: {12 * 1024**2} kB\nHugePages: 0"})
    return write


def test_memory_of_this_process_is_usable(machine):
    page = os.sysconf("SC_PAGE_SIZE")
    machine({"proc/self/statm": f"{9 * GIB // page} {3 * GIB // page} 100 1 0 500 0"})
    assert system.usable_memory() == 15 * GIB
    machine({"proc/self/statm": f"{9 * GIB // page} {5 * GIB // page} 100 1 0 500 0"})
    assert system.usable_memory() == 16 * GIB  # pages that others share count twice


def test_without_cgroups(machine):
    assert system.usable_memory() == 12 * GIB
    assert system.total_memory() == 16 * GIB
    assert system.available_memory() == 12 * GIB


def cgroup(path, **files):
    """A control group of version 2: its path in /proc, and files below /sys/fs/cgroup."""
    return {"proc/self/cgroup": f"0::{path}"} | {f"sys/fs/cgroup/{k}": v for k, v in files.items()}


# Files of a machine with 16 GiB, of which 12 are free; total and available GiB.
CGROUPS = {
    "limit minus use": ({"app/memory.max": 4 * GIB, "app/memory.current": 3 * GIB}, "/app", 4, 1),
    "no limit": ({"app/memory.max": "max", "app/memory.current": 3 * GIB}, "/app", 16, 12),
    "more used than allowed": ({"memory.max": 2 * GIB, "memory.current": 3 * GIB}, "/", 2, 0),
    "the path of the host": ({"memory.max": 4 * GIB, "memory.current": GIB}, "/docker/0123abcd", 4, 3),
    "cache that can be dropped": (
        {
            "memory.max": 4 * GIB,
            "memory.current": 3 * GIB,
            "memory.stat": f"anon {GIB}\ninactive_file {2 * GIB}",
        },
        "/",
        4,
        3,
    ),
    "the limit of a parent": (
        {
            "pod/container/memory.max": "max",
            "pod/memory.max": 8 * GIB,
            "pod/memory.current": 2 * GIB,
        },
        "/pod/container",
        8,
        6,
    ),
}


@pytest.mark.parametrize("case", CGROUPS)
def test_cgroup_v2(machine, case):
    files, path, total, available = CGROUPS[case]
    machine(cgroup(path, **files))
    assert (system.total_memory(), system.available_memory()) == (total * GIB, available * GIB)


def test_cgroup_v1(machine):
    below = "sys/fs/cgroup/memory"
    machine({"proc/self/cgroup": "5:cpu,cpuacct:/jobs/7\n4:memory:/jobs/7\n3:cpuset:/\n0::/"})
    machine({f"{below}/memory.limit_in_bytes": 2**63 - 4096, f"{below}/memory.usage_in_bytes": 15 * GIB})
    machine({f"{below}/jobs/7/memory.limit_in_bytes": 6 * GIB})
    machine({f"{below}/jobs/7/memory.usage_in_bytes": 5 * GIB})
    machine({f"{below}/jobs/7/memory.stat": f"total_inactive_file {GIB}"})
    assert (system.total_memory(), system.available_memory()) == (6 * GIB, 2 * GIB)


def test_no_proc_at_all(tmp_path, monkeypatch):
    monkeypatch.setattr(system, "ROOT", tmp_path / "nowhere")
    physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert system.total_memory() == system.available_memory() == physical


def test_this_machine_has_memory_cpus_and_disk(tmp_path):
    assert 0 < system.available_memory() <= system.total_memory()
    assert 1 <= system.usable_cpus() <= (os.cpu_count() or 1)
    assert system.free_disk(tmp_path) > 0


@pytest.mark.parametrize(
    ("quota", "cpus"), [("max 100000", 8), ("250000 100000", 3), ("10000 100000", 1), ("9900000 100000", 8)]
)
def test_cpu_quota_v2(machine, monkeypatch, quota, cpus):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    machine(cgroup("/a/b", **{"a/cpu.max": quota}))
    assert system.usable_cpus() == cpus


@pytest.mark.parametrize(("quota", "cpus"), [(-1, 8), (200000, 2)])
def test_cpu_quota_v1(machine, monkeypatch, quota, cpus):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    machine(
        {
            "proc/self/cgroup": "5:cpu,cpuacct:/\n4:memory:/",
            "sys/fs/cgroup/cpu/cpu.cfs_quota_us": quota,
            "sys/fs/cgroup/cpu/cpu.cfs_period_us": 100000,
        }
    )
    assert system.usable_cpus() == cpus


def test_cpus_without_affinity(machine, monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert system.usable_cpus() == 1


def test_peak_memory_of_this_process_only():
    held = bytearray(b"1") * 200_000_000
    code = "from labeltree.base.system import peak_memory; print(peak_memory())"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 5_000_000 < int(run.stdout) < 100_000_000 < len(held) < system.peak_memory()


def test_peak_memory_of_a_program_whose_name_is_cut_within_a_letter(monkeypatch, tmp_path):
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/status").write_bytes(
        b"Name:\t" + "αβγδεζηθ".encode()[:15] + b"\nVmHWM:\t    2112 kB\n"
    )
    monkeypatch.setattr(system, "ROOT", tmp_path)
    assert system.peak_memory() == 2112 * 1024


def test_peak_memory_counts_bytes(monkeypatch, tmp_path):
    monkeypatch.setattr(system, "ROOT", tmp_path)  # a system without /proc
    assert 5_000_000 < system.peak_memory() < 10**12
    monkeypatch.setattr(resource, "getrusage", lambda who: SimpleNamespace(ru_maxrss=2112))
    monkeypatch.setattr(sys, "platform", "linux")
    assert system.peak_memory() == 2112 * 1024
    monkeypatch.setattr(sys, "platform", "darwin")
    assert system.peak_memory() == 2112


def test_free_disk_of_a_path_that_does_not_exist(tmp_path, monkeypatch):
    free = {tmp_path: 1234, tmp_path.parent: 99}
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=free[path]))
    assert system.free_disk(tmp_path / "not" / "there" / "yet") == system.free_disk(tmp_path) == 1234


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (1_250_000, "1.2 MB"),
        (999_949, "999.9 kB"),
        (999_950, "1.0 MB"),
        (1_234_567_890, "1.2 GB"),
        (5 * 10**13, "50.0 TB"),
        (3 * 10**18, "3000.0 PB"),
    ],
)
def test_human_bytes(size, text):
    assert system.human_bytes(size) == text


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("8GB", 8 * 10**9),
        ("500mb", 5 * 10**8),
        ("1.5 GiB", 3 * 2**29),
        ("4k", 4000),
        ("123", 123),
        ("7B", 7),
        ("0", None),
        ("9" * 400, None),
    ],
)
def test_sizes_with_units(text, size):
    assert limits.MEMORY.plain(text) == size


@pytest.mark.parametrize("proc", [True, False])
@pytest.mark.parametrize("mask", [0o022, 0o027, 0o077, 0])
def test_umask(monkeypatch, tmp_path, mask, proc):
    before, umask, seen = os.umask(mask), os.umask, []
    try:
        if not proc:
            monkeypatch.setattr(system, "ROOT", tmp_path)  # a system without /proc
        elif not os.path.exists("/proc/self/status"):
            pytest.skip("no /proc")
        monkeypatch.setattr(os, "umask", lambda value: (seen.append(value), umask(value))[1])
        assert system.umask() == mask
    finally:
        assert umask(before) == mask
    assert seen == ([] if proc else [0o077, mask])
