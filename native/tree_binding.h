// Checked views of the arrays that describe the data and the tree, for the bindings that take both.
#pragma once

#include "binding.h"
#include "tree_view.h"

namespace labeltree {

inline Sparse check_sparse(const In<int64_t>& ptr, const In<int32_t>& index, const float* value, int64_t columns,
                           const char* name) {
    check_indptr(ptr, index.size(), name);
    check_range(index, columns, name);
    return {ptr.data(), index.data(), value, static_cast<int64_t>(ptr.size()) - 1, columns};
}

inline TreeView check_tree(const In<int64_t>& child_ptr, const In<int32_t>& children, const In<int32_t>& labels,
                           const In<int64_t>& first, const In<int64_t>& last, int64_t label_count) {
    check_indptr(child_ptr, children.size(), "child_ptr");
    const int64_t nodes = static_cast<int64_t>(child_ptr.size()) - 1;
    require(nodes >= 1 && static_cast<int64_t>(first.size()) == nodes && static_cast<int64_t>(last.size()) == nodes,
            "first and last must have one entry a node");
    require(static_cast<int64_t>(labels.size()) == label_count, "labels must hold every label once");
    check_range(labels, label_count, "labels");
    std::vector<bool> seen(label_count, false);
    for (int64_t p = 0; p < label_count; ++p) seen[labels.data()[p]] = true;
    require(std::find(seen.begin(), seen.end(), false) == seen.end(), "labels must hold every label once");
    TreeView tree{child_ptr.data(), children.data(), labels.data(), first.data(), last.data(), nodes};
    for (int64_t u = 0; u < nodes; ++u) {
        int64_t leaves = 0;
        require(tree.first[u] >= 0 && tree.first[u] <= tree.last[u] && tree.last[u] <= label_count,
                "a node's labels must be a range of all labels");
        for (int64_t c = tree.child_ptr[u]; c < tree.child_ptr[u + 1]; ++c) {
            require(tree.children[c] < nodes && (tree.children[c] < 0 || tree.children[c] > u),
                    "children must come after their parent");
            leaves += tree.leaves_of(tree.children[c]);
        }
        require(leaves == tree.last[u] - tree.first[u], "a node's children must hold the node's labels");
    }
    return tree;
}

}  // namespace labeltree
