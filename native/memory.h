// Large scratch arrays: aligned to cache lines, on huge pages where the system has them.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#if defined(__linux__)
#include <malloc.h>
#include <sys/mman.h>
#endif

namespace labeltree {

// Memory that is reused and grows as needed; never copied, initialised only by zeros().
template <class T>
class Buffer {
  public:
    Buffer() = default;
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;
    ~Buffer() { std::free(data_); }

    T* data() { return data_; }

    // Space for `size` elements, contents undefined.
    T* reserve(size_t size) {
        if (size <= size_) return data_;
        std::free(std::exchange(data_, nullptr));
        size_ = 0;
        const size_t huge = size_t{2} << 20;
        const size_t bytes = size * sizeof(T), align = bytes >= 2 * huge ? huge : 64;
        data_ = static_cast<T*>(std::aligned_alloc(align, (bytes + align - 1) / align * align));
        if (!data_) throw std::bad_alloc();
#if defined(MADV_HUGEPAGE)
        if (align == huge) madvise(data_, bytes, MADV_HUGEPAGE);  // only a hint, so the result does not matter
#endif
        size_ = size;
        return data_;
    }
    T* zeros(size_t size) {
        reserve(size);
        if (size) std::memset(static_cast<void*>(data_), 0, size * sizeof(T));
        return data_;
    }

  private:
    T* data_ = nullptr;
    size_t size_ = 0;
};

// Returns free memory to the system: the allocator would keep what threads that have ended freed.
inline void return_free_memory() {
#if defined(__GLIBC__)
    malloc_trim(0);
#endif
}

}  // namespace labeltree
