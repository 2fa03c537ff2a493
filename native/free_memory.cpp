// Free memory between objects: occupied before a process is forked, so that its copies leave those pages shared.
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <new>
#include <vector>

#include "binding.h"
#include "memory.h"

namespace labeltree {
namespace {

// Python's small objects: blocks of the same size, in pools of 16 KiB (4 KiB on systems with 32 bits).
constexpr size_t largest_block = 512, block_step = 16, pool_bytes = 16 << 10, pool_head = 48;
// Of one size: some allocators never return blocks one after the other.
constexpr size_t most_bytes = 1 << 20;

// Occupies blocks of one size until they come from a new pool: as many as it has, one after the other. Those are freed
// again. Returns the bytes that stay occupied.
size_t occupy_blocks(size_t size) {
    std::vector<char*> in_a_row;
    size_t n_bytes = 0;
    intptr_t step = 0;
    while (n_bytes < most_bytes) {
        char* const block = static_cast<char*>(PyObject_Malloc(size));
        if (!block) throw std::bad_alloc();
        n_bytes += size;
        const intptr_t before = step;
        step = in_a_row.empty() ? 0 : reinterpret_cast<intptr_t>(block) - reinterpret_cast<intptr_t>(in_a_row.back());
        const bool continues = step >= static_cast<intptr_t>(size) && step <= static_cast<intptr_t>(2 * size + 64);
        if (!continues || (in_a_row.size() > 1 && step != before)) in_a_row.clear();
        in_a_row.push_back(block);
        if (continues && (in_a_row.size() + 1) * static_cast<size_t>(step) > pool_bytes - pool_head) break;
    }
    n_bytes -= in_a_row.size() * size;
    for (; !in_a_row.empty(); in_a_row.pop_back()) PyObject_Free(in_a_row.back());
    return n_bytes;
}

// Occupies the free parts of the heap of the main thread, the largest first. Returns their bytes.
size_t occupy_heap() {
    size_t n_bytes = 0;
#if defined(__GLIBC__)
    return_free_memory();  // whole pages, and the end of the heap
#if __GLIBC_PREREQ(2, 33)
    const size_t most = mallinfo2().arena;
#else
    const size_t most = static_cast<unsigned>(mallinfo().arena);
#endif
    const auto end = reinterpret_cast<uintptr_t>(::sbrk(0)), start = end - most;
    // Larger parts would come from outside the heap, and freeing one changes what later ones do.
    constexpr size_t largest = 120 << 10, small = 1 << 10;
    // Of other threads: the allocator may offer a few of these before free parts of this heap.
    std::array<void*, 16> elsewhere;
    for (size_t size = largest; size >= block_step;
         size = size > small ? size / 16 * 15 / block_step * block_step : size - block_step) {
        for (size_t n_elsewhere = 0;;) {
            char* const part = static_cast<char*>(std::malloc(size));
            if (!part) throw std::bad_alloc();
            const auto at = reinterpret_cast<uintptr_t>(part);
            *static_cast<volatile char*>(part) = 0;  // or the compiler may leave out the call
            if (at >= start && at + size <= end) {
                n_bytes += size;
                continue;
            }
            elsewhere[n_elsewhere++] = part;
            if (n_elsewhere < elsewhere.size()) continue;
            for (void* const other : elsewhere) std::free(other);
            break;
        }
    }
#endif
    return n_bytes;
}

}  // namespace

void bind_free_memory(nb::module_& m) {
    m.def(
        "occupy_free_memory",
        [] {
            size_t n_bytes = occupy_heap();
            for (size_t size = block_step; size <= largest_block; size += block_step) n_bytes += occupy_blocks(size);
            return n_bytes;
        },
        "Occupy the free memory between objects, until the process ends. What is allocated later is on pages of its "
        "own. Returns the bytes.");
}

}  // namespace labeltree
