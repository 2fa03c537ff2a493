"""What the machine has, read from trees of files that look like other machines."""

import os
import shutil
import subprocess
import sys
from types import SimpleNamespace

import pytest

from labeltree import system

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


def test_what_the_process_has_already_is_usable(machine):
    page = os.sysconf("SC_PAGE_SIZE")
    machine({"proc/self/statm": f"{9 * GIB // page} {3 * GIB // page} 100 1 0 500 0"})
    assert system.usable_memory() == 15 * GIB
    machine({"proc/self/statm": f"{9 * GIB // page} {5 * GIB // page} 100 1 0 500 0"})
    assert system.usable_memory() == 16 * GIB  # pages that others share count twice


def test_without_cgroups(machine):
    assert system.usable_memory() == 12 * GIB
    assert system.total_memory() == 16 * GIB
    assert system.available_memory() == 12 * GIB


def test_cgroup_v2_limit_minus_use(machine):
    machine(
        {
            "proc/self/cgroup": "0::/app",
            "sys/fs/cgroup/app/memory.max": 4 * GIB,
            "sys/fs/cgroup/app/memory.current": 3 * GIB,
        }
    )
    assert system.total_memory() == 4 * GIB
    assert system.available_memory() == 1 * GIB


def test_droppable_cache_is_available(machine):
    machine(
        {
            "proc/self/cgroup": "0::/",
            "sys/fs/cgroup/memory.max": 4 * GIB,
            "sys/fs/cgroup/memory.current": 3 * GIB,
            "sys/fs/cgroup/memory.stat": f"anon {GIB}\ninactive_file {2 * GIB}",
        }
    )
    assert system.available_memory() == 3 * GIB


def test_cgroup_v2_without_limit(machine):
    machine(
        {
            "proc/self/cgroup": "0::/app",
            "sys/fs/cgroup/app/memory.max": "max",
            "sys/fs/cgroup/app/memory.current": 3 * GIB,
            "sys/fs/cgroup/app/cpu.max": "max 100000",
        }
    )
    assert system.total_memory() == 16 * GIB
    assert system.available_memory() == 12 * GIB


def test_the_limit_of_a_parent_cgroup_holds(machine):
    machine(
        {
            "proc/self/cgroup": "0::/pod/container",
            "sys/fs/cgroup/pod/container/memory.max": "max",
            "sys/fs/cgroup/pod/memory.max": 8 * GIB,
            "sys/fs/cgroup/pod/memory.current": 2 * GIB,
        }
    )
    assert system.total_memory() == 8 * GIB
    assert system.available_memory() == 6 * GIB


def test_a_path_of_the_host_falls_back_to_what_is_mounted(machine):
    machine(
        {
            "proc/self/cgroup": "0::/docker/0123abcd",
            "sys/fs/cgroup/memory.max": 2 * GIB,
            "sys/fs/cgroup/memory.current": 3 * GIB,
        }
    )
    assert system.available_memory() == 0


def test_cgroup_v1(machine):
    machine(
        {
            "proc/self/cgroup": "5:cpu,cpuacct:/jobs/7\n4:memory:/jobs/7\n3:cpuset:/\n0::/",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": 2**63 - 4096,
            "sys/fs/cgroup/memory/memory.usage_in_bytes": 15 * GIB,
            "sys/fs/cgroup/memory/jobs/7/memory.limit_in_bytes": 6 * GIB,
            "sys/fs/cgroup/memory/jobs/7/memory.usage_in_bytes": 5 * GIB,
            "sys/fs/cgroup/memory/jobs/7/memory.stat": f"total_inactive_file {GIB}",
        }
    )
    assert system.total_memory() == 6 * GIB
    assert system.available_memory() == 2 * GIB


def test_no_proc_at_all(tmp_path, monkeypatch):
    monkeypatch.setattr(system, "ROOT", tmp_path / "nowhere")
    physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert system.total_memory() == system.available_memory() == physical


def test_this_machine_has_memory_and_cpus():
    assert 0 < system.available_memory() <= system.total_memory()
    assert 1 <= system.usable_cpus() <= (os.cpu_count() or 1)


@pytest.mark.parametrize(
    ("quota", "cpus"), [("max 100000", 8), ("250000 100000", 3), ("10000 100000", 1), ("9900000 100000", 8)]
)
def test_cpu_quota_v2(machine, monkeypatch, quota, cpus):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    machine({"proc/self/cgroup": "0::/a/b", "sys/fs/cgroup/a/cpu.max": quota})
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


def test_peak_memory_is_this_programs_own():
    held = bytearray(b"1") * 200_000_000
    code = "from labeltree.system import peak_memory; print(peak_memory())"
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
    assert 5_000_000 < system.peak_memory() < 10**12
    monkeypatch.setattr(system, "ROOT", tmp_path)  # a system without /proc
    here = system.peak_memory()
    assert 5_000_000 < here < 10**12
    monkeypatch.setattr(sys, "platform", "darwin")
    there = system.peak_memory()
    assert there == pytest.approx(here / 1024, rel=0.1)


def test_free_disk_of_a_path_yet_to_be(tmp_path, monkeypatch):
    free = {tmp_path: 1234, tmp_path.parent: 99}
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=free[path]))
    assert system.free_disk(tmp_path / "not" / "there" / "yet") == system.free_disk(tmp_path) == 1234


def test_this_machine_has_disk(tmp_path):
    assert system.free_disk(tmp_path) > 0


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
