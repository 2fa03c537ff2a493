// The block of a node as floats, read a few columns at a time: large blocks are never in memory as a whole.
#pragma once

#include <algorithm>
#include <vector>

#include "blocks/blocks.h"

namespace labeltree {

class BlockColumns {
  public:
    // `n_features` of the data; the bias, if there is one, is the last feature of the block.
    BlockColumns(const Blocks& blocks, const TreeShape& tree, int64_t node, int64_t n_features, bool has_bias)
        : blocks_(blocks), node_(node), n_children_(tree.n_children(node)), first_child_(tree.child_ptr[node]) {
        if (blocks.codec == Codec::sparse) {
            for (int64_t p = blocks.block_ptr[node]; p < blocks.block_ptr[node + 1]; ++p)
                blocks.short_features_of(p).for_each(
                    [&](uint32_t f, int32_t) { features_.push_back(static_cast<int32_t>(f)); });
            std::sort(features_.begin(), features_.end());
            features_.erase(std::unique(features_.begin(), features_.end()), features_.end());
        } else {
            const auto list = blocks.features_of(node).ids;
            features_.assign(list.begin(), list.end());
        }
        n_listed_ = std::ssize(features_);
        const bool has_bias_row = has_bias && !is_scaled(blocks.codec);
        for (int64_t f = 0; f < n_listed_; ++f)
            require(features_[f] > (f == 0 ? -1 : features_[f - 1]) && features_[f] < n_features + has_bias_row,
                    "the features of a block are not those of the data");
        if (has_bias && is_scaled(blocks.codec)) features_.push_back(static_cast<int32_t>(n_features));
    }

    std::span<const int32_t> features() const { return features_; }
    int64_t n_children() const { return n_children_; }
    int64_t feature_bytes() const { return n_listed_ * static_cast<int64_t>(sizeof(int32_t)); }

    // The weights, features x children, if they are stored as floats and are few; otherwise null.
    const float* whole() const {
        const bool is_small = weight_bytes() <= max_whole_bytes;
        return blocks_.codec == Codec::float32 && is_small ? blocks_.weights_of<float>(node_) : nullptr;
    }

    // The bytes of all weights as they are stored.
    int64_t weight_bytes() const {
        const int64_t first = blocks_.block_ptr[node_], last = blocks_.block_ptr[node_ + 1];
        return (blocks_.weight_ptr[last] - blocks_.weight_ptr[first]) * blocks_.weight_bytes();
    }

    // Writes `n_columns` columns of some rows, which must increase. Calls done(n_bytes) after reading so many bytes.
    template <class Done>
    void read(std::span<const int32_t> rows, int64_t first, int64_t n_columns, float* out, Done&& done) const {
        switch (blocks_.codec) {
            case Codec::float32: read_dense(blocks_.weights_of<float>(node_), rows, first, n_columns, out, done); break;
            case Codec::float16: read_dense(blocks_.weights_of<Half>(node_), rows, first, n_columns, out, done); break;
            case Codec::int8: read_dense(blocks_.weights_of<int8_t>(node_), rows, first, n_columns, out, done); break;
            case Codec::sparse: read_sparse(rows, first, n_columns, out, done); break;
        }
        if (!rows.empty() && rows.back() >= n_listed_)
            std::copy_n(blocks_.biases.data() + first_child_ + first, n_columns,
                        out + (std::ssize(rows) - 1) * n_columns);
    }

  private:
    static constexpr int64_t max_whole_bytes = 4 << 20, max_read_bytes = 4 << 20;

    template <class T, class Done>
    void read_dense(const T* stored, std::span<const int32_t> rows, int64_t first, int64_t n_columns, float* out,
                    Done&& done) const {
        const int64_t row_bytes = n_children_ * static_cast<int64_t>(sizeof(T));
        const int64_t most = std::max<int64_t>(1, max_read_bytes / std::max<int64_t>(1, row_bytes));
        int64_t start = rows.empty() ? 0 : rows.front();
        for (size_t k = 0; k < rows.size() && rows[k] < n_listed_; ++k, out += n_columns) {
            if (rows[k] - start >= most) {
                done((rows[k] - start) * row_bytes);
                start = rows[k];
            }
            const T* const row = stored + rows[k] * n_children_ + first;
            for (int64_t c = 0; c < n_columns; ++c)
                out[c] = to_float(row[c]) * (blocks_.scales.empty() ? 1 : blocks_.scales[first_child_ + first + c]);
        }
        done((n_listed_ - start) * row_bytes);
    }

    template <class Done>
    void read_sparse(std::span<const int32_t> rows, int64_t first, int64_t n_columns, float* out, Done&& done) const {
        std::fill_n(out, std::ssize(rows) * n_columns, 0.0f);
        const int64_t first_block = blocks_.block_ptr[node_];
        for (int64_t p = first / block_children; p * block_children < first + n_columns; ++p) {
            const int64_t child = p * block_children, n_stored = std::min(block_children, n_children_ - child);
            const SparseBlock block = blocks_.sparse_block(first_block + p);
            size_t at = 0;
            blocks_.short_features_of(first_block + p).for_each([&](uint32_t feature, int32_t row) {
                const auto id = static_cast<int32_t>(feature);
                while (at < rows.size() && features_[rows[at]] < id) ++at;
                if (at == rows.size() || features_[rows[at]] != id) return;
                for_each_weight(block.row(row), n_stored, [&](int64_t k, int8_t weight) {
                    const int64_t c = child + k - first;
                    if (k < n_stored && c >= 0 && c < n_columns)
                        out[static_cast<int64_t>(at) * n_columns + c] =
                            weight * blocks_.scales[first_child_ + child + k];
                });
            });
            done(blocks_.weight_ptr[first_block + p + 1] - blocks_.weight_ptr[first_block + p]);
        }
    }

    const Blocks& blocks_;
    const int64_t node_, n_children_, first_child_;
    std::vector<int32_t> features_;
    int64_t n_listed_;  // without the bias, if it is stored elsewhere
};

}  // namespace labeltree
