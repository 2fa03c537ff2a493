// A sparse block: for each of its features, the non-zero weights in one of three forms.
//
// Layout, for F rows and r <= 256 children, with B = (r + 7) / 8:
//   uint32[4]              F, r, the number of non-zero weights, and the bytes of all rows
//   for each 16 rows, and those that are left:
//     uint32               where the first of them begins, in bytes from the first row
//     uint8[16]            bytes of each row, less one; fewer for those that are left
//   the rows, whose form follows from their size:
//     r bytes              an int8 for every child
//     from 2 B to r - 1    B bytes with a bit for every child, the lowest first, then an int8 for each bit that is set
//     fewer than 2 B       pairs of child (uint8) and weight (int8), in the order of the children
// A row with a weight for half of the children or more is stored in full. This takes about 1 % more space than the
// smallest form would, and queries find many of their features in such rows, where it is twice as fast.
#pragma once

#include <array>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <vector>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

#include "blocks/codec.h"

namespace labeltree {

enum class RowForm : uint8_t { full, bits, pairs };

inline int64_t bit_bytes(int64_t n_children) { return (n_children + 7) / 8; }

LABELTREE_INLINE RowForm form_of(int64_t n_bytes, int64_t n_children) {
    // Without branches, which could not be predicted.
    return static_cast<RowForm>((n_bytes != n_children) * (2 - (n_bytes >= 2 * bit_bytes(n_children))));
}

// The bytes of a row with `n_used` non-zero weights.
inline int64_t sparse_row_bytes(int64_t n_used, int64_t n_children) {
    if (2 * n_used >= n_children) return n_children;
    return std::min({2 * n_used, bit_bytes(n_children) + n_used, n_children});
}

LABELTREE_INLINE uint64_t load_word(const uint8_t* bytes) {
    uint64_t out;
    std::memcpy(&out, bytes, 8);
    return out;
}

// For each n below 16, which of sixteen bytes to keep so that the last n are left: two words.
struct LastBytes {
    uint64_t of[16][2] = {};
    constexpr LastBytes() {
        for (int n = 0; n < 16; ++n)
            for (int byte = 0; byte < n; ++byte) of[n][byte < 8] |= uint64_t{0xff} << (56 - 8 * (byte % 8));
    }
};
inline constexpr LastBytes last_bytes;

// Views a block, which may be mapped from a damaged file: whatever it holds, no row is outside it.
class SparseBlock {
  public:
    static constexpr int64_t group = 16;
    static constexpr int64_t max_bytes = std::numeric_limits<int32_t>::max();
    static constexpr int64_t header_bytes = 16;
    static int64_t head_bytes(int64_t n_rows) { return header_bytes + (n_rows + group - 1) / group * 4 + n_rows; }

    // The block must have at least head_bytes(n_rows) bytes.
    SparseBlock(std::span<const uint8_t> block, int64_t n_rows)
        : groups_(block.data() + header_bytes), rows_(block.data() + head_bytes(n_rows)),
          row_bytes_(std::ssize(block) - head_bytes(n_rows)) {}

    const uint8_t* rows() const { return rows_; }
    int64_t row_bytes() const { return row_bytes_; }
    // What the header says; all this follows from the rest of the block.
    std::array<uint32_t, 4> header() const {
        std::array<uint32_t, 4> out;
        std::memcpy(out.data(), groups_ - header_bytes, header_bytes);
        return out;
    }
    LABELTREE_INLINE int64_t size(int64_t row) const { return group_of(row)[4 + in_group(row)] + 1; }

    // Where a row begins, by the start of its group and the sizes of the rows before it there.
    LABELTREE_INLINE int64_t start(int64_t row) const {
        const uint8_t *const start = group_of(row), *const sizes = start + 4;
        const uint64_t n_before = in_group(row);
        uint32_t at;
        std::memcpy(&at, start, 4);
        // The 16 bytes before the row's own size, which begin in the header at the earliest, without those of others.
        // There are no branches, which could not be predicted.
        const uint64_t* const kept = last_bytes.of[n_before];
        return static_cast<int64_t>(at + n_before) + sum_of_bytes(sizes + n_before - 16, kept);
    }

    // Call this before asking for a row.
    LABELTREE_INLINE void prefetch(int64_t row) const { __builtin_prefetch(group_of(row)); }

    LABELTREE_INLINE std::span<const uint8_t> row(int64_t row) const {
        const int64_t first = start(row), n_bytes = size(row);
        if (n_bytes > row_bytes_ - first) return {};
        return {rows_ + first, static_cast<size_t>(n_bytes)};
    }

  private:
    static LABELTREE_INLINE uint64_t in_group(int64_t row) { return static_cast<uint64_t>(row) % group; }
    LABELTREE_INLINE const uint8_t* group_of(int64_t row) const {
        return groups_ + static_cast<uint64_t>(row) / group * (4 + group);
    }

    // The sum of those of sixteen bytes that are kept.
    static LABELTREE_INLINE int64_t sum_of_bytes(const uint8_t* bytes, const uint64_t* kept) {
#if defined(__x86_64__)
        const __m128i some = _mm_and_si128(_mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes)),
                                           _mm_loadu_si128(reinterpret_cast<const __m128i*>(kept)));
        const __m128i sums = _mm_sad_epu8(some, _mm_setzero_si128());
        return _mm_cvtsi128_si64(_mm_add_epi64(sums, _mm_unpackhi_epi64(sums, sums)));
#else
        constexpr uint64_t low = 0x00ff00ff00ff00ff;
        const auto sum = [](uint64_t word) {
            return static_cast<int64_t>(((word & low) + (word >> 8 & low)) * 0x0001000100010001 >> 48);
        };
        return sum(load_word(bytes) & kept[0]) + sum(load_word(bytes + 8) & kept[1]);
#endif
    }

    const uint8_t *groups_, *rows_;
    int64_t row_bytes_;
};

// Calls use(child, weight) for every weight of a row that is stored, including the zeros of a row in full.
template <class Use>
void for_each_weight(std::span<const uint8_t> row, int64_t n_children, Use&& use) {
    switch (form_of(std::ssize(row), n_children)) {
        case RowForm::full:
            for (size_t c = 0; c < row.size(); ++c) use(c, static_cast<int8_t>(row[c]));
            break;
        case RowForm::bits: {
            size_t at = static_cast<size_t>(bit_bytes(n_children));
            for (int64_t byte = 0; byte < bit_bytes(n_children); ++byte)
                for (unsigned bits = row[byte]; bits && at < row.size(); bits &= bits - 1)
                    use(static_cast<size_t>(8 * byte + std::countr_zero(bits)), static_cast<int8_t>(row[at++]));
            break;
        }
        case RowForm::pairs:
            for (size_t at = 0; at + 1 < row.size(); at += 2) use(row[at], static_cast<int8_t>(row[at + 1]));
            break;
    }
}

// Encodes the rows of a block one by one.
class SparseEncoder {
  public:
    explicit SparseEncoder(int64_t n_children) : n_children_(n_children) {}

    // Adds a row of weights, one per child, unless all are zero.
    void add(int32_t feature, const int8_t* weights) {
        const int64_t n_children = n_children_;
        int64_t n_used = 0;
        for (int64_t c = 0; c < n_children; ++c) n_used += weights[c] != 0;
        if (n_used == 0) return;
        features.push_back(feature);
        n_nonzeros += n_used;
        const int64_t size = sparse_row_bytes(n_used, n_children);
        sizes_.push_back(static_cast<uint8_t>(size - 1));
        const size_t before = rows_.size();
        const RowForm form = form_of(size, n_children);
        if (form == RowForm::bits) rows_.resize(before + static_cast<size_t>(bit_bytes(n_children)));
        for (int64_t c = 0; c < n_children; ++c) {
            if (weights[c] == 0 && form != RowForm::full) continue;
            if (form == RowForm::bits) rows_[before + static_cast<size_t>(c / 8)] |= static_cast<uint8_t>(1 << c % 8);
            if (form == RowForm::pairs) rows_.push_back(static_cast<uint8_t>(c));
            rows_.push_back(static_cast<uint8_t>(weights[c]));
        }
    }

    std::vector<uint8_t> block() const {
        if (SparseBlock::head_bytes(std::ssize(sizes_)) + std::ssize(rows_) > SparseBlock::max_bytes)
            throw std::overflow_error("the pruned weights of a node take more than 2 GB");
        std::vector<uint8_t> out(static_cast<size_t>(SparseBlock::head_bytes(std::ssize(sizes_))) + rows_.size());
        uint8_t* at = out.data();
        const auto put = [&](size_t number) {
            const auto narrow = static_cast<uint32_t>(number);
            std::memcpy(at, &narrow, 4);
            at += 4;
        };
        put(sizes_.size());
        put(static_cast<size_t>(n_children_));
        put(static_cast<size_t>(n_nonzeros));
        put(rows_.size());
        for (size_t f = 0, start = 0; f < sizes_.size(); ++f) {
            if (f % SparseBlock::group == 0) put(start);
            *at++ = sizes_[f];
            start += sizes_[f] + size_t{1};
        }
        std::copy(rows_.begin(), rows_.end(), at);
        return out;
    }

    std::vector<int32_t> features;  // of the rows so far
    int64_t n_nonzeros = 0;

  private:
    const int64_t n_children_;
    std::vector<uint8_t> sizes_, rows_;
};

}  // namespace labeltree
