// Margins of siblings: out[c] = sum of x * block[row, c] over the matched rows, a tile of columns held in registers.
#pragma once

#include <array>
#include <limits>
#include <utility>

#include "simd.h"

namespace labeltree {

// A feature of the query that the node knows: its row in the node's block, and the query's value.
struct Match {
    int32_t row;
    float x;
};

// Writes `columns` margins and returns the largest. A NaN (only weights or values that are not finite make one)
// becomes -inf, so that margins can always be ordered.
using MarginTile = float (*)(const float* block, int64_t stride, const Match* match, int64_t count, int columns,
                             float* out);

constexpr float minus_infinity = -std::numeric_limits<float>::infinity();

// V vectors of eight columns. The last one ends at the last column, overlapping the one before it if it must:
// nothing past the row is read, and an overlapped column gets the same sum twice.
template <int V>
LABELTREE_INLINE float wide_tile(const float* block, int64_t stride, const Match* match, int64_t count, int columns,
                                 float* out) {
    using Eight = Lanes<float, 8>;
    const int last = columns - 8;
    Eight sum[V];
    for (int k = 0; k < V; ++k) sum[k] = Eight::fill(0);
    for (int64_t i = 0; i < count; ++i) {
        const float* row = block + match[i].row * stride;
        for (int k = 0; k < V - 1; ++k) sum[k].add(match[i].x, Eight::load(row + 8 * k));
        sum[V - 1].add(match[i].x, Eight::load(row + last));
    }
    Eight most = Eight::fill(minus_infinity);
    for (int k = 0; k < V; ++k) {
        sum[k].v[0] = sum[k].v[0] == sum[k].v[0] ? sum[k].v[0] : Eight::fill(minus_infinity).v[0];
        most.v[0] = sum[k].v[0] > most.v[0] ? sum[k].v[0] : most.v[0];
        sum[k].store(out + (k < V - 1 ? 8 * k : last));
    }
    float largest = most.v[0][0];
    for (int k = 1; k < 8; ++k) largest = std::max<float>(largest, most.v[0][k]);
    return largest;
}

// Fewer than eight columns.
template <int C>
LABELTREE_INLINE float narrow_tile(const float* block, int64_t stride, const Match* match, int64_t count, float* out) {
    float sum[C] = {};
    for (int64_t i = 0; i < count; ++i) {
        const float* row = block + match[i].row * stride;
        for (int c = 0; c < C; ++c) sum[c] += match[i].x * row[c];
    }
    float largest = minus_infinity;
    for (int c = 0; c < C; ++c) {
        out[c] = sum[c] == sum[c] ? sum[c] : minus_infinity;
        largest = std::max(largest, out[c]);
    }
    return largest;
}

template <int V>
float wide_portable(const float* block, int64_t stride, const Match* match, int64_t count, int columns, float* out) {
    return wide_tile<V>(block, stride, match, count, columns, out);
}
template <int V>
LABELTREE_AVX2 float wide_avx2(const float* block, int64_t stride, const Match* match, int64_t count, int columns,
                               float* out) {
    return wide_tile<V>(block, stride, match, count, columns, out);
}
template <int C>
float narrow_portable(const float* block, int64_t stride, const Match* match, int64_t count, int, float* out) {
    return narrow_tile<C>(block, stride, match, count, out);
}
template <int C>
LABELTREE_AVX2 float narrow_avx2(const float* block, int64_t stride, const Match* match, int64_t count, int,
                                 float* out) {
    return narrow_tile<C>(block, stride, match, count, out);
}

// One tile function for each width, and how wide a tile may be before its sums spill out of the registers:
// 13 of AVX2's 16 registers (a hundred siblings, the default, are one tile), or 12 of SSE's 16.
struct MarginKernels {
    static constexpr int most_vectors = 13;
    int vectors;
    std::array<MarginTile, most_vectors + 1> wide;
    std::array<MarginTile, 8> narrow;

    MarginTile tile(int columns) const { return columns < 8 ? narrow[columns] : wide[(columns + 7) / 8]; }
};

inline const MarginKernels& margin_kernels() {
    static const MarginKernels kernels = []<size_t... V, size_t... C>(std::index_sequence<V...>,
                                                                      std::index_sequence<C...>) {
        if (use_avx2()) return MarginKernels{13, {nullptr, wide_avx2<V + 1>...}, {nullptr, narrow_avx2<C + 1>...}};
        return MarginKernels{6, {nullptr, wide_portable<V + 1>...}, {nullptr, narrow_portable<C + 1>...}};
    }(std::make_index_sequence<MarginKernels::most_vectors>{}, std::make_index_sequence<7>{});
    return kernels;
}

}  // namespace labeltree
