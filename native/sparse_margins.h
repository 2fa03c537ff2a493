// Sums of the rows of a sparse block: for each child, x * weight over the features that a query and a panel share.
#pragma once

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

// The sums of one block, for one query after another. Rows are added in the order full, bits, pairs, whether the block
// is expanded or not: a sum does not depend on it. Buffers are reused from block to block.
class SparseSums {
  public:
    // `n_matches` is the number of rows that will be added in all. With many, the block is first expanded to bytes.
    void begin(const SparseBlock& block, int64_t n_rows, int n_columns, int64_t n_matches) {
        block_ = &block;
        n_columns_ = n_columns;
        expanded_ = n_matches > 2 * n_rows && n_rows * n_columns <= max_expanded_bytes;
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
        full_.resize(std::max(full_.size(), matches.size() + prefetch_ahead));
        bits_.resize(std::max(bits_.size(), matches.size() + 1));
        pairs_.resize(std::max(pairs_.size(), matches.size() + 1));
        if (expanded_)
            add_expanded(matches, sums);
        else
            add_stored(matches, sums);
    }

  private:
    static constexpr int64_t max_expanded_bytes = 16 << 20;

    void add_stored(std::span<const Match> matches, float* sums) {
        SparseRowList ends{full_.data(), bits_.data(), pairs_.data()};
        locate_(*block_, matches, n_columns_, ends);
        add_tiles(reinterpret_cast<const int8_t*>(block_->rows()), 1, ends.full, sums);
        add_bit_rows_({bits_.data(), ends.bits}, n_columns_, block_->rows() + block_->row_bytes(), sums);
        add_pair_rows_({pairs_.data(), ends.pairs}, sums);
    }

    void add_expanded(std::span<const Match> matches, float* sums) {
        Match* end = full_.data();
        for (const RowForm form : {RowForm::full, RowForm::bits, RowForm::pairs})
            for (const Match& match : matches) {
                *end = match;
                end += forms_[match.row] == form;
            }
        add_tiles(dense_.data(), n_columns_, end, sums);
    }

    void add_tiles(const int8_t* rows, int64_t stride, Match* end, float* sums) {
        std::fill_n(end, prefetch_ahead, Match{0, 0});
        const std::span<const Match> matches(full_.data(), end);
        const int64_t step = tiles_.step(n_columns_);
        for (int64_t c = 0; c < n_columns_; c += step) {
            const int width = static_cast<int>(std::min<int64_t>(step, n_columns_ - c));
            tiles_.tile(width)(rows + c, stride, matches, width, sums + c);
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
    std::vector<Match> full_;
    std::vector<SparseRowList::Row> bits_, pairs_;
};

}  // namespace labeltree
