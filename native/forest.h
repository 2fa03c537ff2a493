// The trees of a model as the beam search reads them: arrays that may be mapped files, checked so that no query can
// read outside them.
#pragma once

#include <memory>
#include <tuple>
#include <vector>

#include "binding.h"
#include "feature_index.h"

namespace labeltree {

// child_ptr, children, feature_ptr, features, weight_ptr, weights
using TreeArrays = std::tuple<In<int64_t>, In<int32_t>, In<int64_t>, In<int32_t>, In<int64_t>, In<float>>;

// A tree with its blocks, and what the search must know of its shape.
class SearchTree {
  public:
    TreeShape shape;
    Blocks blocks;
    std::vector<uint8_t> kinds;  // of each node's children: has_nodes, has_leaves
    std::unique_ptr<FeatureIndex[]> indexes;
    int64_t max_width = 1;  // nodes of the widest level
    int64_t max_children = 0;
    int64_t n_levels = 0;

    static constexpr uint8_t has_nodes = 1, has_leaves = 2;

    SearchTree(TreeArrays given, int64_t n_features, int64_t n_labels) : arrays_(std::move(given)) {
        const auto& [child_ptr, children, feature_ptr, features, weight_ptr, weights] = arrays_;
        shape = {span_of(child_ptr), span_of(children)};
        blocks = {span_of(feature_ptr), span_of(features), span_of(weight_ptr), span_of(weights)};
        check_shape(shape, n_labels);
        check_blocks(n_features);
        measure();
        indexes = std::make_unique<FeatureIndex[]>(shape.n_nodes());
    }

  private:
    void check_blocks(int64_t n_features) const {
        const size_t n_pointers = shape.child_ptr.size();
        require(blocks.feature_ptr.size() == n_pointers, "feature_ptr must have one entry per node, and one more");
        check_ptr(blocks.feature_ptr, blocks.features.size(), "feature_ptr");
        require(blocks.weight_ptr.size() == n_pointers, "weight_ptr must have one entry per node, and one more");
        check_ptr(blocks.weight_ptr, blocks.weights.size(), "weight_ptr");
        for (int64_t u = 0; u < shape.n_nodes(); ++u) {
            int64_t size;
            require(blocks.n_features(u) <= n_features + 1, "features has more entries for a node than there are");
            require(!__builtin_mul_overflow(blocks.n_features(u), shape.n_children(u), &size) &&
                        size == blocks.n_weights(u),
                    "weight_ptr must step by features times children");
        }
    }

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

    TreeArrays arrays_;  // keeps them alive
};

struct Forest {
    std::vector<SearchTree> trees;
    int64_t n_features, n_labels;
    float bias;
};

}  // namespace labeltree
