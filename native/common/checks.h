// Checks of the arrays that kernels are given. Each throws std::invalid_argument, a ValueError in Python.
#pragma once

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "common/views.h"

namespace labeltree {

constexpr int64_t max_count = std::numeric_limits<int32_t>::max() - 1;  // of rows, columns, labels or nodes

inline void require(bool condition, const char* message) {
    if (!condition) throw std::invalid_argument(message);
}

inline void require(bool condition, const char* name, const char* message) {
    if (!condition) throw std::invalid_argument(std::string(name) + " " + message);
}

// The pointers of compressed rows: they start at 0, never decrease, and end at the number of entries.
inline void check_ptr(std::span<const int64_t> ptr, size_t n_entries, const char* name) {
    require(!ptr.empty() && ptr.front() == 0, name, "must start at 0");
    bool decreases = false;  // no early exit, so that the loop is vectorised
    for (size_t i = 1; i < ptr.size(); ++i) decreases |= ptr[i] < ptr[i - 1];
    require(!decreases, name, "must not decrease");
    require(static_cast<size_t>(ptr.back()) == n_entries, name, "must end at the number of entries");
}

inline void check_range(std::span<const int32_t> values, int64_t limit, const char* name) {
    const auto end = static_cast<uint32_t>(std::clamp<int64_t>(limit, 0, int64_t{1} << 31));
    bool outside = false;
    for (const int32_t value : values) outside |= static_cast<uint32_t>(value) >= end;  // negative ones wrap around
    require(!outside, name, "holds an index out of range");
}

// Every node but the root and every label must be a child once, and children must come after their parents.
inline void check_shape(const TreeShape& tree, int64_t n_labels) {
    const int64_t n_nodes = tree.n_nodes();
    require(n_nodes >= 1 && n_nodes <= max_count, "child_ptr must have a root");
    check_ptr(tree.child_ptr, tree.children.size(), "child_ptr");
    require(tree.n_labels() == n_labels, "children must be every node but the root, and every label");
    std::vector<bool> node_seen(n_nodes), label_seen(n_labels);
    for (int64_t u = 0; u < n_nodes; ++u)
        for (const int32_t child : tree.children_of(u)) {
            const int64_t id = child < 0 ? ~child : child;
            auto& seen = child < 0 ? label_seen : node_seen;
            require(id < std::ssize(seen), "children holds an id out of range");
            require(child < 0 || child > u, "children must come after their parent");
            require(!seen[id], "children holds an id twice");
            seen[id] = true;
        }
}

// labels must be the leaves in order, and [first, last) the range of each node's labels.
inline void check_tree(const TreeView& tree) {
    const int64_t n_nodes = tree.shape.n_nodes(), n_labels = std::ssize(tree.labels);
    check_shape(tree.shape, n_labels);
    require(std::ssize(tree.first) == n_nodes && std::ssize(tree.last) == n_nodes,
            "first and last must have one entry per node");
    require(tree.first[0] == 0, "first must be 0 at the root");
    for (int64_t u = 0; u < n_nodes; ++u) {
        int64_t at = tree.first[u];
        for (const int32_t child : tree.shape.children_of(u)) {
            if (child < 0) {
                require(at < n_labels && tree.labels[at] == ~child, "labels must be in the order of the leaves");
                ++at;
            } else {
                require(tree.first[child] == at, "first must be where a node's labels begin");
                require(tree.last[child] >= at && tree.last[child] <= n_labels, "last must be within labels");
                at = tree.last[child];
            }
        }
        require(tree.last[u] == at, "last must be where a node's labels end");
    }
}

}  // namespace labeltree
