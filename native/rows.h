// The shape that clustering and prediction share: out[0..width) = sum of value * matrix[row, 0..width) over sparse entries.
#pragma once

#include "simd.h"

namespace labeltree {

struct Entry {
    int32_t row;
    float value;
};

constexpr int lane_floats = 8;           // a 32-byte vector
constexpr int most_row_vectors = 13;     // sums of 104 columns stay in the 16 AVX2 registers

template <int Vectors>
LABELTREE_INLINE void sum_rows_tile(const Entry* entries, int64_t count, const float* matrix, int64_t stride,
                                    float* out) {
    auto sum = Lanes<float, Vectors * lane_floats>::fill(0);
    for (int64_t k = 0; k < count; ++k)
        sum.add(entries[k].value,
                Lanes<float, Vectors * lane_floats>::load(matrix + static_cast<int64_t>(entries[k].row) * stride));
    sum.store(out);
}

// width is a multiple of 8; the matrix is row-major with `stride` floats a row.
LABELTREE_INLINE void sum_rows(const Entry* entries, int64_t count, const float* matrix, int64_t stride, int64_t width,
                               float* out) {
    for (int64_t done = 0; done < width;) {
        const int64_t left = (width - done) / lane_floats;
        const int64_t vectors = left <= most_row_vectors ? left : (left >= 2 * most_row_vectors ? most_row_vectors : left / 2);
        switch (vectors) {
#define LABELTREE_TILE(V) \
    case V: sum_rows_tile<V>(entries, count, matrix + done, stride, out + done); break;
            LABELTREE_TILE(1) LABELTREE_TILE(2) LABELTREE_TILE(3) LABELTREE_TILE(4) LABELTREE_TILE(5)
            LABELTREE_TILE(6) LABELTREE_TILE(7) LABELTREE_TILE(8) LABELTREE_TILE(9) LABELTREE_TILE(10)
            LABELTREE_TILE(11) LABELTREE_TILE(12) LABELTREE_TILE(13)
#undef LABELTREE_TILE
        }
        done += vectors * lane_floats;
    }
}

}  // namespace labeltree
