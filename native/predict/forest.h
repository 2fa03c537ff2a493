// The trees of a model as the beam search reads them: arrays that may be mapped files, checked so that no query can
// read outside them.
#pragma once

#include <memory>
#include <vector>

#include "blocks/stored.h"

namespace labeltree {

// A tree with its blocks, and what the search must know of its shape.
class SearchTree : public TreeBlocks {
  public:
    std::vector<uint8_t> kinds;               // of each node's children: has_nodes, has_leaves
    std::unique_ptr<FeatureIndex[]> indexes;  // of each block
    int64_t max_width = 1;                    // nodes of the widest level
    int64_t max_children = 0;
    int64_t n_levels = 0;

    static constexpr uint8_t has_nodes = 1, has_leaves = 2;

    SearchTree(const TreeBlocks& given, int64_t n_features, int64_t n_labels) : TreeBlocks(given) {
        check_shape(shape, n_labels);
        blocks.check(shape, n_features);
        measure();
        indexes = std::make_unique<FeatureIndex[]>(blocks.n_blocks());
    }

  private:
    void measure() {
        std::vector<int32_t> depth(shape.n_nodes());
        std::vector<int64_t> width(1, 1);
        kinds.resize(shape.n_nodes());
        for (int64_t u = 0; u < shape.n_nodes(); ++u) {
            max_children = std::max(max_children, shape.n_children(u));
            for (const int32_t child : shape.children_of(u)) {
                kinds[u] |= child < 0 ? has_leaves : has_nodes;
                if (child < 0) continue;
                depth[child] = depth[u] + 1;
                if (depth[child] == std::ssize(width)) width.push_back(0);
                ++width[depth[child]];
            }
        }
        max_width = *std::max_element(width.begin(), width.end());
        n_levels = std::ssize(width);
    }
};

struct Forest {
    std::vector<SearchTree> trees;
    int64_t n_features, n_labels;
    float bias;
};

}  // namespace labeltree
