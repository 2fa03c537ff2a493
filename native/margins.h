// Margins and scores of siblings. A margin is the sum of x * block[row, c] over the matched rows: a tile of columns is
// held in registers.
#pragma once

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "simd.h"

namespace labeltree {

// The functions g that turn a margin into a score: sigmoid(3 s), exp(-max(0, 1 - s)^2), exp(-max(0, 1 - s)^3).
enum Score { sigmoid = 0, squared = 1, cubed = 2 };

// A feature of the query that the node knows: its row in the node's block, and the query's value.
struct Match {
    int32_t row;
    float x;
};

// Writes the `columns` margins and returns the largest. A NaN (only weights or values that are not finite make one)
// becomes -inf, so that margins can always be ordered. Rows are prefetched ahead: of the matches behind the last one,
// prefetch_ahead must be readable and hold rows of the block.
using MarginTile = float (*)(const float* block, int64_t stride, const Match* match, int64_t count, int columns,
                             float* margins);

constexpr int prefetch_ahead = 8;
constexpr float minus_infinity = -std::numeric_limits<float>::infinity();

// Vectors of eight columns. The last one ends at the last column, overlapping the one before it if it must:
// nothing past the row is read, and an overlapped column gets the same sum twice.
// Folds rather than loops: the compiler keeps an array in registers only if it sees constant indices from the start.
template <size_t... K>
LABELTREE_INLINE float wide_tile(std::index_sequence<K...>, const float* block, int64_t stride, const Match* match,
                                 int64_t count, int columns, float* margins) {
    constexpr size_t last = sizeof...(K) - 1;
    const int64_t last_at = columns - 8;
    Eight sum[] = {(static_cast<void>(K), Eight{})...};
    for (const Match* end = match + count; match != end; ++match) {
        const float* ahead = block + match[prefetch_ahead].row * stride;
        ((K % 2 == 0 ? __builtin_prefetch(ahead + 8 * K) : void()), ...);
        const float* row = block + match->row * stride;
        const float x = match->x;
        ((sum[K] += x * *reinterpret_cast<const UnalignedEight*>(row + (K < last ? 8 * K : last_at))), ...);
    }
    const Eight least = minus_infinity - Eight{};
    Eight most = least;
    ((sum[K] = sum[K] >= least ? sum[K] : least, most = sum[K] > most ? sum[K] : most,
      *reinterpret_cast<UnalignedEight*>(margins + (K < last ? 8 * K : last_at)) = sum[K]),
     ...);
    float largest = most[0];
    for (int k = 1; k < 8; ++k) largest = std::max<float>(largest, most[k]);
    return largest;
}

// Fewer than eight columns.
template <int C>
LABELTREE_INLINE float narrow_tile(const float* block, int64_t stride, const Match* match, int64_t count,
                                   float* margins) {
    float sum[C] = {};
    for (const Match* end = match + count; match != end; ++match) {
        const float* row = block + match->row * stride;
        for (int c = 0; c < C; ++c) sum[c] += match->x * row[c];
    }
    float largest = minus_infinity;
    for (int c = 0; c < C; ++c) {
        margins[c] = sum[c] >= minus_infinity ? sum[c] : minus_infinity;
        largest = std::max(largest, margins[c]);
    }
    return largest;
}

template <int V>
float wide_portable(const float* block, int64_t stride, const Match* match, int64_t count, int columns,
                           float* margins) {
    return wide_tile(std::make_index_sequence<V>{}, block, stride, match, count, columns, margins);
}
template <int V>
LABELTREE_AVX2 float wide_avx2(const float* block, int64_t stride, const Match* match, int64_t count,
                                      int columns, float* margins) {
    return wide_tile(std::make_index_sequence<V>{}, block, stride, match, count, columns, margins);
}
template <int C>
float narrow_portable(const float* block, int64_t stride, const Match* match, int64_t count, int,
                             float* margins) {
    return narrow_tile<C>(block, stride, match, count, margins);
}
template <int C>
LABELTREE_AVX2 float narrow_avx2(const float* block, int64_t stride, const Match* match, int64_t count, int,
                                        float* margins) {
    return narrow_tile<C>(block, stride, match, count, margins);
}

// The scores exp(log_score + log g(margin)) of `count` siblings under a parent, all positive.
// Works on whole vectors: both arrays must have room for a multiple of eight.
using ScoreAll = void (*)(const float* margins, int count, float log_score, int score, float* scores);

LABELTREE_INLINE void score_all(const float* margins, int count, float log_score, int score, float* scores) {
    const Eight zero{}, one = zero + 1.0f, lowest = zero - 87.34f, tiny = zero + std::numeric_limits<float>::min();
    const Eight parent = exp_eight(larger(zero + log_score, lowest));
    for (int c = 0; c < count; c += 8) {
        const Eight margin = *reinterpret_cast<const UnalignedEight*>(margins + c);
        Eight out;
        if (score == sigmoid) {
            out = parent / (1.0f + exp_eight(smaller(larger(-3.0f * margin, lowest), -lowest)));
        } else {
            const Eight missing = larger(1.0f - margin, zero);
            out = exp_eight(larger(log_score - missing * missing * (score == cubed ? missing : one), lowest));
        }
        *reinterpret_cast<UnalignedEight*>(scores + c) = smaller(larger(out, tiny), one);
    }
}
inline void score_all_portable(const float* margins, int count, float log_score, int score, float* scores) {
    score_all(margins, count, log_score, score, scores);
}
LABELTREE_AVX2 inline void score_all_avx2(const float* margins, int count, float log_score, int score, float* scores) {
    score_all(margins, count, log_score, score, scores);
}

// One tile function for each width, and how wide a tile may be before its sums spill out of the registers:
// 13 of AVX2's 16 registers (a hundred siblings, the default, are one tile), or 12 of SSE's 16.
struct MarginKernels {
    static constexpr int most_vectors = 13;
    int vectors;
    std::array<MarginTile, most_vectors + 1> wide;
    std::array<MarginTile, 8> narrow;
    ScoreAll score_all;

    MarginTile tile(int columns) const { return columns < 8 ? narrow[columns] : wide[(columns + 7) / 8]; }

    // Columns of a tile where there are `columns` in all: as few tiles as the registers allow, all about as wide.
    int64_t step(int64_t columns) const {
        const int64_t in_all = (columns + 7) / 8, tiles = (in_all + vectors - 1) / vectors;
        return (in_all + tiles - 1) / tiles * 8;
    }
};

inline const MarginKernels& margin_kernels() {
    static const MarginKernels kernels = []<size_t... V, size_t... C>(std::index_sequence<V...>,
                                                                      std::index_sequence<C...>) {
        if (use_avx2())
            return MarginKernels{
                13, {nullptr, wide_avx2<V + 1>...}, {nullptr, narrow_avx2<C + 1>...}, score_all_avx2};
        return MarginKernels{
            6, {nullptr, wide_portable<V + 1>...}, {nullptr, narrow_portable<C + 1>...}, score_all_portable};
    }(std::make_index_sequence<MarginKernels::most_vectors>{}, std::make_index_sequence<7>{});
    return kernels;
}

}  // namespace labeltree
