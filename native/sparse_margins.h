// Sums of the rows of a sparse block: for each child, x * weight over the features that a query and a panel share.
#pragma once

#include "margins.h"
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

LABELTREE_INLINE uint64_t load_word(const uint8_t* bytes) {
    uint64_t out;
    std::memcpy(&out, bytes, 8);
    return out;
}

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

// The rows of a block that belong to the features of a query, by form. Full rows are matches by their first byte.
struct SparseRowList {
    struct Row {
        const uint8_t* bytes;
        int64_t n_bytes;
        float x;
    };
    Match* full;
    Row *bits, *pairs;
};

// Locates rows, and returns the ends of the lists. Prefetches the rows, so that their cache misses overlap.
LABELTREE_INLINE void locate_rows(const SparseBlock& block, std::span<const Match> matches, int n_columns,
                                  SparseRowList& lists) {
    for (const Match& match : matches) block.prefetch(match.row);
    for (const Match& match : matches) {
        const auto row = block.row(match.row);
        const int64_t n_bytes = std::ssize(row);
        __builtin_prefetch(row.data());
        const RowForm form = form_of(n_bytes, n_columns);
        // All lists are written to and one of them grows: a branch could not be predicted.
        *lists.full = {static_cast<int32_t>(row.data() - block.rows()), match.x};
        *lists.bits = {row.data(), n_bytes, match.x};
        *lists.pairs = {row.data(), n_bytes, match.x};
        lists.full += form == RowForm::full;
        lists.bits += form == RowForm::bits;
        lists.pairs += form == RowForm::pairs;
    }
}

// Adds rows to the sums of `n_columns` children. There are sums for 256: a damaged row may name any child.
LABELTREE_INLINE void add_bit_rows(std::span<const SparseRowList::Row> rows, int n_columns, const uint8_t* block_end,
                                   float* sums) {
    const int64_t n_bit_bytes = bit_bytes(n_columns);
    uint8_t copy[panel_children + 8] = {};
    for (const auto& [start, n_bytes, x] : rows) {
        const uint8_t* bytes = start;
        if (bytes + n_bytes + 8 > block_end) {  // weights are read eight at a time
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

LABELTREE_INLINE void add_pair_rows(std::span<const SparseRowList::Row> rows, float* sums) {
    for (const auto& [start, n_bytes, x] : rows)
        for (const uint8_t *pair = start, *const last = start + (n_bytes & ~1); pair != last; pair += 2)
            sums[pair[0]] += x * static_cast<float>(static_cast<int8_t>(pair[1]));
}

// Its buffers are reused from block to block.
class SparseSums {
  public:
    // Writes the sums of `n_columns` children.
    void run(const SparseBlock& block, std::span<const Match> matches, int n_columns, float* sums) {
        if (full_.size() < matches.size() + prefetch_ahead) {
            full_.resize(matches.size() + prefetch_ahead);
            bits_.resize(matches.size() + 1);
            pairs_.resize(matches.size() + 1);
        }
        SparseRowList ends{full_.data(), bits_.data(), pairs_.data()};
        locate_(block, matches, n_columns, ends);
        std::fill_n(ends.full, prefetch_ahead, Match{0, 0});
        const std::span<const Match> full(full_.data(), ends.full);
        const auto* rows = reinterpret_cast<const int8_t*>(block.rows());
        const int64_t step = tiles_.step(n_columns);
        for (int64_t c = 0; c < n_columns; c += step) {
            const int width = static_cast<int>(std::min(step, n_columns - c));
            tiles_.tile(width)(rows + c, 1, full, width, sums + c);
        }
        add_bit_rows_({bits_.data(), ends.bits}, n_columns, block.rows() + block.row_bytes(), sums);
        add_pair_rows_({pairs_.data(), ends.pairs}, sums);
    }

  private:
    const MarginTiles<int8_t>& tiles_ = margin_tiles<int8_t>();
    decltype(&locate_rows) const locate_ = for_this_cpu<locate_rows>();
    decltype(&add_bit_rows) const add_bit_rows_ = for_this_cpu<add_bit_rows>();
    decltype(&add_pair_rows) const add_pair_rows_ = for_this_cpu<add_pair_rows>();
    std::vector<Match> full_;
    std::vector<SparseRowList::Row> bits_, pairs_;
};

}  // namespace labeltree
