"""Free memory between objects is occupied, so that what is allocated later is on pages of its own."""

import json
import os
import platform
import subprocess
import sys

import pytest

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
    if platform.libc_ver()[0] == "glibc":
        assert result["shared"]["3000"] <= 1  # the last page of the heap
        assert first >= 500 * 3000


@pytest.mark.parametrize("allocator", ["malloc", "malloc_debug", "pymalloc_debug"])
def test_other_allocators(allocator):
    """At most 1 MB of each of 32 sizes is occupied, besides what the heap had."""
    first, second = run_with(allocator)["occupied"]
    assert first < 100 << 20
    assert second < 33 << 20
