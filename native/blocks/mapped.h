// Arrays in files, mapped into memory.
#pragma once

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <span>
#include <system_error>

#include <sys/mman.h>
#include <unistd.h>

#include "blocks/block_writer.h"

namespace labeltree {

// Pages of a file that are mapped and only read. They would count as memory of this process as long as they are mapped,
// so all are released now and then; they can be read again at any time.
class ReadPages {
  public:
    void watch(const void* start, size_t length) {
        const auto size = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE)), at = reinterpret_cast<uintptr_t>(start);
        const uintptr_t first = (at + size - 1) / size * size, end = (at + length) / size * size;
        if (first < end) start_ = reinterpret_cast<void*>(first), length_ = end - first;
    }

    // Call this after reading a part of them. With a page that is read, Linux maps those around it.
    void done_with(size_t n_bytes) {
        constexpr size_t most = size_t{4} << 20, around = size_t{64} << 10;
        if (length_ == 0 || n_bytes == 0 || (n_read_ += n_bytes + around) < most) return;
        n_read_ = 0;
        ::madvise(start_, length_, MADV_DONTNEED);
    }

  private:
    void* start_ = nullptr;
    size_t length_ = 0;
    std::atomic<size_t> n_read_{0};
};

template <class T>
class MappedArray {
  public:
    MappedArray(const ArrayFile& file, int64_t size) {
        if (size == 0) return;
        length_ = static_cast<size_t>(file.start) + static_cast<size_t>(size) * sizeof(T);
        start_ = ::mmap(nullptr, length_, PROT_READ, MAP_SHARED, file.descriptor, 0);
        if (start_ == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "mapping the model");
        pages_.watch(start_, length_);
        values = {reinterpret_cast<const T*>(static_cast<const char*>(start_) + file.start), static_cast<size_t>(size)};
    }
    MappedArray(const MappedArray&) = delete;
    MappedArray& operator=(const MappedArray&) = delete;
    ~MappedArray() {
        if (length_) ::munmap(start_, length_);
    }

    void done_with(size_t n_values) { pages_.done_with(n_values * sizeof(T)); }

    std::span<const T> values;

  private:
    void* start_ = nullptr;
    size_t length_ = 0;
    ReadPages pages_;
};

}  // namespace labeltree
