// Finds the features of queries in a node's list: the rows of the node's block that each query is multiplied with.
#pragma once

#include <algorithm>
#include <vector>

#include "feature_index.h"
#include "tiles.h"
#include "views.h"

namespace labeltree {

class RowFinder {
  public:
    explicit RowFinder(int64_t n_features) : n_features_(n_features) {}

    // Looks up the features of the queries that visit the node.
    template <class Visit>
    void find(std::span<const int32_t> features, FeatureIndex& index, const SparseRows& queries,
              const std::vector<Visit>& visits) {
        const int64_t n_used = std::ssize(features);
        int64_t n_wanted = 0;
        for (const Visit& visit : visits) n_wanted += queries.n_entries(visit.query());
        matches_.resize(n_wanted + prefetch_ahead);
        match_ptr_.assign(1, 0);
        // A sorted list of n ids that ends with n - 1 is 0, 1, 2, ..., as often at the root.
        const bool identity = n_used > 0 && features.back() == n_used - 1;
        const bool by_cells = !identity && FeatureIndex::has_cells(n_used, n_features_);
        const FeatureIndex::Cell* cells = by_cells ? index.cells(features, n_features_) : nullptr;
        // Many queries at a node of few features: the whole list is entered into a map, and removed again.
        const int64_t map_cost = row_of_.empty() ? n_features_ / 4 : 0;  // of allocating it
        const bool by_map = !identity && !by_cells && n_wanted * 8 > 2 * n_used + map_cost;
        if (by_map) map_features(features, true);
        Match* out = matches_.data();
        for (const Visit& visit : visits) {
            const auto columns = queries.columns(visit.query());
            const auto values = queries.values(visit.query());
            if (n_used == 0) {
                // an empty list has none of them
            } else if (identity) {
                for (size_t i = 0; i < columns.size(); ++i) {
                    *out = {columns[i], values[i]};
                    out += columns[i] < n_used;
                }
            } else if (cells) {
                for (size_t i = 0; i < columns.size(); ++i) {
                    const FeatureIndex::Cell cell = cells[columns[i] >> 5];
                    *out = {cell.row(columns[i]), values[i]};
                    out += cell.has(columns[i]);
                }
            } else if (by_map) {
                for (size_t i = 0; i < columns.size(); ++i) {
                    const int32_t row = row_of_[columns[i]];
                    *out = {row, values[i]};
                    out += row >= 0;
                }
            } else {
                out = find_by_starts(features, index, columns, values, out);
            }
            match_ptr_.push_back(out - matches_.data());
        }
        std::fill_n(out, prefetch_ahead, Match{0, 0});
        if (by_map) map_features(features, false);
    }

    // What was found for visit k. More matches follow, as prefetch_ahead requires.
    std::span<const Match> matches(size_t k) const {
        return slice(std::span<const Match>(matches_), match_ptr_[k], match_ptr_[k + 1]);
    }

  private:
    // Sets or clears the map from features to rows. The list comes from a file, so ids in it may be wrong.
    void map_features(std::span<const int32_t> features, bool set) {
        if (row_of_.empty()) row_of_.assign(n_features_ + 1, -1);
        const auto last = static_cast<uint32_t>(n_features_);
        for (size_t k = 0; k < features.size(); ++k)
            if (static_cast<uint32_t>(features[k]) <= last) row_of_[features[k]] = set ? static_cast<int32_t>(k) : -1;
    }

    // Counts the smaller ids from the start of a feature's range, for several features in turn so that their cache
    // misses overlap. Eight ids at a time are counted without branches, which could not be predicted.
    Match* find_by_starts(std::span<const int32_t> features, FeatureIndex& index, std::span<const int32_t> columns,
                          std::span<const float> values, Match* out) const {
        constexpr size_t group = 16;
        const int64_t n_used = std::ssize(features);
        const int shift = FeatureIndex::shift(n_used, n_features_);
        const int32_t* starts = index.starts(features, n_features_, shift);
        const int64_t last_eight = std::max<int64_t>(0, n_used - 8);
        for (size_t begin = 0; begin < columns.size(); begin += group) {
            const size_t width = std::min(group, columns.size() - begin);
            int64_t rows[group];
            for (size_t j = 0; j < width; ++j) {
                rows[j] = std::min<int64_t>(starts[columns[begin + j] >> shift], last_eight);
                __builtin_prefetch(features.data() + rows[j]);
                __builtin_prefetch(features.data() + rows[j] + 7);
            }
            for (size_t j = 0; j < width; ++j) {
                const int32_t wanted = columns[begin + j];
                int64_t row = rows[j];
                for (int n_smaller = 8; n_smaller == 8 && row + 8 <= n_used; row += n_smaller) {
                    n_smaller = 0;
                    for (int k = 0; k < 8; ++k) n_smaller += features[row + k] < wanted;
                }
                while (row < n_used - 1 && features[row] < wanted) ++row;  // fewer than eight are left
                row = std::min(row, n_used - 1);
                *out = {static_cast<int32_t>(row), values[begin + j]};
                out += features[row] == wanted;
            }
        }
        return out;
    }

    const int64_t n_features_;
    std::vector<Match> matches_;
    std::vector<int64_t> match_ptr_;
    std::vector<int32_t> row_of_;  // by feature; all -1 between calls
};

}  // namespace labeltree
