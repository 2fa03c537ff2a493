// Products of a sparse row with many centroids at once, the centroids as floats or in half the bytes.
#pragma once

#include <bit>
#include <utility>

#include "margins.h"

namespace labeltree {

// The upper half of a float, rounded: eight bits of precision, enough to tell which centroid is nearest.
LABELTREE_INLINE uint32_t half(float value) {
    const uint32_t bits = std::bit_cast<uint32_t>(value);
    return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

typedef uint32_t EightWords __attribute__((vector_size(32)));
typedef uint32_t UnalignedWords __attribute__((vector_size(32), aligned(4), may_alias));

// Sixteen columns in eight words: the first eight in the lower halves, the others in the upper ones, so that a shift or
// a mask makes floats of them. `width` is a multiple of eight.
inline void pack_halves(const float* row, int64_t width, uint32_t* words) {
    for (int64_t c = 0; c < width; c += 16)
        for (int64_t k = c; k < c + 8; ++k) *words++ = half(row[k]) | (c + 8 < width ? half(row[k + 8]) << 16 : 0);
}

// Folds rather than loops, as in margins.h, whose rule for the matches behind the last one holds here, too.
template <size_t... K>
LABELTREE_INLINE void likeness_tile(std::index_sequence<K...>, const uint32_t* rows, int64_t stride, const Match* match,
                                    int64_t count, float* products) {
    Eight sum[] = {(static_cast<void>(K), Eight{})...};
    for (const Match* end = match + count; match != end; ++match) {
        const uint32_t* ahead = rows + match[prefetch_ahead].row * stride;
        ((K % 4 == 0 ? __builtin_prefetch(ahead + 4 * K) : void()), ...);
        const uint32_t* row = rows + match->row * stride;
        const float x = match->x;
        auto column = [&](size_t k) __attribute__((always_inline)) {
            const EightWords words = *reinterpret_cast<const UnalignedWords*>(row + k / 2 * 8);
            return reinterpret_cast<Eight>(k % 2 ? words & 0xffff0000u : words << 16);
        };
        ((sum[K] += x * column(K)), ...);
    }
    ((*reinterpret_cast<UnalignedEight*>(products + 8 * K) = sum[K]), ...);
}

template <int V>
void likeness_portable(const uint32_t* rows, int64_t stride, const Match* match, int64_t count, float* products) {
    likeness_tile(std::make_index_sequence<V>{}, rows, stride, match, count, products);
}
template <int V>
LABELTREE_AVX2 void likeness_avx2(const uint32_t* rows, int64_t stride, const Match* match, int64_t count, float* products) {
    likeness_tile(std::make_index_sequence<V>{}, rows, stride, match, count, products);
}

// The products with `width` centroids, a multiple of eight. A row is (width + 15) / 16 * 8 words.
inline void likeness(const uint32_t* rows, int64_t width, const Match* match, int64_t count, float* products) {
    using Tile = void (*)(const uint32_t*, int64_t, const Match*, int64_t, float*);
    constexpr int most = MarginKernels::most_vectors;
    static const auto tiles = []<size_t... V>(std::index_sequence<V...>) {
        return use_avx2() ? std::array<Tile, most>{likeness_avx2<V + 1>...}
                          : std::array<Tile, most>{likeness_portable<V + 1>...};
    }(std::make_index_sequence<most>{});
    // As few tiles as the registers allow; all but the last begin and end between words.
    const int64_t widest = width <= 8 * margin_kernels().vectors ? width : margin_kernels().vectors / 2 * 16;
    for (int64_t c = 0; c < width; c += widest)
        tiles[std::min(widest, width - c) / 8 - 1](rows + c / 2, (width + 15) / 16 * 8, match, count, products + c);
}

// The same with rows of `width` floats.
inline void likeness(const float* rows, int64_t width, const Match* match, int64_t count, float* products) {
    const MarginKernels& kernels = margin_kernels();
    for (int64_t c = 0; c < width; c += kernels.step(width)) {
        const int columns = static_cast<int>(std::min(kernels.step(width), width - c));
        kernels.tile(columns)(rows + c, width, match, count, columns, products + c);
    }
}

}  // namespace labeltree
