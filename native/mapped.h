// An array in a file, mapped into memory.
#pragma once

#include <atomic>
#include <cerrno>
#include <span>
#include <system_error>

#include <sys/mman.h>
#include <unistd.h>

#include "block_writer.h"

namespace labeltree {

template <class T>
class MappedArray {
  public:
    MappedArray(const ArrayFile& file, int64_t size) {
        if (size == 0) return;
        length_ = static_cast<size_t>(file.start) + static_cast<size_t>(size) * sizeof(T);
        start_ = ::mmap(nullptr, length_, PROT_READ, MAP_SHARED, file.descriptor, 0);
        if (start_ == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "mapping the model");
        values = {reinterpret_cast<const T*>(static_cast<const char*>(start_) + file.start), static_cast<size_t>(size)};
    }
    MappedArray(const MappedArray&) = delete;
    MappedArray& operator=(const MappedArray&) = delete;
    ~MappedArray() {
        if (length_) ::munmap(start_, length_);
    }

    // Call this after reading a part of it. The pages would count as memory of this process as long as they are mapped,
    // so all are released now and then; they can be read again at any time.
    void done_with(size_t n_values) {
        constexpr size_t most = size_t{8} << 20;
        if ((n_read_ += n_values * sizeof(T)) < most) return;
        n_read_ = 0;
        ::madvise(start_, length_, MADV_DONTNEED);
    }

    std::span<const T> values;

  private:
    void* start_ = nullptr;
    size_t length_ = 0;
    std::atomic<size_t> n_read_{0};
};

}  // namespace labeltree
