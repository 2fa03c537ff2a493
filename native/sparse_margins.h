// Sums of the rows of a sparse block: for each child, x * weight over the features that a query and a panel share.
#pragma once

#include <array>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "margins.h"
#include "memory.h"
#include "sparse_block.h"

namespace labeltree {

// For each byte, which of the weights of its bits, stored next to each other, is at each of eight places; 8 is a zero.
// Bits 0, 1, 2, ... are at places 0, 4, 1, 5, 2, 6, 3, 7, since load_columns changes the order.
struct ExpandTable {
    alignas(8) uint8_t of[256][8];
    constexpr ExpandTable() : of{} {
        for (int byte = 0; byte < 256; ++byte)
            for (int bit = 0, n_set = 0; bit < 8; ++bit)
                of[byte][bit % 2 * 4 + bit / 2] = static_cast<uint8_t>(byte >> bit & 1 ? n_set++ : 8);
    }
};
inline constexpr ExpandTable expand_table;

// The weights of the bits of one byte as floats.
LABELTREE_INLINE Eight expand_eight(uint8_t bits, const uint8_t* packed) {
    const uint8_t* const places = expand_table.of[bits];
    int8_t spread[8];
#if defined(__GNUC__) && !defined(__clang__)
    typedef uint64_t Words __attribute__((vector_size(16)));
    typedef uint8_t Sixteen __attribute__((vector_size(16)));
    const Words from{load_word(packed), 0}, to{load_word(places), 0};
    const auto moved = __builtin_shuffle(reinterpret_cast<Sixteen>(from), reinterpret_cast<Sixteen>(to));
    const uint64_t word = reinterpret_cast<Words>(moved)[0];
    std::memcpy(spread, &word, 8);
#else
    for (int k = 0; k < 8; ++k) spread[k] = places[k] < 8 ? static_cast<int8_t>(packed[places[k]]) : int8_t{0};
#endif
    return load_columns(spread, 0);
}

LABELTREE_INLINE void add_eight(float* sums, float x, Eight weights) {
    const Eight sum = load_columns(sums, 0) + x * weights;
    *reinterpret_cast<UnalignedEight*>(sums) = sum;
}

// The rows of a block that belong to the features of a query, in a list for each form: their first bytes as matches,
// and how many bytes they have. Buffers are reused.
class SparseRowLists {
  public:
    struct List {
        std::span<const Match> rows;
        const uint16_t* n_bytes;
    };
    // Each list has space for `size` rows, and for those that prefetch_ahead requires.
    void reserve(size_t size) {
        step_ = std::max(step_, size + prefetch_ahead);
        rows_.resize(3 * step_);
        n_bytes_.resize(3 * step_);
    }
    LABELTREE_INLINE void clear() {
        for (size_t form = 0; form < 3; ++form) ends_[form] = form * step_;
    }
    LABELTREE_INLINE void add(RowForm form, const Match& row, int64_t n_bytes) {
        const size_t at = ends_[static_cast<size_t>(form)]++;
        rows_[at] = row;
        n_bytes_[at] = static_cast<uint16_t>(n_bytes);
    }
    List list(RowForm form) const {
        const size_t begin = static_cast<size_t>(form) * step_;
        return {{rows_.data() + begin, rows_.data() + ends_[static_cast<size_t>(form)]}, n_bytes_.data() + begin};
    }
    // Lets rows be read ahead of the end of a list.
    void pad(RowForm form) {
        std::fill_n(rows_.data() + ends_[static_cast<size_t>(form)], prefetch_ahead, Match{0, 0});
    }

    // Appends the other lists to that of full rows.
    void join() {
        for (const RowForm form : {RowForm::bits, RowForm::pairs})
            for (const Match& row : list(form).rows) add(RowForm::full, row, 0);
    }

  private:
    size_t step_ = 0;
    std::array<size_t, 3> ends_{};
    std::vector<Match> rows_;
    std::vector<uint16_t> n_bytes_;
};

// Locates rows, and prefetches them, so that their cache misses overlap.
LABELTREE_INLINE void locate_rows(const SparseBlock& block, std::span<const Match> matches, int n_columns,
                                  SparseRowLists& lists) {
    for (const Match& match : matches) block.prefetch(match.row);
    lists.clear();
    for (const Match& match : matches) {
        int64_t start = block.start(match.row), n_bytes = block.size(match.row);
        const bool outside = n_bytes > block.row_bytes() - start;
        start = outside ? 0 : start, n_bytes = outside ? 0 : n_bytes;
        __builtin_prefetch(block.rows() + start);
        __builtin_prefetch(block.rows() + start + n_bytes - 1);
        lists.add(form_of(n_bytes, n_columns), {static_cast<int32_t>(start), match.x}, n_bytes);
    }
}

// Adds rows to the sums of `n_columns` children. There are sums for 256: a damaged row may name any child.
LABELTREE_INLINE void add_bit_rows(const SparseBlock& block, const SparseRowLists::List& list, int n_columns,
                                   float* sums) {
    const int64_t n_bit_bytes = bit_bytes(n_columns);
    uint8_t copy[panel_children + 8] = {};
    for (size_t i = 0; i < list.rows.size(); ++i) {
        const uint8_t* bytes = block.rows() + list.rows[i].row;
        const int64_t n_bytes = list.n_bytes[i];
        const float x = list.rows[i].x;
        if (list.rows[i].row + n_bytes + 8 > block.row_bytes()) {  // weights are read eight at a time
            std::memcpy(copy, bytes, static_cast<size_t>(n_bytes));
            bytes = copy;
        }
        const uint8_t *packed = bytes + n_bit_bytes, *const last = bytes + n_bytes;
        for (int64_t k = 0; k < n_bit_bytes; ++k) {
            add_eight(sums + 8 * k, x, expand_eight(bytes[k], packed));
            packed = std::min(packed + std::popcount(bytes[k]), last);
        }
    }
}

LABELTREE_INLINE void add_pair_rows(const SparseBlock& block, const SparseRowLists::List& list, float* sums) {
    for (size_t i = 0; i < list.rows.size(); ++i) {
        const float x = list.rows[i].x;
        const uint8_t* pair = block.rows() + list.rows[i].row;
        for (const uint8_t* const last = pair + (list.n_bytes[i] & ~1); pair != last; pair += 2)
            sums[pair[0]] += x * static_cast<float>(static_cast<int8_t>(pair[1]));
    }
}

#if defined(__x86_64__)
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
#pragma GCC unroll 16
    for (int k = 0; k < 4 * G; ++k)  // NaN becomes -inf, as in write_margins
        sum[k] = _mm512_maskz_max_ps(0xffff, sum[k], _mm512_set1_ps(minus_infinity));
    const int64_t n_bit_bytes = bit_bytes(n_columns);
    uint8_t copy[panel_children + 64] = {};
    for (size_t i = 0; i < bits.rows.size(); ++i) {
        const uint8_t* bytes = rows + bits.rows[i].row;
        if (bits.rows[i].row + bits.n_bytes[i] + 64 > block.row_bytes()) {  // more may be read than the row has
            std::memcpy(copy, bytes, bits.n_bytes[i]);
            bytes = copy;
        }
        const uint8_t *packed = bytes + n_bit_bytes, *const row_end = bytes + bits.n_bytes[i];
        const __m512 x = _mm512_set1_ps(bits.rows[i].x);
#pragma GCC unroll 4
        for (int g = 0; g < G; ++g) {
            const __mmask64 mask = load_word(bytes + 8 * g) & (g + 1 < G ? ~uint64_t{0} : last);
            const int n_set = std::popcount(uint64_t{mask});
            // A row of 64 children has fewer than 32 weights here, and 64 bytes would touch another cache line.
            const __m512i stored =
                G == 1 || n_set <= 32
                    ? _mm512_castsi256_si512(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(packed)))
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
#endif

// The sums of one block, for one query after another. Rows are added in the order full, bits, pairs, whether the block
// is expanded or not: a sum does not depend on it. Buffers are reused from block to block.
class SparseSums {
  public:
    // `n_matches` is the number of rows that will be added in all. With many, the block is first expanded to bytes,
    // unless the CPU expands rows as fast as it would add bytes.
    void begin(const SparseBlock& block, int64_t n_rows, int n_columns, int64_t n_matches) {
        block_ = &block;
        n_columns_ = n_columns;
        expanded_ = !use_expand_ && n_matches > 2 * n_rows && n_rows * n_columns <= max_expanded_bytes;
        if (!expanded_) return;
        int8_t* const dense = dense_.zeros(n_rows * n_columns);
        forms_.resize(n_rows);
        for (int64_t f = 0; f < n_rows; ++f) {
            const auto row = block.row(f);
            forms_[f] = form_of(std::ssize(row), n_columns);
            for_each_weight(row, n_columns, [&](size_t child, int8_t weight) {
                if (child < static_cast<size_t>(n_columns)) dense[f * n_columns + static_cast<int64_t>(child)] = weight;
            });
        }
    }

    // Writes the sums of the children. More matches follow, as prefetch_ahead requires.
    void run(std::span<const Match> matches, float* sums) {
        lists_.reserve(matches.size());
        if (expanded_)
            add_expanded(matches, sums);
        else
            add_stored(matches, sums);
    }

  private:
    static constexpr int64_t max_expanded_bytes = 16 << 20;

    void add_stored(std::span<const Match> matches, float* sums) {
        locate_(*block_, matches, n_columns_, lists_);
        const auto bits = lists_.list(RowForm::bits);
#if defined(__x86_64__)
        if (use_expand_)
            expand_sums_of[(n_columns_ - 1) / 64](*block_, lists_.list(RowForm::full).rows, bits, n_columns_, sums);
#endif
        if (!use_expand_) {
            add_tiles(reinterpret_cast<const int8_t*>(block_->rows()), 1, sums);
            add_bit_rows_(*block_, bits, n_columns_, sums);
        }
        add_pair_rows_(*block_, lists_.list(RowForm::pairs), sums);
    }

    void add_expanded(std::span<const Match> matches, float* sums) {
        lists_.clear();
        for (const Match& match : matches) lists_.add(forms_[match.row], match, 0);
        lists_.join();
        add_tiles(dense_.data(), n_columns_, sums);
    }

    // Writes the sums of the rows in full, which are `stride` bytes apart.
    void add_tiles(const int8_t* rows, int64_t stride, float* sums) {
        lists_.pad(RowForm::full);
        const auto full = lists_.list(RowForm::full).rows;
        const int64_t step = tiles_.step(n_columns_);
        for (int64_t c = 0; c < n_columns_; c += step) {
            const int width = static_cast<int>(std::min<int64_t>(step, n_columns_ - c));
            tiles_.tile(width)(rows + c, stride, full, width, sums + c);
        }
    }

    const SparseBlock* block_ = nullptr;
    int n_columns_ = 0;
    bool expanded_ = false;
    Buffer<int8_t> dense_;
    std::vector<RowForm> forms_;
    const MarginTiles<int8_t>& tiles_ = margin_tiles<int8_t>();
    decltype(&locate_rows) const locate_ = for_this_cpu<locate_rows>();
    decltype(&add_bit_rows) const add_bit_rows_ = for_this_cpu<add_bit_rows>();
    decltype(&add_pair_rows) const add_pair_rows_ = for_this_cpu<add_pair_rows>();
    const bool use_expand_ = use_expand();
    SparseRowLists lists_;
};

}  // namespace labeltree
