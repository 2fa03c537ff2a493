// The weights of a strip as they are stored: kept group by group as they are solved, and read row by row.
//
// A row has the weights of one feature for all children of the strip, in their order; the children of a group are
// anywhere in it. Rows are put together a few at a time, while they are in the cache.
#pragma once

#include <algorithm>
#include <cstring>
#include <span>
#include <vector>

#include "common/memory.h"
#include "train/problem.h"

namespace labeltree {

class GroupWeights {
  public:
    // The order of the children, in groups of `siblings`, is kept by the caller.
    void reset(int64_t n_rows, std::span<const int32_t> order, int64_t weight_bytes) {
        n_rows_ = n_rows;
        order_ = order;
        weight_bytes_ = weight_bytes;
        weights_.reserve(n_rows * std::ssize(order) * weight_bytes);
    }

    // The weights of a group: as many per row as it has children.
    template <class T>
    T* of_group(int64_t group) {
        return reinterpret_cast<T*>(weights_.data()) + n_rows_ * group * siblings;
    }

    // Rows first to last - 1, until the next call.
    const uint8_t* rows(int64_t first, int64_t last) {
        // A single group is in the order of the children, and so are its rows.
        if (std::ssize(order_) <= siblings) return weights_.data() + first * std::ssize(order_) * weight_bytes_;
        rows_.resize((last - first) * std::ssize(order_) * weight_bytes_);
        switch (weight_bytes_) {
            case 1: gather<uint8_t>(first, last); break;
            case 2: gather<uint16_t>(first, last); break;
            default: gather<uint32_t>(first, last);
        }
        return rows_.data();
    }

    void release() {
        weights_.release();
        std::vector<uint8_t>().swap(rows_);
    }

  private:
    template <class T>
    void gather(int64_t first, int64_t last) {
        const int64_t n_children = std::ssize(order_);
        T* const to = reinterpret_cast<T*>(rows_.data());
        for (int64_t start = 0; start < n_children; start += siblings) {
            const int64_t size = std::min<int64_t>(siblings, n_children - start);
            const int32_t* const children = order_.data() + start;
            const T* from = of_group<T>(start / siblings) + first * size;
            for (T* row = to; row != to + (last - first) * n_children; row += n_children, from += size)
                for (int64_t s = 0; s < size; ++s) row[children[s]] = from[s];
        }
    }

    int64_t n_rows_ = 0, weight_bytes_ = 4;
    std::span<const int32_t> order_;
    Buffer<uint8_t> weights_;
    std::vector<uint8_t> rows_;
};

}  // namespace labeltree
