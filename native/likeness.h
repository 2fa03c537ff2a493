// Products of a sparse row with many centroids at once. Centroids are columns, stored as floats or as bfloat16.
#pragma once

#include "margins.h"

namespace labeltree {

// The words of a row of `width` columns of bfloat16, a multiple of eight.
constexpr int64_t packed_words(int64_t width) { return (width + 15) / 16 * 8; }

inline void pack_bfloat16(const float* row, int64_t width, uint32_t* words) {
    for (int64_t c = 0; c < width; c += 16)
        for (int64_t k = c; k < c + 8; ++k)
            *words++ = to_bfloat16(row[k]) | (c + 8 < width ? to_bfloat16(row[k + 8]) << 16 : 0);
}

template <int V>
LABELTREE_INLINE void packed_tile(const uint32_t* rows, int64_t stride, std::span<const Match> matches,
                                  float* products) {
    [&]<size_t... K>(std::index_sequence<K...> vectors) __attribute__((always_inline)) {
        Eight sum[V] = {};
        add_rows(vectors, rows, stride, matches, 8 * V, sum);
        ((*reinterpret_cast<UnalignedEight*>(products + 8 * K) = sum[K]), ...);
    }(std::make_index_sequence<V>{});
}

// The products with `width` centroids, a multiple of eight.
inline void likeness(const uint32_t* rows, int64_t width, std::span<const Match> matches, float* products) {
    static const auto tiles = []<size_t... V>(std::index_sequence<V...>) {
        return std::array{for_this_cpu<packed_tile<V + 1>>()...};
    }(std::make_index_sequence<max_tile_vectors>{});
    // As few tiles as the registers allow; all but the last begin and end at whole words.
    const int64_t n_vectors = n_tile_vectors(), widest = width <= 8 * n_vectors ? width : n_vectors / 2 * 16;
    for (int64_t c = 0; c < width; c += widest)
        tiles[std::min(widest, width - c) / 8 - 1](rows + c / 2, packed_words(width), matches, products + c);
}

// The same for rows of `width` floats.
inline void likeness(const float* rows, int64_t width, std::span<const Match> matches, float* products) {
    const MarginTiles<float>& tiles = margin_tiles<float>();
    for (int64_t c = 0; c < width; c += tiles.step(width)) {
        const int n_columns = static_cast<int>(std::min(tiles.step(width), width - c));
        tiles.tile(n_columns)(rows + c, width, matches, n_columns, products + c);
    }
}

}  // namespace labeltree
