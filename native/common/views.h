// The vocabulary of the kernels: views of sparse matrices, label trees and blocks of weights. A view owns no memory.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace labeltree {

// The elements [first, last) of an array.
template <class T>
std::span<T> slice(std::span<T> array, int64_t first, int64_t last) {
    return array.subspan(static_cast<size_t>(first), static_cast<size_t>(last - first));
}

// A matrix in compressed sparse rows.
struct SparseRows {
    std::span<const int64_t> ptr;    // row r has the entries [ptr[r], ptr[r + 1])
    std::span<const int32_t> index;  // their columns
    std::span<const float> value;    // empty if only the columns matter
    int64_t n_columns = 0;

    int64_t n_rows() const { return std::ssize(ptr) - 1; }
    int64_t n_entries(int64_t row) const { return ptr[row + 1] - ptr[row]; }
    std::span<const int32_t> columns(int64_t row) const { return slice(index, ptr[row], ptr[row + 1]); }
    std::span<const float> values(int64_t row) const { return slice(value, ptr[row], ptr[row + 1]); }
};

// A sparse matrix that is built row by row.
struct RowBuffer {
    std::vector<int64_t> ptr{0};
    std::vector<int32_t> index;
    std::vector<float> value;

    SparseRows view(int64_t n_columns) const { return {ptr, index, value, n_columns}; }
    void end_row() { ptr.push_back(std::ssize(index)); }
    void clear() {
        ptr.assign(1, 0);
        index.clear();
        value.clear();
    }
};

struct TrainingData {
    SparseRows x;                // instances x features
    SparseRows label_instances;  // labels x instances, without values

    int64_t n_instances() const { return x.n_rows(); }
    int64_t n_features() const { return x.n_columns; }
    int64_t n_labels() const { return label_instances.n_rows(); }
};

// The shape of a label tree. Nodes are the internal nodes in breadth-first order (src/labeltree/tree.py).
struct TreeShape {
    std::span<const int64_t> child_ptr;
    std::span<const int32_t> children;  // >= 0: a node; < 0: the leaf of label ~child

    int64_t n_nodes() const { return std::ssize(child_ptr) - 1; }
    int64_t n_labels() const { return std::ssize(children) - (n_nodes() - 1); }
    int64_t n_children(int64_t node) const { return child_ptr[node + 1] - child_ptr[node]; }
    std::span<const int32_t> children_of(int64_t node) const {
        return slice(children, child_ptr[node], child_ptr[node + 1]);
    }
    int64_t n_levels() const {
        int64_t n = 0;
        for (int64_t first = 0, last = 1; first < last; ++n) {
            const auto level = slice(children, child_ptr[std::exchange(first, last)], child_ptr[last]);
            last += std::count_if(level.begin(), level.end(), [](int32_t child) { return child >= 0; });
        }
        return n;
    }
};

// A tree and the labels below each of its nodes.
struct TreeView {
    TreeShape shape;
    std::span<const int32_t> labels;       // in the order of the leaves, so that a node's labels are one range
    std::span<const int64_t> first, last;  // the range of each node

    std::span<const int32_t> labels_of(int64_t node) const { return slice(labels, first[node], last[node]); }
    int64_t n_leaves(int32_t child) const { return child < 0 ? 1 : last[child] - first[child]; }
};

}  // namespace labeltree
