// Margins of siblings: sums[c] += x * block[row, c] over the matched rows, a tile of columns held in registers.
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

constexpr float minus_infinity = -std::numeric_limits<float>::infinity();

// Ends a query's matches; no block has that many rows.
constexpr Match no_match{std::numeric_limits<int32_t>::max(), 0};

// Adds x * row to `columns` sums for each match until one's row is at or past `limit`, and returns that one.
// The matches end with no_match, and prefetch_ahead more may be looked at.
using MarginTile = const Match* (*)(const float* block, int64_t stride, const Match* match, int32_t limit, int columns,
                                    float* sums);

constexpr int prefetch_ahead = 8;

typedef float Eight __attribute__((vector_size(32)));
typedef float UnalignedEight __attribute__((vector_size(32), aligned(4), may_alias));

// Vectors of eight columns. The last one ends at the last column, overlapping the one before it if it must:
// nothing past the row is read, and an overlapped column gets the same sum twice.
// Folds rather than loops: the compiler keeps an array in registers only if it sees constant indices from the start.
template <size_t... K>
LABELTREE_INLINE const Match* wide_tile(std::index_sequence<K...>, const float* block, int64_t stride,
                                        const Match* match, int32_t limit, int columns, float* sums) {
    const int64_t last = columns - 8;
    const auto at = [&](size_t k)  __attribute__((always_inline)) { return k + 1 < sizeof...(K) ? static_cast<int64_t>(8 * k) : last; };
    Eight sum[sizeof...(K)] = {*reinterpret_cast<const UnalignedEight*>(sums + at(K))...};
    for (; match->row < limit; ++match) {
        // An integer, because it may lie outside of the block: a prefetch does not mind.
        const auto ahead = reinterpret_cast<uintptr_t>(block) + 4 * (match[prefetch_ahead].row * stride);
        ((K % 2 == 0 ? __builtin_prefetch(reinterpret_cast<const void*>(ahead + 32 * K)) : void()), ...);
        const float* row = block + match->row * stride;
        const float x = match->x;
        ((sum[K] += x * *reinterpret_cast<const UnalignedEight*>(row + at(K))), ...);
    }
    ((*reinterpret_cast<UnalignedEight*>(sums + at(K)) = sum[K]), ...);
    return match;
}

// Fewer than eight columns.
template <int C>
LABELTREE_INLINE const Match* narrow_tile(const float* block, int64_t stride, const Match* match, int32_t limit,
                                          float* sums) {
    float sum[C];
    std::memcpy(sum, sums, sizeof(sum));
    for (; match->row < limit; ++match) {
        const float* row = block + match->row * stride;
        for (int c = 0; c < C; ++c) sum[c] += match->x * row[c];
    }
    std::memcpy(sums, sum, sizeof(sum));
    return match;
}

template <int V>
const Match* wide_portable(const float* block, int64_t stride, const Match* match, int32_t limit, int columns,
                           float* sums) {
    return wide_tile(std::make_index_sequence<V>{}, block, stride, match, limit, columns, sums);
}
template <int V>
LABELTREE_AVX2 const Match* wide_avx2(const float* block, int64_t stride, const Match* match, int32_t limit,
                                      int columns, float* sums) {
    return wide_tile(std::make_index_sequence<V>{}, block, stride, match, limit, columns, sums);
}
template <int C>
const Match* narrow_portable(const float* block, int64_t stride, const Match* match, int32_t limit, int,
                             float* sums) {
    return narrow_tile<C>(block, stride, match, limit, sums);
}
template <int C>
LABELTREE_AVX2 const Match* narrow_avx2(const float* block, int64_t stride, const Match* match, int32_t limit, int,
                                        float* sums) {
    return narrow_tile<C>(block, stride, match, limit, sums);
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
