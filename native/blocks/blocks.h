// The blocks of a tree as they are stored: a sorted list of features, and a row of weights for each.
#pragma once

#include <vector>

#include "blocks/feature_index.h"
#include "blocks/sparse_block.h"
#include "common/checks.h"
#include "common/views.h"

namespace labeltree {

// The first block of each node, and the end of the last.
inline std::vector<int64_t> first_blocks(const TreeShape& tree, Codec codec) {
    std::vector<int64_t> ptr(1, 0);
    for (int64_t u = 0; u < tree.n_nodes(); ++u)
        ptr.push_back(ptr.back() + (codec == Codec::sparse ? n_sparse_blocks(tree.n_children(u)) : 1));
    return ptr;
}

// A dense block belongs to a node, a sparse one to at most 256 of its children.
struct Blocks {
    Codec codec = Codec::float32;
    int64_t n_segments = 1;                // of each list of features
    std::span<const int64_t> feature_ptr;  // the start of each segment
    std::span<const int32_t> features;
    std::span<const uint16_t> short_features;  // if sparse
    std::span<const int64_t> weight_ptr;       // the start of each block, in elements
    std::span<const uint8_t> bytes;            // the weights
    std::span<const float> scales, biases;     // of each child, if scaled
    std::vector<int64_t> block_ptr;            // the first block of each node

    int64_t n_blocks() const { return std::ssize(weight_ptr) - 1; }
    int64_t n_features(int64_t block) const {
        return feature_ptr[(block + 1) * n_segments] - feature_ptr[block * n_segments];
    }
    int64_t weight_bytes() const { return labeltree::weight_bytes(codec); }

    FeatureList features_of(int64_t node) const { return {slice(features, feature_ptr[node], feature_ptr[node + 1])}; }
    template <class T>
    const T* weights_of(int64_t node) const {
        return reinterpret_cast<const T*>(bytes.data()) + weight_ptr[node];
    }

    ShortFeatureList short_features_of(int64_t block) const {
        const auto segments = slice(feature_ptr, block * n_segments, (block + 1) * n_segments + 1);
        return {slice(short_features, segments.front(), segments.back()), segments};
    }
    SparseBlock sparse_block(int64_t block) const {
        return {slice(bytes, weight_ptr[block], weight_ptr[block + 1]), n_features(block)};
    }

    // Checks the sizes of all arrays, so that no block can be read outside of them, and sets block_ptr. If sparse, only
    // the blocks of nodes first to last - 1 need to be there.
    void check(const TreeShape& tree, int64_t n_columns, int64_t first = 0, int64_t last = max_count) {
        const bool sparse = codec == Codec::sparse;
        n_segments = sparse ? labeltree::n_segments(n_columns) : 1;
        block_ptr = first_blocks(tree, codec);
        require(std::ssize(weight_ptr) == block_ptr.back() + 1,
                "weight_ptr must have one entry per block, and one more");
        require(std::ssize(feature_ptr) == block_ptr.back() * n_segments + 1,
                "feature_ptr must have one entry per list, and one more");
        check_ptr(feature_ptr, sparse ? short_features.size() : features.size(), "feature_ptr");
        check_ptr(weight_ptr, bytes.size() / static_cast<size_t>(weight_bytes()), "weight_ptr");
        const size_t n_scales = is_scaled(codec) ? tree.children.size() : 0;
        require(scales.size() == n_scales && biases.size() == n_scales,
                "scales and biases must have one entry per child");
        for (size_t c = 0; c < n_scales; ++c) {
            require(scales[c] >= 0 && std::isfinite(scales[c]), "scales must be finite and not negative");
            require(std::isfinite(biases[c]), "biases must be finite");
        }
        for (int64_t u = 0; u < tree.n_nodes(); ++u)
            for (int64_t b = block_ptr[u]; b < block_ptr[u + 1]; ++b) {
                const int64_t size = weight_ptr[b + 1] - weight_ptr[b];
                int64_t expected;
                require(n_features(b) <= n_columns + !is_scaled(codec),
                        "features has more entries for a node than there are");
                if (sparse)
                    require(u < first || u >= last ||
                                (size >= SparseBlock::head_bytes(n_features(b)) && size <= SparseBlock::max_bytes),
                            "a sparse block is too short for its rows, or too long");
                else
                    require(!__builtin_mul_overflow(n_features(b), tree.n_children(u), &expected) && size == expected,
                            "weight_ptr must step by features times children");
            }
    }
};

}  // namespace labeltree
