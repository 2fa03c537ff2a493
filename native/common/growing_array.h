// An array that grows by realloc and becomes a NumPy array without a copy.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <new>

#include "common/binding.h"

namespace labeltree {

// For large blocks, realloc moves pages instead of bytes.
template <class T>
class GrowingArray {
  public:
    GrowingArray() = default;
    GrowingArray(const GrowingArray&) = delete;
    GrowingArray& operator=(const GrowingArray&) = delete;
    ~GrowingArray() { std::free(data_); }

    int64_t size() const { return size_; }
    T* data() { return data_; }

    // Adds elements that are not initialised.
    void extend(int64_t n_more) {
        if (size_ + n_more > capacity_) reallocate(std::max(size_ + n_more, capacity_ + capacity_ / 2));
        size_ += n_more;
    }
    void push(T value) {
        extend(1);
        data_[size_ - 1] = value;
    }
    void shrink(int64_t size) { size_ = size; }
    Numpy<T> release() {
        reallocate(std::max<int64_t>(size_, 1));
        nb::capsule owner(data_, [](void* p) noexcept { std::free(p); });
        Numpy<T> array(data_, {static_cast<size_t>(size_)}, owner);
        data_ = nullptr;
        size_ = capacity_ = 0;
        return array;
    }

  private:
    void reallocate(int64_t capacity) {
        void* moved = std::realloc(data_, capacity * sizeof(T));
        if (!moved) throw std::bad_alloc();
        data_ = static_cast<T*>(moved);
        capacity_ = capacity;
    }

    T* data_ = nullptr;
    int64_t size_ = 0, capacity_ = 0;
};

}  // namespace labeltree
