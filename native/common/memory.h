// Large scratch arrays: aligned to cache lines, on huge pages where the system has them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>

#include <sys/mman.h>

#if defined(__GLIBC__)
#include <malloc.h>
#endif

namespace labeltree {

// Memory that is reused and grows as needed; never copied, initialised only by zeros(). Large buffers are mapped, so
// that the system has the memory back as soon as they are freed: the allocator would keep that of threads.
template <class T>
class Buffer {
  public:
    Buffer() = default;
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;
    ~Buffer() { release(); }

    T* data() { return data_; }

    // Space for `size` elements, contents undefined.
    T* reserve(size_t size) {
        if (size <= size_) return data_;
        release();
        const size_t bytes = size * sizeof(T);
        data_ = static_cast<T*>(bytes >= 2 * huge ? map(bytes) : std::aligned_alloc(64, (bytes + 63) / 64 * 64));
        if (!data_) throw std::bad_alloc();
        size_ = size;
        return data_;
    }
    T* zeros(size_t size) {
        reserve(size);
        if (size) std::memset(static_cast<void*>(data_), 0, size * sizeof(T));
        return data_;
    }

    void release() {
        if (mapped_)
            ::munmap(mapped_, n_mapped_);
        else
            std::free(data_);
        data_ = nullptr;
        mapped_ = nullptr;
        size_ = 0;
    }

  private:
    static constexpr size_t huge = size_t{2} << 20;

    // Aligned to huge pages; null if there is not enough memory.
    void* map(size_t bytes) {
        n_mapped_ = (bytes + huge - 1) / huge * huge + huge;
        void* const start = ::mmap(nullptr, n_mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (start == MAP_FAILED) return nullptr;
        mapped_ = start;
        void* const aligned = static_cast<char*>(start) + (huge - reinterpret_cast<uintptr_t>(start) % huge) % huge;
#if defined(MADV_HUGEPAGE)
        madvise(aligned, n_mapped_ - huge, MADV_HUGEPAGE);  // only a hint, so the result does not matter
#endif
        return aligned;
    }

    T* data_ = nullptr;
    size_t size_ = 0;
    void* mapped_ = nullptr;
    size_t n_mapped_ = 0;
};

// From now on, returns arrays of 256 kB and more to the system as soon as they are freed. The allocator would otherwise
// keep more and more of them, which is faster.
inline void return_memory_at_once() {
#if defined(__GLIBC__)
    mallopt(M_MMAP_THRESHOLD, 256 << 10);
    mallopt(M_TRIM_THRESHOLD, 256 << 10);
#endif
}

// Returns free memory to the system: the allocator would keep what threads that have ended freed.
inline void return_free_memory() {
#if defined(__GLIBC__)
    malloc_trim(0);
#endif
}

}  // namespace labeltree
