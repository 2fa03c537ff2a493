"""The machine, or the container that this process runs in: memory, disk, CPUs and caches.

System files are read below `ROOT`, so that tests can simulate other machines.
"""

from __future__ import annotations

import math
import os
import resource
import shutil
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

from labeltree.base import limits
from labeltree.errors import InputError

# Memory of Python, NumPy and SciPy without any data: 53 MB were measured, and up to 30 MB more for threads
# and small allocations.
INTERPRETER_BYTES = 90 << 20

ROOT = Path("/")

# The environment variables of what is downloaded, and its places in the user's cache directory.
CACHE_VARIABLE = "LABELTREE_CACHE"
_CACHES = {"models": (CACHE_VARIABLE, "labeltree/models"), "data": ("LABELTREE_DATA", "labeltree")}

_UMASK_LOCK = threading.Lock()


def total_memory() -> int:
    """Return the bytes of memory of the machine, or of the tightest cgroup that this process is in."""
    return min([_meminfo("MemTotal"), *(limit for limit, _ in _memory_limits())])


def available_memory() -> int:
    """Return the bytes of memory that can be allocated without swapping or being killed.

    The minimum of what the machine has available and what each cgroup of this process has left. Cached files
    that the kernel can drop count as available. On systems that do not report it (macOS), all memory does.
    """
    return min([_meminfo("MemAvailable"), *(max(0, limit - used) for limit, used in _memory_limits())])


def usable_memory() -> int:
    """Return the total bytes of memory that this process can use: what it uses already, and what is left."""
    resident = _integers(ROOT / "proc/self/statm")[1:2]
    held = resident[0] * os.sysconf("SC_PAGE_SIZE") if resident else 0
    return min(total_memory(), held + available_memory())


def peak_memory() -> int:
    """Return the peak of this process's resident memory, in bytes."""
    known = _fields(ROOT / "proc/self/status").get("VmHWM:")
    if known is not None:
        return known * 1024
    # On Linux this would include the memory of the parent process.
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def free_disk(path: str | os.PathLike[str]) -> int:
    """Return the free bytes on the file system that holds `path`, which need not exist yet."""
    place = Path(path).absolute()
    while not place.exists():
        place = place.parent
    return shutil.disk_usage(place).free


def cache_directory(kind: str, directory: Path | str | None = None) -> Path:
    """Return where downloads of a kind, "models" or "data", are kept; it need not exist.

    Default: the environment variable ``LABELTREE_CACHE`` or ``LABELTREE_DATA``, or else the directory
    labeltree/models or labeltree in the user's cache, which is ``XDG_CACHE_HOME`` or ``~/.cache``.
    """
    variable, folder = _CACHES[kind]
    chosen = directory or os.environ.get(variable)
    if not chosen:
        home = os.environ.get("XDG_CACHE_HOME") or ""
        # A relative path is to be ignored, says the specification.
        chosen = (Path(home) if os.path.isabs(home) else Path("~/.cache")) / folder
    try:
        return Path(os.path.abspath(Path(chosen).expanduser()))
    except RuntimeError:
        what = f"there is no home directory for downloaded {kind}"
        raise InputError(what, hint=f"set {variable} to a directory") from None


def usable_cpus() -> int:
    """Return how many CPUs this process may use, by its affinity and the CPU quotas of its cgroups.

    A quota of 1.5 CPUs counts as 2.
    """
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min([cpus, *(math.ceil(quota) for quota in _cpu_quotas())]))


def threads_to_use(threads: int | None) -> int:
    """Return the given number of threads, validated, or the number of usable CPUs."""
    chosen: int | None = limits.checked("threads", threads, limits.OPTIONAL_THREADS)
    return usable_cpus() if chosen is None else chosen


def umask() -> int:
    """Return the permission bits that this process removes from the files it creates.

    Returns
    -------
    int
    """
    for line in _read(ROOT / "proc/self/status").splitlines():
        if line.startswith("Umask:"):
            return int(line.split()[1], 8)
    # Elsewhere it can only be read by setting another, which holds for all threads: one that lets nobody else
    # read the files that they create at this moment.
    with _UMASK_LOCK:
        mask = os.umask(0o077)
        os.umask(mask)
    return mask


def human_bytes(size: int) -> str:
    """Format a number of bytes in decimal units: 1 kB is 1000 bytes.

    Examples
    --------
    >>> human_bytes(999), human_bytes(1_234_567_890)
    ('999 B', '1.2 GB')
    """
    if size < 1000:
        return f"{size} B"
    number = float(size)
    for unit in ("kB", "MB", "GB", "TB"):
        number /= 1000
        # A number that would round to 1000.0 is 1.0 of the next unit.
        if number < 999.95:
            return f"{number:.1f} {unit}"
    return f"{number / 1000:.1f} PB"


def _meminfo(field: str) -> int:
    """Return the bytes of a line of /proc/meminfo, or of all memory if there is no such line."""
    kilobytes = _fields(ROOT / "proc/meminfo").get(field + ":")
    if kilobytes is None:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return kilobytes * 1024


def _memory_limits() -> Iterator[tuple[int, int]]:
    """Yield (limit, bytes used that cannot be dropped) of each cgroup that limits this process."""
    for folder in _cgroups("memory"):
        for limit_file, used_file, cache in (
            ("memory.max", "memory.current", "inactive_file"),  # cgroup v2
            ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),  # v1
        ):
            limit, used = _integers(folder / limit_file), _integers(folder / used_file)
            if limit:
                droppable = _fields(folder / "memory.stat").get(cache, 0)
                yield limit[0], max(0, used[0] - droppable) if used else 0


def _cpu_quotas() -> Iterator[float]:
    """Yield the CPUs' worth of time that each cgroup of this process may use."""
    for folder in _cgroups("cpu"):
        together = _integers(folder / "cpu.max")  # v2: quota and period in one file
        apart = _integers(folder / "cpu.cfs_quota_us") + _integers(folder / "cpu.cfs_period_us")  # v1
        for numbers in (together, apart):
            if len(numbers) == 2 and min(numbers) > 0:
                yield numbers[0] / numbers[1]


def _cgroups(controller: str) -> Iterator[Path]:
    """Yield the directories of this process's cgroup and its parents, each of which can set a limit.

    Inside a container, /proc may give the path of the cgroup on the host, of which only the end or nothing is
    mounted. Directories that do not exist have no files to read, and the top one is always tried.
    """
    top = ROOT / "sys/fs/cgroup"
    for line in _read(ROOT / "proc/self/cgroup").splitlines():
        _, _, names_and_path = line.partition(":")
        names, _, path = names_and_path.partition(":")
        if names == "":
            mounts = [top, top / "unified"]
        elif controller in names.split(","):
            mounts = [top / controller]
        else:
            continue
        inside = Path(path.lstrip("/"))
        for mount in mounts:
            for part in (inside, *inside.parents):
                yield mount / part


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")  # the kernel may cut a program's name inside a character
    except OSError:
        return ""


def _integers(path: Path) -> list[int]:
    """Return the numbers in a one-line file; none if it is missing or holds "max" (no limit)."""
    words = _read(path).split()
    return [] if "max" in words else [int(word) for word in words]


def _fields(path: Path) -> dict[str, int]:
    """Return the first number of each line by the name at its start."""
    lines = (line.split() for line in _read(path).splitlines())
    return {words[0]: int(words[1]) for words in lines if len(words) > 1 and words[1].isdigit()}
