// The label vectors of one node, whole or in part, with features numbered from 0.
#pragma once

#include <algorithm>
#include <numeric>
#include <span>
#include <vector>

#include "common/memory.h"
#include "common/parallel.h"
#include "common/views.h"
#include "predict/tiles.h"

namespace labeltree {

constexpr int64_t label_chunk = 64;      // labels that a thread takes at a time
constexpr int64_t max_copied = 4 << 20;  // entries that are copied with the numbers of their features, at most

// Scratch memory of one thread, kept from node to node.
struct VectorSpace {
    explicit VectorSpace(int64_t n_features) : local(n_features, -1) {}
    std::vector<int32_t> local;  // the number of each feature in the node; all -1 before and after
    Buffer<Match> copied;
};

class NodeVectors {
  public:
    NodeVectors(const SparseRows& vectors, std::span<const int32_t> labels, VectorSpace& space, int threads)
        : vectors_(vectors), labels_(labels), n_labels_(std::ssize(labels)), space_(space), local_(space.local),
          threads_(threads), n_used_(n_labels_) {
        use_whole();
    }

    void use_whole() {
        copied_ptr_.clear();
        for (int64_t i = 0; i < n_labels_; ++i) n_used_[i] = vectors_.n_entries(labels_[i]);
    }

    // Uses the first entries of each vector that have this share of its squared length.
    void use_main_parts(double share) {
        parallel_ranges(n_labels_, label_chunk, threads_, [&](int64_t first, int64_t last) {
            for (int64_t i = first; i < last; ++i) n_used_[i] = main_part(vectors_.values(labels_[i]), share);
        });
    }

    // Numbers the features in use that have no number yet; returns how many have one.
    int64_t number_features() {
        for (int64_t i = 0; i < n_labels_; ++i)
            for (const int32_t f : columns(i)) {
                if (local_[f] >= 0) continue;
                local_[f] = static_cast<int32_t>(numbered_.size());
                numbered_.push_back(f);
            }
        return std::ssize(numbered_);
    }

    // The number of features with a number is never larger.
    int64_t max_features() const {
        int64_t n_entries = 0;
        for (const int32_t label : labels_) n_entries += vectors_.n_entries(label);
        return std::min(n_entries, vectors_.n_columns);
    }

    void forget_features() {
        for (const int32_t f : numbered_) local_[f] = -1;
        numbered_.clear();
    }

    // Copies the entries in use, in the order of the labels: then they are read in sequence, and need no look-up.
    void copy() {
        const int64_t n_entries = std::accumulate(n_used_.begin(), n_used_.end(), int64_t{0});
        if (n_entries > max_copied) return;
        copied_ptr_.reserve(n_labels_ + 1);
        copied_ptr_.assign(1, 0);
        for (const int64_t n : n_used_) copied_ptr_.push_back(copied_ptr_.back() + n);
        copied_ = space_.copied.reserve(n_entries + prefetch_ahead);
        parallel_ranges(n_labels_, label_chunk, threads_, [&](int64_t first, int64_t last) {
            for (int64_t i = first; i < last; ++i) {
                Match* to = copied_ + copied_ptr_[i];
                each_entry(columns(i), values(i), [&](int32_t row, float value) { *to++ = {row, value}; });
            }
        });
        std::fill_n(copied_ + n_entries, prefetch_ahead, Match{0, 0});
    }

    // The mean squared distance of the parts in use from their mean.
    double spread() const {
        std::vector<double> sums(numbered_.size());
        double squares = 0, square = 0;
        for (int64_t i = 0; i < n_labels_; ++i)
            each_entry(i, [&](int32_t row, float value) {
                sums[row] += value;
                squares += static_cast<double>(value) * value;
            });
        for (const double sum : sums) square += sum * sum;
        const auto n = static_cast<double>(n_labels_);
        return squares / n - square / (n * n);
    }

    // Calls visit(number of the feature, value) for each entry of a label, all of whose features have a number.
    template <class Visit>
    void each_entry(int64_t i, Visit&& visit) const {
        if (copied_ptr_.empty())
            each_entry(columns(i), values(i), visit);
        else
            for (const auto& [row, value] : copied(i)) visit(row, value);
    }

    // The entries of a label whose features have a number. After them, prefetch_ahead others can be read.
    std::span<const Match> matches(int64_t i, std::vector<Match>& space) const {
        if (!copied_ptr_.empty()) return copied(i);
        const size_t n_entries = columns(i).size();
        if (space.size() < n_entries + prefetch_ahead) space.resize(n_entries + prefetch_ahead);
        size_t end = 0;
        each_entry(columns(i), values(i), [&](int32_t row, float value) {
            space[end] = {row, value};
            end += row >= 0;
        });
        std::fill_n(space.begin() + end, prefetch_ahead, Match{0, 0});
        return {space.data(), end};
    }

  private:
    static int64_t main_part(std::span<const float> values, double share) {
        double square = 0, part = 0;
        for (const float value : values) square += static_cast<double>(value) * value;
        int64_t n = 0;
        for (; n < std::ssize(values) && part < share * square; ++n) part += static_cast<double>(values[n]) * values[n];
        return n;
    }

    std::span<const int32_t> columns(int64_t i) const { return vectors_.columns(labels_[i]).first(n_used_[i]); }
    std::span<const float> values(int64_t i) const { return vectors_.values(labels_[i]).first(n_used_[i]); }
    std::span<const Match> copied(int64_t i) const { return {copied_ + copied_ptr_[i], copied_ + copied_ptr_[i + 1]}; }

    template <class Visit>
    void each_entry(std::span<const int32_t> columns, std::span<const float> values, Visit&& visit) const {
        for (size_t k = 0; k < columns.size(); ++k) visit(local_[columns[k]], values[k]);
    }

    const SparseRows vectors_;
    const std::span<const int32_t> labels_;
    const int64_t n_labels_;
    VectorSpace& space_;
    std::vector<int32_t>& local_;
    const int threads_;
    std::vector<int64_t> n_used_;      // of each label: the first entries of its vector are used
    std::vector<int32_t> numbered_;    // the features with a number, in order
    std::vector<int64_t> copied_ptr_;  // where those of each label begin in copied_; empty if they are not copied
    Match* copied_ = nullptr;
};

}  // namespace labeltree
