// The margins that a node gives the rows that visit it, held out of the node's training if they took part in it.
#pragma once

#include <algorithm>
#include <numeric>
#include <vector>

#include "blocks/mapped.h"
#include "common/memory.h"
#include "common/parallel.h"
#include "common/random.h"
#include "train/block_columns.h"
#include "train/held_out.h"
#include "train/node_data.h"
#include "train/training.h"

namespace labeltree {

// The pages of the training data, if it is mapped from files.
class DataPages {
  public:
    DataPages(const SparseRows& x, bool mapped) {
        if (!mapped) return;
        index_.watch(x.index.data(), x.index.size_bytes());
        value_.watch(x.value.data(), x.value.size_bytes());
    }

    void done_with(size_t n_entries) {
        index_.done_with(n_entries * sizeof(int32_t));
        value_.done_with(n_entries * sizeof(float));
    }

  private:
    ReadPages index_, value_;
};

// What the model was trained with.
struct TrainedWith : Training {
    HeldOutKernels kernels;  // of the loss
    int64_t max_instances;   // of a node with more of them, this many are sampled to sum up curvatures
    DataPages& pages;
};

// Its buffers are reused from node to node.
class HeldOutNode {
  public:
    explicit HeldOutNode(const TrainedWith& trained)
        : trained_(trained), node_data_(trained.data), row_of_(trained.data.n_features() + 1, -1),
          place_of_(trained.data.n_instances(), -1), squares_of_(trained.data.n_features() + 1, 0) {}

    // Calls found(v, first_child, margins) for every visitor v and every tile of the node's children, and
    // read(n_bytes) after reading so many bytes of the block. `any_trained`: whether the node was trained on any of
    // the visitors.
    template <class Read, class Found>
    void run(int64_t node, const BlockColumns& block, std::span<const int32_t> visitors, bool any_trained,
             const Cancel& cancel, Read&& read, Found&& found) {
        if (block.n_children() == 0) return;
        const auto features = block.features();
        for (size_t f = 0; f < features.size(); ++f) row_of_[features[f]] = static_cast<int32_t>(f);
        instances_.clear();
        n_summed_ = n_slots_ = 0;
        if (any_trained) {
            gather_instances(node, visitors);
            gather_positives(node);
        }
        const float* const whole = block.whole();
        if (!whole) gather_rows(features, visitors);
        const int64_t n_rows = std::ssize(whole ? features : std::span<const int32_t>(rows_));
        if (any_trained) {
            gather_slots(n_rows, visitors);
            sum_squares(visitors);
        }
        const int64_t n_children = block.n_children();
        const auto fitting = [](int64_t rows) { return max_tile_bytes / 32 / std::max<int64_t>(1, rows) * 8; };
        const int64_t step = std::min(tiles_.step(n_children),
                                      std::max<int64_t>(8, fitting(whole ? n_slots_ : std::max(n_slots_, n_rows))));
        for (int64_t c = 0; c < n_children && !cancel; c += step) {
            const int n_columns = static_cast<int>(std::min(step, n_children - c));
            begin_tile(n_columns);
            const float* const weights = whole ? whole + c : weights_.reserve(n_rows * n_columns);
            if (!whole) block.read(rows_, c, n_columns, weights_.data(), read);
            const int64_t stride = whole ? n_children : n_columns;
            const auto find_margins = [&](int32_t instance) {
                match(instance);
                tiles_.tile(n_columns)(weights, stride, matches(), n_columns, tile_.margins.at);
            };
            if (n_slots_ > 0) {
                for (int64_t k = 0; k < n_summed_ && !cancel.load(std::memory_order_relaxed); ++k) {
                    find_margins(instances_[k]);
                    mark_positives(k, c, n_columns);
                    if (!trained_.kernels.find_curvature(tile_, costs_of(instances_[k], node))) continue;
                    trained_.kernels.add_curvature(tile_, slots());
                    for (int j = 0; j < n_columns; ++j) tile_.mean_curvature.at[j] += tile_.curvature.at[j];
                }
                for (int j = 0; j < n_columns; ++j) tile_.mean_curvature.at[j] /= static_cast<float>(n_summed_);
            }
            for (size_t v = 0; v < visitors.size() && !cancel.load(std::memory_order_relaxed); ++v) {
                find_margins(visitors[v]);
                const int64_t k = place_of_[visitors[v]];
                if (k >= 0) {
                    mark_positives(k, c, n_columns);
                    trained_.kernels.hold_out(tile_, slots(), costs_of(visitors[v], node), k < n_summed_ ? 1.0f : 0.0f);
                }
                found(v, c, std::span<const float>(tile_.margins.at, static_cast<size_t>(n_columns)));
            }
        }
        for (const int32_t f : features) row_of_[f] = -1;
        for (const int32_t i : instances_) place_of_[i] = -1;
    }

  private:
    // Of the weights of a tile, and of its sums.
    static constexpr int64_t max_tile_bytes = 16 << 20;

    bool is_sampled() const { return n_summed_ < std::ssize(instances_); }

    // The instances of the node: first those whose curvatures are summed up, then the other visitors, then the rest.
    void gather_instances(int64_t node, std::span<const int32_t> visitors) {
        node_data_.find_instances(trained_.tree, node, instances_);
        const auto foreign = trained_.foreign.of(node);
        instances_.insert(instances_.end(), foreign.begin(), foreign.end());
        const int64_t n_instances = std::ssize(instances_);
        n_summed_ = std::min(n_instances, trained_.max_instances);
        if (n_summed_ < n_instances) {
            Random random(trained_.settings.seed, node);
            for (int64_t k = 0; k < n_summed_; ++k)
                std::swap(instances_[k], instances_[k + random.below(static_cast<uint32_t>(n_instances - k))]);
            std::sort(instances_.begin(), instances_.begin() + n_summed_);
        }
        for (int64_t k = 0; k < n_instances; ++k) place_of_[instances_[k]] = static_cast<int32_t>(k);
        n_marked_ = n_summed_;
        for (const int32_t i : visitors) {
            const int64_t k = place_of_[i];
            if (k < n_marked_) continue;
            std::swap(place_of_[i], place_of_[instances_[n_marked_]]);
            std::swap(instances_[k], instances_[n_marked_]);
            ++n_marked_;
        }
    }

    // The children that each of these instances is positive for.
    void gather_positives(int64_t node) {
        positive_ptr_.assign(n_marked_ + 2, 0);
        for_each_positive(node, [&](int64_t k, int32_t) { ++positive_ptr_[k + 2]; });
        std::partial_sum(positive_ptr_.begin(), positive_ptr_.end(), positive_ptr_.begin());
        positives_.resize(positive_ptr_.back());
        for_each_positive(node, [&](int64_t k, int32_t c) { positives_[positive_ptr_[k + 1]++] = c; });
    }

    template <class Each>
    void for_each_positive(int64_t node, Each&& each) {
        const auto children = trained_.tree.shape.children_of(node);
        int64_t place = trained_.tree.first[node];
        for (size_t c = 0; c < children.size(); ++c)
            for (const int64_t end = place + trained_.tree.n_leaves(children[c]); place < end; ++place)
                for (const int32_t i : trained_.data.label_instances.columns(trained_.tree.labels[place]))
                    if (place_of_[i] < n_marked_) each(place_of_[i], static_cast<int32_t>(c));
    }

    // The rows of the block that are read: those of features of visitors, or of instances whose curvatures are summed
    // up. The others count as features that the node does not use.
    void gather_rows(std::span<const int32_t> features, std::span<const int32_t> visitors) {
        is_read_.assign(features.size(), 0);
        const auto mark = [&](int32_t instance) {
            match(instance);
            for (const Match& match : matches()) is_read_[match.row] = 1;
        };
        for (const int32_t i : visitors) mark(i);
        for (int64_t k = 0; k < n_summed_; ++k) mark(instances_[k]);
        rows_.clear();
        for (size_t f = 0; f < features.size(); ++f) {
            row_of_[features[f]] = is_read_[f] ? static_cast<int32_t>(rows_.size()) : -1;
            if (is_read_[f]) rows_.push_back(static_cast<int32_t>(f));
        }
    }

    // Only features of visitors that the node was trained on need sums.
    void gather_slots(int64_t n_rows, std::span<const int32_t> visitors) {
        slot_of_.assign(n_rows, -1);
        for (const int32_t i : visitors) {
            if (place_of_[i] < 0) continue;
            match(i);
            for (const Match& match : matches())
                if (slot_of_[match.row] < 0) slot_of_[match.row] = static_cast<int32_t>(n_slots_++);
        }
    }

    // Not needed if the curvatures of all instances are summed up.
    void sum_squares(std::span<const int32_t> visitors) {
        squares_.assign(n_slots_, {0, 0});
        if (n_slots_ == 0 || !is_sampled()) return;
        const auto bias_feature = static_cast<int32_t>(trained_.data.n_features());
        const auto take_sums = [&](float Squares::* sum) {
            const auto take = [&](int32_t feature) {
                const int32_t row = row_of_[feature];
                if (row >= 0 && slot_of_[row] >= 0) squares_[slot_of_[row]].*sum = squares_of_[feature];
            };
            for (const int32_t i : visitors)
                if (place_of_[i] >= 0)
                    for (const int32_t f : trained_.data.x.columns(i)) take(f);
            take(bias_feature);
        };
        add_squares(0, n_summed_);
        take_sums(&Squares::summed);
        add_squares(n_summed_, std::ssize(instances_));
        take_sums(&Squares::all);
        clear_squares();
    }

    // Adds the squares of instances first to last - 1 to squares_of_.
    void add_squares(int64_t first, int64_t last) {
        constexpr int64_t ahead = 8;  // instances are anywhere in memory
        const SparseRows& x = trained_.data.x;
        for (int64_t k = first; k < last; ++k) {
            if (k + 2 * ahead < last) __builtin_prefetch(&x.ptr[instances_[k + 2 * ahead]]);
            if (k + ahead < last) {
                const int64_t start = x.ptr[instances_[k + ahead]];
                __builtin_prefetch(x.index.data() + start);
                __builtin_prefetch(x.value.data() + start);
            }
            const auto columns = x.columns(instances_[k]);
            const auto values = x.values(instances_[k]);
            for (size_t e = 0; e < columns.size(); ++e) squares_of_[columns[e]] += values[e] * values[e];
            trained_.pages.done_with(columns.size());
        }
        const auto bias = static_cast<float>(trained_.settings.bias);
        for (int64_t k = first; k < last; ++k) squares_of_.back() += bias * bias;
    }

    void clear_squares() {
        int64_t n_entries = 0;
        for (const int32_t i : instances_) n_entries += trained_.data.x.n_entries(i);
        if (n_entries > std::ssize(squares_of_) / 8) {
            std::fill(squares_of_.begin(), squares_of_.end(), 0.0f);
            return;
        }
        for (const int32_t i : instances_)
            for (const int32_t f : trained_.data.x.columns(i)) squares_of_[f] = 0;
        squares_of_.back() = 0;
    }

    void begin_tile(int n_columns) {
        tile_.width = (n_columns + 7) / 8 * 8;
        tile_.sums = sums_.zeros(n_slots_ * tile_.width);
        tile_.squares = squares_.data();
        tile_.sampled = is_sampled();
        tile_.mean_curvature = {};
        // Of columns that do not exist: negative, and far from the hinge.
        std::fill_n(tile_.margins.at, tile_.width, minus_infinity);
    }

    // The rows of the block that belong to an instance, and as prefetch_ahead requires, more after them.
    void match(int32_t instance) {
        const auto columns = trained_.data.x.columns(instance);
        const auto values = trained_.data.x.values(instance);
        matches_.resize(std::max(matches_.size(), columns.size() + 1 + prefetch_ahead));
        Match* out = matches_.data();
        const auto add = [&](int32_t feature, float x) {
            *out = {row_of_[feature], x};
            out += row_of_[feature] >= 0;
        };
        for (size_t k = 0; k < columns.size(); ++k) add(columns[k], values[k]);
        trained_.pages.done_with(columns.size());
        const double bias = trained_.settings.bias;
        if (bias != 0) add(static_cast<int32_t>(trained_.data.n_features()), static_cast<float>(bias));
        n_matches_ = static_cast<size_t>(out - matches_.data());
        std::fill_n(out, prefetch_ahead, Match{0, 0});
    }
    std::span<const Match> matches() const { return {matches_.data(), n_matches_}; }

    // The same matches by their places in the sums.
    std::span<const Match> slots() {
        slots_.resize(std::max(slots_.size(), n_matches_ + 1));
        Match* out = slots_.data();
        for (const Match& match : matches()) {
            *out = {slot_of_[match.row], match.x};
            out += slot_of_[match.row] >= 0;
        }
        return {slots_.data(), out};
    }

    void mark_positives(int64_t place, int64_t first_child, int n_columns) {
        std::fill_n(tile_.signs.at, tile_.width, -1.0f);
        for (int64_t p = positive_ptr_[place]; p < positive_ptr_[place + 1]; ++p) {
            const int64_t c = positives_[p] - first_child;
            if (c >= 0 && c < n_columns) tile_.signs.at[c] = 1;
        }
    }

    Costs costs_of(int32_t instance, int64_t node) const {
        const double cost = trained_.node_costs[node] * (trained_.costs.empty() ? 1.0 : trained_.costs[instance]) *
                            (trained_.foreign.has(node, instance) ? trained_.foreign.cost : 1.0);
        return {static_cast<float>(cost), static_cast<float>(cost * trained_.positive_costs[node])};
    }

    const TrainedWith& trained_;
    const MarginTiles<float>& tiles_ = margin_tiles<float>();
    NodeData node_data_;
    std::vector<int32_t> row_of_;    // by feature, in what is read of the block; all -1 between calls
    std::vector<int32_t> place_of_;  // by instance, in instances_; all -1 between calls
    std::vector<float> squares_of_;  // by feature, and of the bias: sums over instances; all 0 between calls
    std::vector<int32_t> instances_;
    int64_t n_summed_ = 0, n_marked_ = 0;
    std::vector<int64_t> positive_ptr_;
    std::vector<int32_t> positives_;
    std::vector<char> is_read_;     // by row of the block
    std::vector<int32_t> rows_;     // that are read
    std::vector<int32_t> slot_of_;  // by row that is read
    int64_t n_slots_ = 0;
    std::vector<Squares> squares_;
    std::vector<Match> matches_, slots_;
    size_t n_matches_ = 0;
    Buffer<float> weights_, sums_;
    HeldOutTile tile_{};
};

}  // namespace labeltree
