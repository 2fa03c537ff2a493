// Sums of rows of a matrix, for a tile of columns that is held in registers.
#pragma once

#include <span>
#include <utility>

#include "blocks/codec.h"

namespace labeltree {

// A row of the matrix, and what to multiply it by.
struct Match {
    int32_t row;
    float x;
};

// Rows are prefetched: this many matches after the last one must be readable, and name rows of the matrix.
constexpr int prefetch_ahead = 8;

// A tile is as wide as its sums fit into registers: 13 of AVX2's 16 registers (the default of 100 siblings is one
// tile), or 12 of SSE's 16, at two for each vector.
constexpr int max_tile_vectors = 13;
constexpr int max_portable_vectors = 6;
inline int n_tile_vectors() { return use_avx2() ? max_tile_vectors : max_portable_vectors; }

// The function of a tile of V vectors for this CPU. Wider tiles than those of any CPU are only used with AVX2.
template <auto tile, int V>
decltype(tile) tile_for_this_cpu() {
    if constexpr (V > max_portable_vectors)
        return &Builds<tile>::avx2;
    else
        return for_this_cpu<tile>();
}

LABELTREE_INLINE Eight load_columns(const float* row, int64_t column) {
    return *reinterpret_cast<const UnalignedEight*>(row + column);
}

// bfloat16: the upper half of a float, rounded. Eight bits of precision suffice to find the nearest centroid.
LABELTREE_INLINE uint32_t to_bfloat16(float value) {
    const auto bits = std::bit_cast<uint32_t>(value);
    return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

// Eight words hold sixteen columns of bfloat16: the first eight in the lower halves, the others in the upper halves,
// so that a shift or a mask makes floats of them.
LABELTREE_INLINE Eight load_columns(const uint32_t* row, int64_t column) {
    typedef uint32_t Words __attribute__((vector_size(32)));
    typedef uint32_t UnalignedWords __attribute__((vector_size(32), aligned(4), may_alias));
    const Words words = *reinterpret_cast<const UnalignedWords*>(row + column / 16 * 8);
    return reinterpret_cast<Eight>(column % 16 ? words & 0xffff0000u : words << 16);
}

typedef int32_t Integers __attribute__((vector_size(32)));

// Eight bytes as floats in the order 0, 4, 1, 5, 2, 6, 3, 7: a byte is shifted to the top of each word and down again.
// Other ways to write this are compiled byte by byte.
LABELTREE_INLINE Eight load_columns(const int8_t* row, int64_t column) {
    typedef uint64_t Words __attribute__((vector_size(32)));
    uint64_t word;
    std::memcpy(&word, row + column, 8);
    const Words words{word, word, word, word};
    const Integers shift{24, 24, 16, 16, 8, 8, 0, 0};
    return __builtin_convertvector(reinterpret_cast<Integers>(words) << shift >> 24, Eight);
}

// Eight halves as floats in the order 0, 2, 4, 6, 1, 3, 5, 7: as to_float(Half), which see.
LABELTREE_INLINE Eight load_columns(const Half* row, int64_t column) {
    typedef int32_t UnalignedFour __attribute__((vector_size(16), aligned(2), may_alias));
    const auto pairs = *reinterpret_cast<const UnalignedFour*>(row + column);
    const Integers words{pairs[0], pairs[1], pairs[2], pairs[3], pairs[0], pairs[1], pairs[2], pairs[3]};
    const Integers shift{16, 16, 16, 16, 0, 0, 0, 0};
    constexpr int kept = std::bit_cast<int>(0x8fffe000);  // sign, exponent and fraction
    return reinterpret_cast<Eight>((words << shift >> 3) & kept) * 0x1p112f;
}

// Sums of loaded columns, in the order of the columns.
template <class T>
LABELTREE_INLINE Eight in_order(Eight sum) {
    if constexpr (std::is_same_v<T, int8_t>)
        return Eight{sum[0], sum[2], sum[4], sum[6], sum[1], sum[3], sum[5], sum[7]};
    else if constexpr (std::is_same_v<T, Half>)
        return Eight{sum[0], sum[4], sum[1], sum[5], sum[2], sum[6], sum[3], sum[7]};
    else
        return sum;
}

template <class T>
constexpr size_t column_bytes = sizeof(T);
template <>
inline constexpr size_t column_bytes<uint32_t> = 2;  // bfloat16

// Adds x * row for every match to the sums, each of eight columns. The last eight end at the last column and may
// overlap those before them: nothing past the row is read, and an overlapped column gets the same sum twice.
// Folds instead of loops: the compiler keeps an array in registers only if its indices are constants from the start.
template <class T, size_t... K>
LABELTREE_INLINE void add_rows(std::index_sequence<K...>, const T* rows, int64_t stride, std::span<const Match> matches,
                               int64_t n_columns, Eight* sum) {
    constexpr size_t last = sizeof...(K) - 1, vector_bytes = 8 * column_bytes<T>;
    const Match* match = matches.data();
    for (const Match* end = match + matches.size(); match != end; ++match) {
        const auto* ahead = reinterpret_cast<const char*>(rows + match[prefetch_ahead].row * stride);
        ((K * vector_bytes % 64 == 0 ? __builtin_prefetch(ahead + K * vector_bytes) : void()), ...);
        const T* row = rows + match->row * stride;
        const float x = match->x;
        ((sum[K] += x * load_columns(row, K < last ? 8 * static_cast<int64_t>(K) : n_columns - 8)), ...);
    }
}

}  // namespace labeltree
