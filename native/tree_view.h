// Raw views of the training data and of a label tree, and what a node of the tree uses of the data.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <numeric>
#include <vector>

namespace labeltree {

// Compressed sparse rows. For labels: row = label, columns = its instances, no values.
struct Sparse {
    const int64_t* ptr;
    const int32_t* index;
    const float* value;
    int64_t rows;
    int64_t columns;
};

// Nodes are internal nodes in breadth-first order; see src/labeltree/tree.py.
struct TreeView {
    const int64_t* child_ptr;
    const int32_t* children;  // >= 0: a node; < 0: the leaf of label ~child
    const int32_t* labels;    // labels in the order of the leaves: each node's labels are one range
    const int64_t* first;     // that range, per node
    const int64_t* last;
    int64_t nodes;

    int64_t child_count(int64_t u) const { return child_ptr[u + 1] - child_ptr[u]; }
    int64_t leaves_of(int32_t child) const { return child < 0 ? 1 : last[child] - first[child]; }
};

// Collects small integers and gives them back sorted, each once, in time proportional to what was added.
class SortedSet {
  public:
    explicit SortedSet(int64_t limit) : bits_((limit + 63) / 64, 0) {}

    void add(int32_t i) {
        uint64_t& word = bits_[i >> 6];
        if (word == 0) touched_.push_back(i >> 6);
        word |= uint64_t{1} << (i & 63);
    }

    // Empties the set into out.
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

// Instances that node u trains on, sorted: those with a label of u; all of them at the root.
inline void instances_of(const TreeView& tree, const Sparse& label_instances, int64_t all, int64_t u, SortedSet& set,
                         std::vector<int32_t>& out) {
    if (u == 0) {
        out.resize(all);
        std::iota(out.begin(), out.end(), 0);
        return;
    }
    for (int64_t p = tree.first[u]; p < tree.last[u]; ++p) {
        const int64_t label = tree.labels[p];
        for (int64_t k = label_instances.ptr[label]; k < label_instances.ptr[label + 1]; ++k)
            set.add(label_instances.index[k]);
    }
    set.drain(out);
}

// Features with a value in some of these instances, sorted.
inline void features_of(const Sparse& x, const std::vector<int32_t>& instances, SortedSet& set,
                        std::vector<int32_t>& out) {
    for (int32_t i : instances)
        for (int64_t k = x.ptr[i]; k < x.ptr[i + 1]; ++k) set.add(x.index[k]);
    set.drain(out);
}

}  // namespace labeltree
