"""Free memory between objects is occupied, so that what is allocated later is on pages of its own."""

import json
import os
import platform
import subprocess
import sys

import pytest

# A sanitizer, which is preloaded, has an allocator of its own.
IS_GLIBC = platform.libc_ver()[0] == "glibc" and not os.environ.get("LD_PRELOAD")

# Every other object is freed, small and large ones; later objects would take their places.
SCRIPT = """
import json
from labeltree import _native

def pages(objects):
    return {id(each) >> 12 for each in objects}

kept = {size: [bytes(size) for _ in range(count)] for size, count in ((100, 4000), (3000, 1000))}
for objects in kept.values():
    del objects[::2]
occupied = _native.occupy_free_memory(), _native.occupy_free_memory()
later = {size: [bytes(size) for _ in range(500)] for size in kept}
shared = {size: len(pages(kept[size]) & pages(later[size])) for size in kept}
print(json.dumps({"occupied": occupied, "shared": shared}))
"""


# Blocks of the smallest size, half of them freed; and one that another thread allocated, freed last.
HEAP_SCRIPT = """
import ctypes, threading
from labeltree import _native
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
small = [libc.malloc(24) for _ in range(3000)]
six, other = [libc.malloc(200) for _ in range(6)], []
thread = threading.Thread(target=lambda: other.append(libc.malloc(200)))
thread.start(), thread.join()
freed = {*small[::2], *six}
for block in [*small[::2], *six, *other]:
    libc.free(block)
_native.occupy_free_memory()
later = {libc.malloc(size) for size in (24, 200) for _ in range(1400)}
print(len(later & freed))
"""


@pytest.mark.skipif(not IS_GLIBC, reason="the heap is that of glibc")
def test_free_places_of_every_size_are_occupied():
    done = subprocess.run([sys.executable, "-c", HEAP_SCRIPT], stdout=subprocess.PIPE, check=True)
    assert int(done.stdout) <= 7  # of a size, as many as a thread keeps at hand


def run_with(allocator):
    """Run the script with an allocator of Python."""
    environment = {**os.environ, "PYTHONMALLOC": allocator}
    done = subprocess.run([sys.executable, "-c", SCRIPT], env=environment, stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


def test_later_objects_share_no_pages():
    result = run_with("pymalloc")
    first, second = result["occupied"]
    assert result["shared"]["100"] == 0
    assert first >= 2000 * 100
    assert second < first / 2
    if IS_GLIBC:
        assert result["shared"]["3000"] <= 1  # the last page of the heap
        assert first >= 500 * 3000


@pytest.mark.parametrize("allocator", ["malloc", "malloc_debug", "pymalloc_debug"])
def test_other_allocators(allocator):
    """At most 1 MB of each of 32 sizes is occupied, besides what the heap had."""
    first, second = run_with(allocator)["occupied"]
    assert first < 100 << 20
    assert second < 33 << 20
