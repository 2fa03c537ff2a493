// Sums of the rows of a sparse block: for each child, x * weight over the features that a query and a block share.
#pragma once

#include "predict/margins.h"
#include "predict/sparse_avx2.h"
#include "predict/sparse_avx512.h"
#include "predict/sparse_rows.h"

namespace labeltree {

LABELTREE_INLINE void add_pair_rows(const SparseBlock& block, const SparseRowLists::List& list, float* sums) {
    for (size_t i = 0; i < list.rows.size(); ++i) {
        const float x = list.rows[i].x;
        const uint8_t* pair = block.rows() + list.rows[i].row;
        for (const uint8_t* const last = pair + (list.n_bytes[i] & ~1); pair != last; pair += 2)
            sums[pair[0]] += x * static_cast<float>(static_cast<int8_t>(pair[1]));
    }
}

// The sums of one block, for one query after another. Buffers are reused from block to block.
class SparseSums {
  public:
    // `n_matches` is the number of rows that will be added in all. With many, each row is located once.
    void begin(const SparseBlock& block, int64_t n_rows, int n_columns, int64_t n_matches) {
        block_ = &block;
        n_columns_ = n_columns;
        is_located_ = 2 * n_matches > n_rows;
        if (is_located_) locate_all(block, n_rows, located_);
    }

    // Writes the sums of the children; there must be 256, as a damaged row may add to any.
    void run(std::span<const Match> matches, float* sums) {
        lists_.reserve(matches.size());
        if (is_located_)
            sort_(located_.data(), matches, n_columns_, lists_);
        else
            locate_(*block_, matches, n_columns_, lists_);
        const auto bits = lists_.list(RowForm::bits);
#if defined(__x86_64__)
        if (use_expand_)
            expand_sums_of[(n_columns_ - 1) / 64](*block_, lists_.list(RowForm::full).rows, bits, n_columns_, sums);
        else if (use_avx2())
            sums_by_tiles(*block_, lists_, n_columns_, tiles_.step(n_columns_), sums);
        else
#endif
        {
            add_full_rows(sums);
            add_bit_rows(bits, sums);
        }
        add_pair_rows_(*block_, lists_.list(RowForm::pairs), sums);
    }

  private:
    // These two are for any CPU.
    void add_bit_rows(const SparseRowLists::List& list, float* sums) const {
        for (size_t i = 0; i < list.rows.size(); ++i)
            for_each_weight(
                {block_->rows() + list.rows[i].row, list.n_bytes[i]}, n_columns_,
                [&, x = list.rows[i].x](size_t child, int8_t weight) { sums[child] += x * to_float(weight); });
    }

    void add_full_rows(float* sums) {
        lists_.pad(RowForm::full);
        const auto* const rows = reinterpret_cast<const int8_t*>(block_->rows());
        const int64_t step = tiles_.step(n_columns_);
        for (int64_t c = 0; c < n_columns_; c += step) {
            const int width = static_cast<int>(std::min<int64_t>(step, n_columns_ - c));
            tiles_.tile(width)(rows + c, 1, lists_.list(RowForm::full).rows, width, sums + c);
        }
    }

    const SparseBlock* block_ = nullptr;
    int n_columns_ = 0;
    bool is_located_ = false;
    std::vector<LocatedRow> located_;
    const MarginTiles<int8_t>& tiles_ = margin_tiles<int8_t>();
    decltype(&locate_rows) const locate_ = for_this_cpu<locate_rows>();
    decltype(&sort_rows) const sort_ = for_this_cpu<sort_rows>();
    decltype(&add_pair_rows) const add_pair_rows_ = for_this_cpu<add_pair_rows>();
    const bool use_expand_ = use_expand();
    SparseRowLists lists_;
};

}  // namespace labeltree
