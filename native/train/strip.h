// A strip: a run of a node's children whose weights are held in memory together, and the problems that they solve.
#pragma once

#include <atomic>
#include <bit>
#include <mutex>
#include <vector>

#include "blocks/block_writer.h"
#include "blocks/stored_rows.h"
#include "train/group_weights.h"
#include "train/node_data.h"
#include "train/sibling_groups.h"
#include "train/solver.h"
#include "train/training.h"

namespace labeltree {

// Scratch memory of one thread, kept from task to task.
struct Workspace {
    explicit Workspace(const Training& t) : node(t.data), local(std::max(t.data.n_instances(), t.data.n_features())) {}
    NodeData node;
    std::vector<int32_t> local;  // global -> local number, of features, then of instances
    std::vector<Siblings> positive;
    SolverSpace<float> single;
    SolverSpace<double> precise;
};

class Strip {
  public:
    std::atomic<int64_t> n_groups_left{0};
    std::atomic<int64_t> n_open{0};  // problems whose solution is not proven

    Strip(const Training& training, BlockWriter& writer, int64_t node, int64_t first_child, int64_t n_children)
        : training_(training), writer_(writer), node_(node), first_child_(first_child), n_children_(n_children) {}

    int64_t node() const { return node_; }
    int64_t n_groups() const { return (n_children_ + siblings - 1) / siblings; }

    // Gathers what the groups share. The first thread to get here does it, and others wait.
    void prepare(Workspace& space, const Cancel& cancel) {
        std::call_once(prepared_, [&] {
            rows_.clear();  // after an exception, another thread tries again
            costs_.clear();
            space.node.find_instances(training_.tree, node_, instances_);
            n_own_ = std::ssize(instances_);
            const auto foreign = training_.foreign.of(node_);
            space.node.count_features(instances_, foreign, features_, space.local);
            instances_.insert(instances_.end(), foreign.begin(), foreign.end());
            copy_rows(space);
            find_costs();
            order_children(cancel);
            weights_.reset(std::ssize(features_) + has_bias_row(), order_, writer_.weight_bytes());
        });
    }

    void solve_group(int64_t group, Workspace& space, const Cancel& cancel) {
        if (training_.precise)
            solve_group(group, space, space.precise, cancel);
        else
            solve_group(group, space, space.single, cancel);
    }

    // Writes the weights, and with those of the first children the features.
    void write() {
        if (has_bias_row())
            features_.push_back(static_cast<int32_t>(training_.data.n_features()));  // after the last feature
        const auto rows = [&](int64_t first, int64_t last) { return weights_.rows(first, last); };
        if (writer_.codec() == Codec::sparse)
            writer_.write_sparse(node_, features_, rows, first_child_, n_children_);
        else
            writer_.write_dense(node_, features_, rows, first_child_, n_children_);
    }

    // What training/tree_plan.py reads about a strip that is written: its number, the problems whose solution is not
    // proven, and what the writer recorded.
    std::vector<uint8_t> record(int64_t number) const {
        std::vector<uint8_t> out;
        BlockWriter::append(out, number);
        BlockWriter::append(out, n_open.load());
        writer_.record(node_, first_child_, n_children_, out);
        return out;
    }

    // Frees all memory. Assigning {} would empty a vector and keep its memory.
    void release() {
        free_all(instances_, features_, place_, own_, rows_.ptr, rows_.index, rows_.value, own_squares_, norms_, sums_,
                 costs_, leaf_, order_);
        weights_.release();
    }

  private:
    bool has_bias() const { return training_.settings.bias != 0; }
    bool has_bias_row() const { return has_bias() && !is_scaled(writer_.codec()); }

    void find_costs() {
        if (training_.costs.empty() && std::ssize(instances_) == n_own_) return;
        for (const int32_t i : instances_) costs_.push_back(training_.costs.empty() ? 1 : training_.costs[i]);
        for (float& cost : std::span(costs_).subspan(n_own_)) cost *= static_cast<float>(training_.foreign.cost);
    }

    // Copies the node's instances. The features that several of them have are numbered from 0. The root uses the data
    // as it is. A foreign instance is copied without features that no own instance has. Also finds the norms of the
    // instances and the sum of each feature, in order of the instances.
    void copy_rows(Workspace& space) {
        const SparseRows& x = training_.data.x;
        x_ = x;
        place_ = features_;
        norms_.resize(instances_.size());
        if (node_ == 0) {
            std::vector<double> sums(x.n_columns);
            for (int64_t r = 0; r < x.n_rows(); ++r) add_up(r, x.columns(r), x.values(r), sums);
            sums_.assign(sums.begin(), sums.end());
            return;
        }
        number_features(space.local);
        std::vector<double> sums(n_shared_);
        rows_.index.resize(n_shared_entries_);
        rows_.value.resize(n_shared_entries_);
        own_squares_.resize(instances_.size());
        size_t end = 0;
        for (int64_t r = 0; r < n_own_; ++r) {
            const auto columns = x.columns(instances_[r]);
            const auto values = x.values(instances_[r]);
            const size_t start = end;
            double squares = 0;
            for (size_t k = 0; k < columns.size(); ++k) {
                const int32_t place = space.local[columns[k]];
                if (place >= 0) {
                    rows_.index[end] = place;
                    rows_.value[end++] = values[k];
                } else {
                    own_[~place] = {static_cast<int32_t>(r), values[k]};
                    squares += static_cast<double>(values[k]) * values[k];
                }
            }
            own_squares_[r] = static_cast<float>(squares);
            rows_.ptr.push_back(static_cast<int64_t>(end));
            add_up(r, std::span(rows_.index).subspan(start, end - start),
                   std::span(rows_.value).subspan(start, end - start), sums);
        }
        sums_.assign(sums.begin(), sums.end());
        int64_t r = n_own_;
        space.node.visit_foreign(std::span(instances_).subspan(n_own_), features_, [&](int32_t i, auto&& is_used) {
            const auto columns = x.columns(i);
            const auto values = x.values(i);
            double squares = training_.settings.bias * training_.settings.bias;
            for (size_t k = 0; k < columns.size(); ++k) {
                if (!is_used(columns[k])) continue;
                rows_.index[end] = space.local[columns[k]];
                rows_.value[end++] = values[k];
                squares += static_cast<double>(values[k]) * values[k];
            }
            rows_.ptr.push_back(static_cast<int64_t>(end));
            norms_[r++] = static_cast<float>(squares);
        });
        x_ = rows_.view(n_shared_);
    }

    // Sets the norm of an instance, and adds it to the sums.
    void add_up(int64_t r, std::span<const int32_t> columns, std::span<const float> values, std::vector<double>& sums) {
        double squares = training_.settings.bias * training_.settings.bias;
        if (!own_squares_.empty()) squares += own_squares_[r];
        for (size_t k = 0; k < columns.size(); ++k) {
            const double value = values[k];
            squares += value * value;
            sums[columns[k]] += value;
        }
        norms_[r] = static_cast<float>(squares);
    }

    // Finds the place of each feature: a row of the solver's weights, or ~k for the k-th that only one instance has.
    // Replaces the numbers of instances by the places.
    void number_features(std::vector<int32_t>& local) {
        n_shared_ = n_shared_entries_ = 0;
        int32_t n_own = 0;
        for (size_t f = 0; f < features_.size(); ++f) {
            const int32_t count = local[features_[f]];
            if (count > 1) n_shared_entries_ += count;
            local[features_[f]] = place_[f] = count > 1 ? static_cast<int32_t>(n_shared_++) : ~n_own++;
        }
        own_.resize(n_own);
    }

    void order_children(const Cancel& cancel) {
        const auto children = training_.tree.shape.children_of(node_);
        int64_t leaf = training_.tree.first[node_];
        for (int64_t c = 0; c < first_child_; ++c) leaf += training_.tree.n_leaves(children[c]);
        leaf_.assign(1, leaf);
        for (const int32_t child : slice(children, first_child_, first_child_ + n_children_))
            leaf_.push_back(leaf += training_.tree.n_leaves(child));
        order_ = group_siblings(training_.data, training_.tree.labels, leaf_, siblings, cancel);
    }

    // Bit s of positive[i]: local instance i has a label of the group's sibling s.
    void mark_positives(std::span<const int32_t> group, Workspace& space) const {
        for (int64_t r = 0; r < n_own_; ++r) space.local[instances_[r]] = static_cast<int32_t>(r);
        space.positive.assign(instances_.size(), 0);
        for (size_t s = 0; s < group.size(); ++s)
            for (const int32_t label : slice(training_.tree.labels, leaf_[group[s]], leaf_[group[s] + 1]))
                for (const int32_t i : training_.data.label_instances.columns(label))
                    space.positive[space.local[i]] |= Siblings{1} << s;
    }

    std::span<const int32_t> children_of(int64_t group) const {
        const int64_t first = group * siblings;
        return slice(std::span<const int32_t>(order_), first, std::min<int64_t>(first + siblings, n_children_));
    }

    template <class Real>
    void solve_group(int64_t group, Workspace& space, SolverSpace<Real>& solver, const Cancel& cancel) {
        const auto children = children_of(group);
        mark_positives(children, space);
        const Problem problem{x_,    own_squares_, norms_,         n_own_,
                              sums_, costs_,       space.positive, ~Siblings{0} >> (siblings - children.size())};
        const Random random(training_.settings.seed, node_);
        const auto [n_lanes, open] = [&] {
            if constexpr (std::is_same_v<Real, double>)
                return solve_lanes<Real, siblings>(problem, children.size(), random, solver, cancel);
            else
                return solve_lanes<Real, 8, 16, siblings>(problem, children.size(), random, solver, cancel);
        }();
        n_open += std::popcount(open);
        switch (writer_.codec()) {
            case Codec::float32: store<float>(solver, space.positive, n_lanes, group); break;
            case Codec::float16: store<Half>(solver, space.positive, n_lanes, group); break;
            case Codec::int8:
            case Codec::sparse: store<int8_t>(solver, space.positive, n_lanes, group); break;
        }
    }

    // Copies the solution of a group into the strip, as it will be stored.
    template <class T, class Real>
    void store(SolverSpace<Real>& solver, const std::vector<Siblings>& positive, int64_t n_lanes, int64_t group) {
        const auto children = children_of(group);
        const int64_t size = std::ssize(children);
        T* const weights = weights_.of_group<T>(group);
        const Real* const solution = solver.weights.data();
        const int64_t n_rows = std::ssize(features_), bias_row = x_.n_columns;
        Real own_row[siblings];
        auto row_of = [&](int64_t f) -> const Real* {
            if (place_[f] >= 0) return solution + place_[f] * n_lanes;
            const auto& [r, value] = own_[~place_[f]];
            const Real* const alpha = solver.alpha.data() + r * n_lanes;
            for (int64_t s = 0; s < n_lanes; ++s) own_row[s] = (positive[r] >> s & 1 ? value : -value) * alpha[s];
            return own_row;
        };
        if constexpr (std::is_same_v<T, float>) {
            for (int64_t f = 0; f < n_rows; ++f) std::copy_n(row_of(f), size, weights + f * size);
            if (has_bias()) std::copy_n(solution + bias_row * n_lanes, size, weights + n_rows * size);
        } else {
            float all_scales[siblings] = {};
            const std::span<float> scales(all_scales, children.size());
            find_scales<Real>(writer_.codec(), writer_.threshold(), n_rows, row_of, scales);
            store_rows<T, Real>(writer_.codec(), writer_.threshold(), n_rows, row_of, scales, weights);
            const int64_t first = training_.tree.shape.child_ptr[node_] + first_child_;
            for (int64_t s = 0; s < size; ++s) {
                writer_.written.scales[first + children[s]] = scales[s];
                if (has_bias())
                    writer_.written.biases[first + children[s]] = static_cast<float>(solution[bias_row * n_lanes + s]);
            }
        }
    }

    // Solves with as few lanes as the siblings need, of these numbers; returns how many, and the siblings without
    // proof. Double precision is rarely used: one number of lanes is enough.
    template <class Real, int W, int... wider>
    std::pair<int64_t, Siblings> solve_lanes(const Problem& problem, size_t n_siblings, Random random,
                                             SolverSpace<Real>& solver, const Cancel& cancel) {
        if constexpr (sizeof...(wider) > 0)
            if (n_siblings > W) return solve_lanes<Real, wider...>(problem, n_siblings, random, solver, cancel);
        return {W, solve_with<Real, W>(problem, random, solver, cancel)};
    }

    template <class Real, int W>
    Siblings solve_with(const Problem& problem, Random random, SolverSpace<Real>& solver, const Cancel& cancel) {
        SolverSettings settings = training_.settings;
        settings.cost = training_.node_costs[node_];
        settings.positive_cost = training_.positive_costs[node_];
        switch (settings.loss) {
            case Loss::squared_hinge:
                return solve<Real, W, Loss::squared_hinge>(problem, settings, random, solver, cancel);
            case Loss::hinge: return solve<Real, W, Loss::hinge>(problem, settings, random, solver, cancel);
            case Loss::logistic: return solve<Real, W, Loss::logistic>(problem, settings, random, solver, cancel);
        }
        return 0;
    }

    template <class... T>
    static void free_all(std::vector<T>&... vectors) {
        (std::vector<T>().swap(vectors), ...);
    }

    const Training& training_;
    BlockWriter& writer_;
    const int64_t node_, first_child_, n_children_;
    std::once_flag prepared_;
    std::vector<int32_t> instances_, features_;  // global numbers; foreign instances come after the own ones
    int64_t n_own_ = 0;
    std::vector<int32_t> place_;  // of each feature, see number_features
    struct Own {
        int32_t row;
        float value;
    };
    std::vector<Own> own_;  // features that only one instance has
    int64_t n_shared_ = 0, n_shared_entries_ = 0;
    RowBuffer rows_;
    SparseRows x_;
    std::vector<float> own_squares_, norms_, sums_, costs_;
    std::vector<int64_t> leaf_;   // the place of each child's first label, and the end
    std::vector<int32_t> order_;  // of the children: each 32 are solved together
    GroupWeights weights_;        // features x children
};

}  // namespace labeltree
