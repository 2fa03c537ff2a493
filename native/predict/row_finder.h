// Finds the features of queries in a node's list: the rows of the node's block that each query is multiplied with.
#pragma once

#include <algorithm>
#include <vector>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

#include "blocks/feature_index.h"
#include "common/views.h"
#include "predict/tiles.h"

namespace labeltree {

// Writes a match for every feature that is in the cells, and returns their end.
LABELTREE_INLINE Match* find_in_cells(const FeatureIndex::Cell* cells, const int32_t* columns, const float* values,
                                      int64_t n_columns, Match* out) {
    for (int64_t i = 0; i < n_columns; ++i) {
        const FeatureIndex::Cell cell = cells[columns[i] >> 5];
        *out = {cell.row(columns[i]), values[i]};
        out += cell.has(columns[i]);
    }
    return out;
}

class RowFinder {
  public:
    explicit RowFinder(int64_t n_features) : n_features_(n_features) {}

    // Looks up the features of the queries that visit the node.
    template <class List, class Visit>
    void find(const List& features, FeatureIndex& index, const SparseRows& queries, const std::vector<Visit>& visits) {
        const int64_t n_used = features.size();
        int64_t n_wanted = 0;
        for (const Visit& visit : visits) n_wanted += queries.n_entries(visit.query());
        matches_.resize(n_wanted + prefetch_ahead);
        match_ptr_.assign(1, 0);
        // A sorted list of n ids that ends with n - 1 is 0, 1, 2, ..., as often at the root.
        const bool identity = is_identity(features);
        const bool by_cells = !identity && FeatureIndex::has_cells(features, n_features_);
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
                out = find_in_cells_(cells, columns.data(), values.data(), std::ssize(columns), out);
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

    // In all.
    int64_t n_matches() const { return match_ptr_.back(); }

  private:
    static bool is_identity(const FeatureList& features) {
        return features.size() > 0 && features.ids.back() == features.size() - 1;
    }
    static bool is_identity(const ShortFeatureList&) { return false; }

    // Sets or clears the map from features to rows.
    template <class List>
    void map_features(const List& features, bool set) {
        if (row_of_.empty()) row_of_.assign(n_features_ + 1, -1);
        features.for_each([&](uint32_t feature, int32_t row) {
            if (feature <= n_features_) row_of_[feature] = set ? row : -1;
        });
    }

    // Counts the smaller ids from the start of a feature's range, for several features in turn so that their cache
    // misses overlap. Eight ids at a time are counted without branches, which could not be predicted.
    Match* find_by_starts(const FeatureList& list, FeatureIndex& index, std::span<const int32_t> columns,
                          std::span<const float> values, Match* out) const {
        const auto features = list.ids;
        const int64_t n_used = std::ssize(features);
        const int shift = FeatureIndex::shift(list, n_features_);
        const int32_t* starts = index.starts(list, n_features_, shift);
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

    // The same for short ids: a range does not cross segments, so the lower bits suffice to find a feature in it.
    Match* find_by_starts(const ShortFeatureList& list, FeatureIndex& index, std::span<const int32_t> columns,
                          std::span<const float> values, Match* out) const {
        const int shift = FeatureIndex::shift(list, n_features_);
        const int32_t* starts = index.starts(list, n_features_, shift);
        for (size_t begin = 0; begin < columns.size(); begin += group) {
            const size_t width = std::min(group, columns.size() - begin);
            const int32_t* ranges[group];
            for (size_t j = 0; j < width; ++j) {
                ranges[j] = starts + (columns[begin + j] >> shift);
                __builtin_prefetch(list.ids.data() + *ranges[j]);
            }
            for (size_t j = 0; j < width; ++j) {
                const auto wanted = static_cast<uint16_t>(columns[begin + j]);
                const int64_t row = find_id(list.ids, ranges[j][0], ranges[j][1], wanted);
                *out = {static_cast<int32_t>(row), values[begin + j]};
                out += row >= 0;
            }
        }
        return out;
    }

    // The place of an id in [first, last) of the list; -1 if it is not there.
    static int64_t find_id(std::span<const uint16_t> ids, int64_t first, int64_t last, uint16_t wanted) {
        int64_t at = first;
#if defined(__x86_64__)
        const __m128i eight = _mm_set1_epi16(static_cast<int16_t>(wanted));
        for (; at < last && at + 8 <= std::ssize(ids); at += 8) {
            const __m128i found = _mm_loadu_si128(reinterpret_cast<const __m128i*>(ids.data() + at));
            if (const int mask = _mm_movemask_epi8(_mm_cmpeq_epi16(found, eight))) {
                const int64_t row = at + std::countr_zero(static_cast<uint32_t>(mask)) / 2;
                return row < last ? row : -1;
            }
        }
#endif
        for (; at < last; ++at)
            if (ids[at] == wanted) return at;
        return -1;
    }

    static constexpr size_t group = 16;  // features that are looked up in turn
    const int64_t n_features_;
    decltype(&find_in_cells) const find_in_cells_ = for_this_cpu<find_in_cells>();
    std::vector<Match> matches_;
    std::vector<int64_t> match_ptr_;
    std::vector<int32_t> row_of_;  // by feature; all -1 between calls
};

}  // namespace labeltree
