// Margins of siblings: for each, the sum of x * weight over the features that the query and the node share.
#pragma once

#include <algorithm>
#include <array>
#include <limits>

#include "tiles.h"

namespace labeltree {

constexpr float minus_infinity = -std::numeric_limits<float>::infinity();

// Writes `n_columns` margins and returns the largest. NaN, which only non-finite weights or values can cause, becomes
// -inf, so that margins can always be ordered.
using MarginTile = float (*)(const float* block, int64_t stride, std::span<const Match> matches, int n_columns,
                             float* margins);

template <size_t... K>
LABELTREE_INLINE float write_margins(std::index_sequence<K...>, Eight* sum, int64_t n_columns, float* margins) {
    constexpr size_t last = sizeof...(K) - 1;
    const Eight least = minus_infinity - Eight{};
    Eight most = least;
    ((sum[K] = sum[K] >= least ? sum[K] : least, most = sum[K] > most ? sum[K] : most,
      *reinterpret_cast<UnalignedEight*>(margins + (K < last ? 8 * static_cast<int64_t>(K) : n_columns - 8)) = sum[K]),
     ...);
    float largest = most[0];
    for (int k = 1; k < 8; ++k) largest = std::max<float>(largest, most[k]);
    return largest;
}

// At least eight columns, in V vectors.
template <int V>
LABELTREE_INLINE float wide_tile(const float* block, int64_t stride, std::span<const Match> matches, int n_columns,
                                 float* margins) {
    constexpr auto vectors = std::make_index_sequence<V>{};
    Eight sum[V] = {};
    add_rows(vectors, block, stride, matches, n_columns, sum);
    return write_margins(vectors, sum, n_columns, margins);
}

// Fewer than eight columns: C.
template <int C>
LABELTREE_INLINE float narrow_tile(const float* block, int64_t stride, std::span<const Match> matches, int,
                                   float* margins) {
    float sum[C] = {};
    for (const Match& match : matches) {
        const float* row = block + match.row * stride;
        for (int c = 0; c < C; ++c) sum[c] += match.x * row[c];
    }
    float largest = minus_infinity;
    for (int c = 0; c < C; ++c) {
        margins[c] = sum[c] >= minus_infinity ? sum[c] : minus_infinity;
        largest = std::max(largest, margins[c]);
    }
    return largest;
}

// One function for each width of a tile.
struct MarginTiles {
    int n_vectors;
    std::array<MarginTile, max_tile_vectors + 1> wide;
    std::array<MarginTile, 8> narrow;

    MarginTile tile(int n_columns) const { return n_columns < 8 ? narrow[n_columns] : wide[(n_columns + 7) / 8]; }

    // The width of a tile where there are `n_columns` in all: as few tiles as the registers allow, of similar widths.
    int64_t step(int64_t n_columns) const {
        const int64_t in_all = (n_columns + 7) / 8, n_tiles = (in_all + n_vectors - 1) / n_vectors;
        return (in_all + n_tiles - 1) / n_tiles * 8;
    }
};

inline const MarginTiles& margin_tiles() {
    static const MarginTiles tiles = []<size_t... V, size_t... C>(std::index_sequence<V...>,
                                                                  std::index_sequence<C...>) {
        return MarginTiles{n_tile_vectors(),
                           {nullptr, for_this_cpu<wide_tile<V + 1>>()...},
                           {nullptr, for_this_cpu<narrow_tile<C + 1>>()...}};
    }(std::make_index_sequence<max_tile_vectors>{}, std::make_index_sequence<7>{});
    return tiles;
}

}  // namespace labeltree
