// The rows of a sparse block that a query is multiplied with, found and sorted by form.
#pragma once

#include <array>

#include "blocks/sparse_block.h"
#include "common/memory.h"
#include "predict/tiles.h"

namespace labeltree {

// Where a row is in its block. A row that would not be inside is empty.
struct LocatedRow {
    int32_t start, n_bytes;

    static LABELTREE_INLINE LocatedRow inside(const SparseBlock& block, int64_t start, int64_t n_bytes) {
        const bool outside = n_bytes > block.row_bytes() - start;
        return {static_cast<int32_t>(outside ? 0 : start), static_cast<int32_t>(outside ? 0 : n_bytes)};
    }
};

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

    // Sorts the rows of matches by form; `locate` returns the LocatedRow of one.
    template <class Locate>
    LABELTREE_INLINE void sort(std::span<const Match> matches, int n_columns, const Locate& locate) {
        Match* const rows = rows_.data();
        uint16_t* const n_bytes = n_bytes_.data();
        size_t ends[] = {0, step_, 2 * step_};
        for (const Match& match : matches) {
            const LocatedRow row = locate(match.row);
            const size_t at = ends[static_cast<size_t>(form_of(row.n_bytes, n_columns))]++;
            rows[at] = {row.start, match.x};
            n_bytes[at] = static_cast<uint16_t>(row.n_bytes);
        }
        for (size_t form = 0; form < 3; ++form) sizes_[form] = ends[form] - form * step_;
    }

    List list(RowForm form) const {
        const size_t begin = static_cast<size_t>(form) * step_;
        return {{rows_.data() + begin, sizes_[static_cast<size_t>(form)]}, n_bytes_.data() + begin};
    }
    // Lets rows be read ahead of the end of a list.
    void pad(RowForm form) {
        std::fill_n(rows_.data() + static_cast<size_t>(form) * step_ + sizes_[static_cast<size_t>(form)],
                    prefetch_ahead, Match{0, 0});
    }

  private:
    size_t step_ = 0;
    std::array<size_t, 3> sizes_{};
    std::vector<Match> rows_;
    std::vector<uint16_t> n_bytes_;
};

// Sorts the rows of some matches, and prefetches them, so that their cache misses overlap.
LABELTREE_INLINE void locate_rows(const SparseBlock& block, std::span<const Match> matches, int n_columns,
                                  SparseRowLists& lists) {
    for (const Match& match : matches) block.prefetch(match.row);
    lists.sort(matches, n_columns, [&](int32_t f) __attribute__((always_inline)) {
        const auto row = LocatedRow::inside(block, block.start(f), block.size(f));
        __builtin_prefetch(block.rows() + row.start);
        __builtin_prefetch(block.rows() + row.start + row.n_bytes - 1);
        return row;
    });
}

// Locates all rows of a block.
inline void locate_all(const SparseBlock& block, int64_t n_rows, std::vector<LocatedRow>& rows) {
    rows.resize(static_cast<size_t>(n_rows));
    int64_t start = 0;
    for (int64_t f = 0; f < n_rows; ++f) {
        if (f % SparseBlock::group == 0) start = block.start(f);
        rows[static_cast<size_t>(f)] = LocatedRow::inside(block, start, block.size(f));
        start += block.size(f);
    }
}

// Sorts the rows of some matches, all rows being located.
LABELTREE_INLINE void sort_rows(const LocatedRow* rows, std::span<const Match> matches, int n_columns,
                                SparseRowLists& lists) {
    lists.sort(matches, n_columns, [&](int32_t f) __attribute__((always_inline)) { return rows[f]; });
}

// The bytes of the rows of a list. `readable` bytes may be read, more than a row has: eight weights at a time, and with
// all bits set where a row is damaged. Near the end of the block, a row is read from a copy.
class RowReader {
  public:
    RowReader(const SparseBlock& block, const SparseRowLists::List& list) : block_(block), list_(list) {}

    LABELTREE_INLINE size_t size() const { return list_.rows.size(); }
    LABELTREE_INLINE const uint8_t* bytes(size_t i) {
        const int64_t start = list_.rows[i].row;
        if (start + readable <= block_.row_bytes()) return block_.rows() + start;
        std::memcpy(copy_, block_.rows() + start, list_.n_bytes[i]);
        return copy_;
    }
    LABELTREE_INLINE float x(size_t i) const { return list_.rows[i].x; }

  private:
    static constexpr int64_t readable = block_children / 8 + block_children + 8;  // bits, weights, and eight more
    const SparseBlock& block_;
    const SparseRowLists::List list_;
    uint8_t copy_[readable] = {};
};

}  // namespace labeltree
