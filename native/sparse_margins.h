// Sums of the rows of a sparse block: for each child, x * weight over the features that a query and a panel share.
#pragma once

#include "sparse_block.h"
#include "tiles.h"

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

struct LocatedRow {
    std::span<const uint8_t> bytes;
    float x;
};

// Writes the sums of `n_columns` children. `located` has space for all matches, `sums` for 256 children: a damaged row
// may name any of them.
LABELTREE_INLINE void sparse_sums(const SparseBlock& block, std::span<const Match> matches, int n_columns,
                                  LocatedRow* located, float* sums) {
    for (int c = 0; c < n_columns; c += 8) *reinterpret_cast<UnalignedEight*>(sums + c) = Eight{};
    // All rows are located first, so that their cache misses overlap.
    LocatedRow* end = located;
    for (const Match& match : matches) {
        *end = {block.row(match.row), match.x};
        __builtin_prefetch(end->bytes.data());
        ++end;
    }
    const int64_t n_bit_bytes = bit_bytes(n_columns);
    uint8_t copy[panel_children + 8];
    for (const LocatedRow* row = located; row != end; ++row) {
        const float x = row->x;
        const uint8_t* bytes = row->bytes.data();
        const auto n_bytes = std::ssize(row->bytes);
        const RowForm form = form_of(n_bytes, n_columns);
        if (form == RowForm::pairs) {
            for (const uint8_t* last = bytes + (n_bytes & ~1); bytes != last; bytes += 2)
                sums[bytes[0]] += x * static_cast<float>(static_cast<int8_t>(bytes[1]));
            continue;
        }
        if (!block.has_space_after(row->bytes)) {
            std::memcpy(copy, bytes, static_cast<size_t>(n_bytes));
            std::memset(copy + n_bytes, 0, 8);
            bytes = copy;
        }
        if (form == RowForm::full) {
            // Whole vectors: what is read past the row changes sums past the last child.
            for (int c = 0; c < n_columns; c += 8)
                add_eight(sums + c, x, in_order<int8_t>(load_columns(reinterpret_cast<const int8_t*>(bytes), c)));
            continue;
        }
        const uint8_t *packed = bytes + n_bit_bytes, *const last = bytes + n_bytes;
        for (int64_t k = 0; k < n_bit_bytes; ++k) {
            add_eight(sums + 8 * k, x, expand_eight(bytes[k], packed));
            packed = std::min(packed + std::popcount(bytes[k]), last);
        }
    }
}

}  // namespace labeltree
