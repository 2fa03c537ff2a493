// The instances that a node trains on, and the features that they use.
#pragma once

#include <algorithm>
#include <bit>
#include <numeric>
#include <vector>

#include "common/views.h"

namespace labeltree {

// Collects small integers, each once, in time proportional to the number of additions.
class SortedSet {
  public:
    explicit SortedSet(int64_t limit) : bits_((limit + 63) / 64, 0) {}

    // Returns whether it is new.
    bool add(int32_t i) {
        uint64_t& word = bits_[i >> 6];
        const uint64_t bit = uint64_t{1} << (i & 63);
        if (word & bit) return false;
        if (word == 0) touched_.push_back(i >> 6);
        word |= bit;
        return true;
    }

    bool has(int32_t i) const { return bits_[i >> 6] >> (i & 63) & 1; }

    void clear() {
        for (const int32_t w : touched_) bits_[w] = 0;
        touched_.clear();
    }

    // Empties the set into out, sorted.
    void drain(std::vector<int32_t>& out) {
        out.clear();
        if (touched_.size() * 8 > bits_.size()) {
            touched_.resize(bits_.size());
            std::iota(touched_.begin(), touched_.end(), 0);
        } else {
            std::sort(touched_.begin(), touched_.end());
        }
        for (int32_t w : touched_) {
            for (uint64_t word = bits_[w]; word; word &= word - 1) out.push_back(w * 64 + std::countr_zero(word));
            bits_[w] = 0;
        }
        touched_.clear();
    }

  private:
    std::vector<uint64_t> bits_;
    std::vector<int32_t> touched_;
};

// Finds the instances and the features of a node. Reuses its memory from node to node.
class NodeData {
  public:
    explicit NodeData(const TrainingData& data)
        : data_(data), instance_set_(data.n_instances()), feature_set_(data.n_features()) {}

    // The instances with a label of the node, in the order of its labels: those next to each other share features. At
    // the root, all instances in the order of the data.
    void find_instances(const TreeView& tree, int64_t node, std::vector<int32_t>& instances) {
        if (node == 0) {
            instances.resize(data_.n_instances());
            std::iota(instances.begin(), instances.end(), 0);
            return;
        }
        find_instances(tree.labels_of(node), instances);
    }

    // The instances with one of these labels, in their order.
    void find_instances(std::span<const int32_t> labels, std::vector<int32_t>& instances) {
        instances.clear();
        for (const int32_t label : labels)
            for (const int32_t i : data_.label_instances.columns(label))
                if (instance_set_.add(i)) instances.push_back(i);
        instance_set_.clear();
    }

    // The features with a value in any of these instances, sorted.
    void find_features(const std::vector<int32_t>& instances, std::vector<int32_t>& features) {
        for_each_feature(instances, [&](int32_t f) { feature_set_.add(f); });
        feature_set_.drain(features);
    }

    // The same, and the number of instances that have each of them, counts[f], to which foreign rows are added.
    void count_features(std::span<const int32_t> instances, std::span<const int32_t> foreign,
                        std::vector<int32_t>& features, std::vector<int32_t>& counts) {
        for_each_feature(instances, [&](int32_t f) { counts[f] = feature_set_.add(f) ? 1 : counts[f] + 1; });
        for_each_feature(foreign, [&](int32_t f) { counts[f] += feature_set_.has(f); });
        feature_set_.drain(features);
    }

    // Calls visit(row, used) for foreign rows, where used(f) is whether f is one of these features.
    template <class Visit>
    void visit_foreign(std::span<const int32_t> foreign, const std::vector<int32_t>& features, Visit&& visit) {
        if (foreign.empty()) return;
        for (const int32_t f : features) feature_set_.add(f);
        for (const int32_t row : foreign) visit(row, [&](int32_t f) { return feature_set_.has(f); });
        feature_set_.clear();
    }

  private:
    template <class Visit>
    void for_each_feature(std::span<const int32_t> instances, Visit&& visit) const {
        constexpr size_t ahead = 8;  // instances are anywhere in memory
        for (size_t k = 0; k < instances.size(); ++k) {
            if (k + 2 * ahead < instances.size()) __builtin_prefetch(&data_.x.ptr[instances[k + 2 * ahead]]);
            if (k + ahead < instances.size())
                __builtin_prefetch(data_.x.index.data() + data_.x.ptr[instances[k + ahead]]);
            for (const int32_t f : data_.x.columns(instances[k])) visit(f);
        }
    }

    const TrainingData& data_;
    SortedSet instance_set_, feature_set_;
};

}  // namespace labeltree
