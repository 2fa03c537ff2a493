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

template <class T, size_t... K>
LABELTREE_INLINE float write_margins(std::index_sequence<K...>, Eight* sum, int64_t n_columns, float* margins) {
    constexpr size_t last = sizeof...(K) - 1;
    const Eight least = minus_infinity - Eight{};
    Eight most = least;
    ((sum[K] = in_order<T>(sum[K]), sum[K] = sum[K] >= least ? sum[K] : least, most = sum[K] > most ? sum[K] : most,
      *reinterpret_cast<UnalignedEight*>(margins + (K < last ? 8 * static_cast<int64_t>(K) : n_columns - 8)) = sum[K]),
     ...);
    float largest = most[0];
    for (int k = 1; k < 8; ++k) largest = std::max<float>(largest, most[k]);
    return largest;
}

// At least eight columns, in V vectors.
template <class T, int V>
LABELTREE_INLINE float wide_tile(const T* block, int64_t stride, std::span<const Match> matches, int n_columns,
                                 float* margins) {
    constexpr auto vectors = std::make_index_sequence<V>{};
    Eight sum[V] = {};
    add_rows(vectors, block, stride, matches, n_columns, sum);
    return write_margins<T>(vectors, sum, n_columns, margins);
}

#if defined(__x86_64__)
// The same for bytes, with instructions that the compiler does not find.
template <int V>
LABELTREE_AVX2 float byte_tile(const int8_t* block, int64_t stride, std::span<const Match> matches, int n_columns,
                               float* margins) {
    Eight sum[V] = {};
    const Match* match = matches.data();
    for (const Match* const end = match + matches.size(); match != end; ++match) {
        const int8_t* const ahead = block + match[prefetch_ahead].row * stride;
        __builtin_prefetch(ahead);
        if constexpr (V > 8) __builtin_prefetch(ahead + 64);
        const int8_t* const row = block + match->row * stride;
        const __m256 x = _mm256_set1_ps(match->x);
#pragma GCC unroll 16
        for (int k = 0; k < V; ++k)
            sum[k] = _mm256_fmadd_ps(x, bytes_to_floats(load_bytes(row + (k < V - 1 ? 8 * k : n_columns - 8))), sum[k]);
    }
    return write_margins<float>(std::make_index_sequence<V>{}, sum, n_columns, margins);
}
#endif

// Fewer than eight columns: C.
template <class T, int C>
LABELTREE_INLINE float narrow_tile(const T* block, int64_t stride, std::span<const Match> matches, int,
                                   float* margins) {
    float sum[C] = {};
    for (const Match& match : matches) {
        const T* row = block + match.row * stride;
        for (int c = 0; c < C; ++c) sum[c] += match.x * to_float(row[c]);
    }
    float largest = minus_infinity;
    for (int c = 0; c < C; ++c) {
        margins[c] = sum[c] >= minus_infinity ? sum[c] : minus_infinity;
        largest = std::max(largest, margins[c]);
    }
    return largest;
}

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

template <class T>
const MarginTiles<T>& margin_tiles() {
    static const MarginTiles<T> tiles = []<size_t... V, size_t... C>(std::index_sequence<V...>,
                                                                     std::index_sequence<C...>) {
        MarginTiles<T> found{n_tile_vectors(),
                             {nullptr, for_this_cpu<wide_tile<T, V + 1>>()...},
                             {nullptr, for_this_cpu<narrow_tile<T, C + 1>>()...}};
#if defined(__x86_64__)
        if constexpr (std::is_same_v<T, int8_t>)
            if (use_avx2()) found.wide = {nullptr, byte_tile<V + 1>...};
#endif
        return found;
    }(std::make_index_sequence<max_tile_vectors>{}, std::make_index_sequence<7>{});
    return tiles;
}

}  // namespace labeltree
