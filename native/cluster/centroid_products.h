// Products of a sparse row with many centroids at once. Centroids are columns, stored as floats or as bfloat16.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "predict/margins.h"

namespace labeltree {

// The words of a row of `width` columns of bfloat16, a multiple of eight.
constexpr int64_t packed_words(int64_t width) { return (width + 15) / 16 * 8; }

constexpr int64_t pack_chunk = 256;  // rows that a thread packs at a time

inline void pack_bfloat16(const float* row, int64_t width, uint32_t* words) {
    for (int64_t c = 0; c < width; c += 16)
        for (int64_t k = c; k < c + 8; ++k)
            *words++ = to_bfloat16(row[k]) | (c + 8 < width ? to_bfloat16(row[k + 8]) << 16 : 0);
}

// A column of the sums, and where its bfloat16 is in a packed row.
struct PackedColumn {
    int32_t column, half;
    PackedColumn(int32_t from, int64_t place)
        : column(from), half(static_cast<int32_t>((place / 16 * 8 + place % 8) * 2) +
                             ((place % 16 >= 8) == (std::endian::native == std::endian::little))) {}
};

inline void pack_bfloat16(const float* row, std::span<const PackedColumn> columns, uint32_t* words) {
    for (const auto [column, half] : columns) {
        const auto value = static_cast<uint16_t>(to_bfloat16(row[column]));
        std::memcpy(reinterpret_cast<char*>(words) + sizeof value * half, &value, sizeof value);
    }
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

// The products with the first `n_columns` of `width` centroids, both multiples of eight.
inline void centroid_products(const uint32_t* rows, int64_t width, int64_t n_columns, std::span<const Match> matches,
                              float* products) {
    static const auto tiles = []<size_t... V>(std::index_sequence<V...>) {
        return std::array{tile_for_this_cpu<packed_tile<V + 1>, V + 1>()...};
    }(std::make_index_sequence<max_tile_vectors>{});
    // As few tiles as the registers allow; all but the last begin and end at whole words.
    const int64_t n_vectors = n_tile_vectors(), widest = n_columns <= 8 * n_vectors ? n_columns : n_vectors / 2 * 16;
    for (int64_t c = 0; c < n_columns; c += widest)
        tiles[std::min(widest, n_columns - c) / 8 - 1](rows + c / 2, packed_words(width), matches, products + c);
}

// The products with all centroids, for rows of `width` floats.
inline void centroid_products(const float* rows, int64_t width, std::span<const Match> matches, float* products) {
    const MarginTiles<float>& tiles = margin_tiles<float>();
    for (int64_t c = 0; c < width; c += tiles.step(width)) {
        const int n_columns = static_cast<int>(std::min(tiles.step(width), width - c));
        tiles.tile(n_columns)(rows + c, width, matches, n_columns, products + c);
    }
}

// The largest of some numbers and the next one, which may be equal to it.
struct TopTwo {
    float most = -HUGE_VALF, next = -HUGE_VALF;
    void add(float value) {
        next = std::max(next, std::min(most, value));
        most = std::max(most, value);
    }
};

// Vectors that any CPU has: products and differences are rounded in the same way everywhere.
typedef float Quad __attribute__((vector_size(16)));
typedef float UnalignedQuad __attribute__((vector_size(16), aligned(4), may_alias));

LABELTREE_INLINE Quad load_quad(const float* from) { return *reinterpret_cast<const UnalignedQuad*>(from); }

// The two largest of products * rates - squares, which replace the products; all have a multiple of four entries.
inline TopTwo nearness(std::span<float> products, const float* rates, const float* squares) {
    Quad most = -HUGE_VALF - Quad{}, next = most;
    for (int64_t c = 0; c < std::ssize(products); c += 4) {
        const Quad near = load_quad(products.data() + c) * load_quad(rates + c) - load_quad(squares + c);
        *reinterpret_cast<UnalignedQuad*>(products.data() + c) = near;
        const Quad less = near < most ? near : most;
        next = next > less ? next : less;
        most = near > most ? near : most;
    }
    TopTwo top;
    for (int k = 0; k < 4; ++k) {
        top.add(next[k]);
        top.add(most[k]);
    }
    return top;
}

// Calls visit(k) for each k with values[k] == value; their number is a multiple of four.
template <class Visit>
inline void each_equal(std::span<const float> values, float value, Visit&& visit) {
    typedef uint64_t Words __attribute__((vector_size(16)));
    for (int64_t c = 0; c < std::ssize(values); c += 4) {
        const auto equal = reinterpret_cast<Words>(load_quad(values.data() + c) == value - Quad{});
        if ((equal[0] | equal[1]) == 0) continue;
        for (int64_t k = c; k < c + 4; ++k)
            if (values[k] == value) visit(k);
    }
}

}  // namespace labeltree
