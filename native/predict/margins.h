// Margins of siblings: for each, the sum of x * weight over the features that the query and the node share.
#pragma once

#include <algorithm>
#include <array>
#include <limits>

#include "predict/tiles.h"

namespace labeltree {

constexpr float minus_infinity = -std::numeric_limits<float>::infinity();

// Writes `n_columns` margins and returns the largest. NaN, which only non-finite weights or values can cause, becomes
// -inf, so that margins can always be ordered.
template <class T>
using MarginTile = float (*)(const T* block, int64_t stride, std::span<const Match> matches, int n_columns,
                             float* margins);

// The margins of `n_columns` children with scales, from the sums over what is stored. Returns the largest.
LABELTREE_INLINE float scaled_margins(const float* sums, const float* scales, const float* biases, float bias,
                                      int n_columns, float* margins) {
    const Eight least = minus_infinity - Eight{};
    Eight most = least;
    auto scale = [&](int c) __attribute__((always_inline)) {
        Eight margin = load_columns(sums, c) * load_columns(scales, c) + bias * load_columns(biases, c);
        margin = margin >= least ? margin : least;
        most = larger(most, margin);
        *reinterpret_cast<UnalignedEight*>(margins + c) = margin;
    };
    if (n_columns < 8) {
        float largest = minus_infinity;
        for (int c = 0; c < n_columns; ++c) {
            const float margin = sums[c] * scales[c] + bias * biases[c];
            margins[c] = margin >= minus_infinity ? margin : minus_infinity;
            largest = std::max(largest, margins[c]);
        }
        return largest;
    }
    for (int c = 0; c + 8 < n_columns; c += 8) scale(c);
    scale(n_columns - 8);
    float largest = most[0];
    for (int k = 1; k < 8; ++k) largest = std::max<float>(largest, most[k]);
    return largest;
}

// The index of the largest of some margins. Works on whole vectors: what follows must be -inf.
LABELTREE_INLINE int index_of_largest(const float* margins, int n_margins) {
    Eight most = load_columns(margins, 0);
    Integers at{};
    for (int c = 8; c < n_margins; c += 8) {
        const Eight some = load_columns(margins, c);
        const Integers is_larger = some > most;
        most = is_larger ? some : most;
        at = is_larger ? c - Integers{} : at;
    }
    int best = 0;
    for (int k = 1; k < 8; ++k) best = most[k] > most[best] ? k : best;
    return at[best] + best;
}

// One function for each width of a tile.
template <class T>
struct MarginTiles {
    int n_vectors;
    std::array<MarginTile<T>, max_tile_vectors + 1> wide;
    std::array<MarginTile<T>, 8> narrow;

    MarginTile<T> tile(int n_columns) const { return n_columns < 8 ? narrow[n_columns] : wide[(n_columns + 7) / 8]; }

    // The width of a tile where there are `n_columns` in all: as few tiles as the registers allow, of similar widths.
    int64_t step(int64_t n_columns) const {
        const int64_t in_all = (n_columns + 7) / 8, n_tiles = (in_all + n_vectors - 1) / n_vectors;
        return (in_all + n_tiles - 1) / n_tiles * 8;
    }
};

// The functions for this CPU, of float, Half and int8_t.
template <class T>
const MarginTiles<T>& margin_tiles();

}  // namespace labeltree
