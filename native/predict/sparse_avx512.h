// The sums of sparse_margins.h with AVX-512, which spreads bytes by the bits of a mask.
#pragma once

#if defined(__x86_64__)
#include <immintrin.h>

#include "predict/margins.h"
#include "predict/sparse_rows.h"

namespace labeltree {

// Adds x times sixteen weights of 64, the k-th, to a sum. Without the masks GCC 12 warns of undefined values.
template <int k>
LABELTREE_EXPAND LABELTREE_INLINE void add_sixteen(__m512 x, __m512i weights, __m512& sum) {
    const __m512i wide = _mm512_maskz_cvtepi8_epi32(0xffff, _mm512_maskz_extracti32x4_epi32(0xf, weights, k));
    sum = _mm512_fmadd_ps(x, _mm512_maskz_cvtepi32_ps(0xffff, wide), sum);
}

LABELTREE_EXPAND LABELTREE_INLINE void add_sixty_four(__m512 x, __m512i weights, __m512* sums) {
    add_sixteen<0>(x, weights, sums[0]);
    add_sixteen<1>(x, weights, sums[1]);
    add_sixteen<2>(x, weights, sums[2]);
    add_sixteen<3>(x, weights, sums[3]);
}

// Writes the sums of rows in full and of rows with bits, for children in G groups of 64. The same operations in the
// same order as with AVX2, so the same sums.
template <int G>
LABELTREE_EXPAND void expand_sums(const SparseBlock& block, std::span<const Match> full,
                                  const SparseRowLists::List& bits, int n_columns, float* sums) {
    const uint8_t* const rows = block.rows();
    __m512 sum[4 * G];
#pragma GCC unroll 16
    for (int k = 0; k < 4 * G; ++k) sum[k] = _mm512_setzero_ps();
    const __mmask64 last = ~uint64_t{0} >> (64 * G - n_columns);
    for (const Match& match : full) {
        const __m512 x = _mm512_set1_ps(match.x);
#pragma GCC unroll 4
        for (int g = 0; g < G; ++g) {
            const __mmask64 mask = g + 1 < G ? ~uint64_t{0} : last;
            add_sixty_four(x, _mm512_maskz_loadu_epi8(mask, rows + match.row + 64 * g), sum + 4 * g);
        }
    }
    const int64_t n_bit_bytes = bit_bytes(n_columns);
    uint8_t copy[block_children + 64] = {};
    for (size_t i = 0; i < bits.rows.size(); ++i) {
        const uint8_t* bytes = rows + bits.rows[i].row;
        if (int64_t{bits.rows[i].row} + bits.n_bytes[i] + 64 >
            block.row_bytes()) {  // more may be read than the row has
            std::memcpy(copy, bytes, bits.n_bytes[i]);
            bytes = copy;
        }
        const uint8_t *packed = bytes + n_bit_bytes, *const row_end = bytes + bits.n_bytes[i];
        const __m512 x = _mm512_set1_ps(bits.rows[i].x);
#pragma GCC unroll 4
        for (int g = 0; g < G; ++g) {
            const __mmask64 mask = load_word(bytes + 8 * g) & (g + 1 < G ? ~uint64_t{0} : last);
            const int n_set = std::popcount(uint64_t{mask});
            // 64 bytes would often touch another cache line.
            const __m512i stored =
                n_set <= 32 ? _mm512_castsi256_si512(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(packed)))
                            : _mm512_loadu_si512(packed);
            add_sixty_four(x, _mm512_maskz_expand_epi8(mask, stored), sum + 4 * g);
            packed = std::min(packed + n_set, row_end);
        }
    }
#pragma GCC unroll 16
    for (int k = 0; k < 4 * G; ++k) _mm512_storeu_ps(sums + 16 * k, sum[k]);
}
using ExpandSums = decltype(&expand_sums<1>);
inline constexpr ExpandSums expand_sums_of[] = {expand_sums<1>, expand_sums<2>, expand_sums<3>, expand_sums<4>};

}  // namespace labeltree
#endif
