// The sums of sparse_margins.h with AVX2: as many children at a time as have their sums in registers.
#pragma once

#if defined(__x86_64__)
#include "predict/sparse_rows.h"

namespace labeltree {

// For each byte, which of the weights of its bits, stored next to each other, is at each of eight places; 0x80 is a
// zero.
struct ShuffleTable {
    alignas(8) uint8_t of[256][8];
    constexpr ShuffleTable() : of{} {
        for (int byte = 0; byte < 256; ++byte)
            for (int bit = 0, n_set = 0; bit < 8; ++bit)
                of[byte][bit] = static_cast<uint8_t>(byte >> bit & 1 ? n_set++ : 0x80);
    }
};
inline constexpr ShuffleTable shuffle_table;

// Writes the sums of 8 V children, from the `first` on, for rows in full and rows with bits. Sums of children that the
// block does not have mean nothing.
template <int V>
LABELTREE_AVX2 void sparse_tile(const SparseBlock& block, const SparseRowLists& lists, int n_columns, int first,
                                float* sums) {
    __m256 sum[V];
#pragma GCC unroll 16
    for (int k = 0; k < V; ++k) sum[k] = _mm256_setzero_ps();
    RowReader full(block, lists.list(RowForm::full));
    for (size_t i = 0; i < full.size(); ++i) {
        const uint8_t* const bytes = full.bytes(i) + first;
        const __m256 x = _mm256_set1_ps(full.x(i));
#pragma GCC unroll 16
        for (int k = 0; k < V; ++k) sum[k] = _mm256_fmadd_ps(x, bytes_to_floats(load_bytes(bytes + 8 * k)), sum[k]);
    }
    RowReader bits(block, lists.list(RowForm::bits));
    for (size_t i = 0; i < bits.size(); ++i) {
        const uint8_t *bit = bits.bytes(i), *packed = bit + bit_bytes(n_columns);
        for (int k = 0; k < first / 8; ++k) packed += std::popcount(*bit++);
        const __m256 x = _mm256_set1_ps(bits.x(i));
#pragma GCC unroll 16
        for (int k = 0; k < V; ++k) {
            const __m128i places = load_bytes(shuffle_table.of[bit[k]]);
            sum[k] = _mm256_fmadd_ps(x, bytes_to_floats(_mm_shuffle_epi8(load_bytes(packed), places)), sum[k]);
            packed += std::popcount(bit[k]);
        }
    }
#pragma GCC unroll 16
    for (int k = 0; k < V; ++k) _mm256_storeu_ps(sums + first + 8 * k, sum[k]);
}
using SparseTile = decltype(&sparse_tile<1>);
inline constexpr auto sparse_tiles = []<size_t... V>(std::index_sequence<V...>) {
    return std::array<SparseTile, max_tile_vectors + 1>{nullptr, sparse_tile<V + 1>...};
}(std::make_index_sequence<max_tile_vectors>{});

// The sums of sparse_tile for all children of a block.
inline void sums_by_tiles(const SparseBlock& block, const SparseRowLists& lists, int n_columns, int64_t step,
                          float* sums) {
    for (int first = 0; first < n_columns; first += static_cast<int>(step))
        sparse_tiles[(std::min<int64_t>(step, n_columns - first) + 7) / 8](block, lists, n_columns, first, sums);
}

}  // namespace labeltree
#endif
