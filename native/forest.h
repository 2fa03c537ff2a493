// Label trees as the beam search reads them: arrays that may be mapped files, checked so that no query can leave them.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <limits>
#include <memory>
#include <tuple>
#include <vector>

#include "binding.h"

namespace labeltree {

using TreeArrays = std::tuple<In<int64_t>, In<int32_t>, In<int64_t>, In<int32_t>, In<int64_t>, In<float>>;

// Where features stand in a node's sorted list, so that a query finds them with one or two cache misses each. Made when
// a node is first searched: a tree on disk is not read for it. The list comes from a file: whatever it holds, no row
// leads out of it.
class Guide {
   public:
    // A node that uses many features has a bit for each feature there is, and before every 32 of them the number of
    // those that it uses: a feature's row without a look at the list.
    struct Cell {
        uint32_t used_before, used;

        bool has(int32_t feature) const { return used >> (feature & 31) & 1; }
        int32_t row(int32_t feature) const {
            return static_cast<int32_t>(used_before + std::popcount(used & ((1u << (feature & 31)) - 1)));
        }
    };
    // Then the cells take no more than twice the list.
    static bool has_cells(int64_t count, int64_t n_features) { return count * 32 >= n_features; }

    const Cell* cells(const int32_t* features, int64_t count, int64_t n_features) {
        return once(cells_, n_features / 32 + 1, [=](Cell* cells, int64_t size) {
            int64_t at = 0;
            for (int64_t c = 0; c < size; ++c) {
                cells[c] = {static_cast<uint32_t>(at), 0};
                for (; at < count && features[at] >> 5 == c; ++at) cells[c].used |= 1u << (features[at] & 31);
                // Twice the same feature, or not sorted: damaged. Rows must stay within the list all the same.
                at = cells[c].used_before + std::popcount(cells[c].used);
            }
        });
    }

    // Any other node has, for every range of `1 << shift` features, where they begin in the list: about eight of them.
    static int shift(int64_t count, int64_t n_features) {
        int bits = 3;
        while (n_features >> bits > count / 8 + 1) ++bits;
        return bits;
    }
    const int32_t* starts(const int32_t* features, int64_t count, int64_t n_features, int shift) {
        return once(starts_, (n_features >> shift) + 1, [=](int32_t* starts, int64_t size) {
            int64_t at = 0;
            for (int64_t r = 0; r < size; ++r) {
                while (at < count && features[at] < r << shift) ++at;
                starts[r] = static_cast<int32_t>(at);
            }
        });
    }

    ~Guide() {
        delete[] cells_.load();
        delete[] starts_.load();
    }

   private:
    template <class T, class Fill>
    static const T* once(std::atomic<const T*>& made, int64_t size, Fill&& fill) {
        if (const T* ready = made.load(std::memory_order_acquire)) return ready;
        auto* mine = new T[size];
        fill(mine, size);
        const T* none = nullptr;
        if (made.compare_exchange_strong(none, mine, std::memory_order_acq_rel)) return mine;
        delete[] mine;  // another thread was first
        return none;
    }

    std::atomic<const Cell*> cells_{nullptr};
    std::atomic<const int32_t*> starts_{nullptr};
};

// A tree's arrays, held alive, and what the search must know of its shape.
struct Tree {
    TreeArrays arrays;
    const int64_t *child_ptr, *feature_ptr, *weight_ptr;
    const int32_t *children, *features;
    const float* weights;
    std::vector<uint8_t> kinds;  // of each node's children: has_nodes, has_leaves
    std::unique_ptr<Guide[]> guides;
    int64_t widest = 1;          // nodes of the widest level
    int64_t most_children = 0;
    int64_t levels = 0;

    static constexpr uint8_t has_nodes = 1, has_leaves = 2;

    Tree(TreeArrays given, int64_t n_features, int64_t n_labels) : arrays(std::move(given)) {
        const auto& [child_ptr_in, children_in, feature_ptr_in, features_in, weight_ptr_in, weights_in] = arrays;
        child_ptr = child_ptr_in.data(), children = children_in.data();
        feature_ptr = feature_ptr_in.data(), features = features_in.data();
        weight_ptr = weight_ptr_in.data(), weights = weights_in.data();
        const int64_t nodes = static_cast<int64_t>(child_ptr_in.size()) - 1;
        require(nodes >= 1 && nodes <= std::numeric_limits<int32_t>::max(), "a tree needs a root");
        check_indptr(child_ptr_in, children_in.size(), "child_ptr");
        require(feature_ptr_in.size() == child_ptr_in.size(), "feature_ptr must have one entry a node, and one more");
        check_indptr(feature_ptr_in, features_in.size(), "feature_ptr");
        require(weight_ptr_in.size() == child_ptr_in.size(), "weight_ptr must have one entry a node, and one more");
        check_indptr(weight_ptr_in, weights_in.size(), "weight_ptr");
        check_blocks(nodes, n_features);
        check_children(nodes, n_labels);
    }

    int64_t child_count(int64_t node) const { return child_ptr[node + 1] - child_ptr[node]; }
    int64_t feature_count(int64_t node) const { return feature_ptr[node + 1] - feature_ptr[node]; }

   private:
    void check_blocks(int64_t nodes, int64_t n_features) {
        for (int64_t u = 0; u < nodes; ++u) {
            int64_t size;
            require(feature_count(u) <= n_features + 1, "a node lists more features than there are");
            require(!__builtin_mul_overflow(feature_count(u), child_count(u), &size) &&
                        size == weight_ptr[u + 1] - weight_ptr[u],
                    "weight_ptr must step by features times children");
            most_children = std::max(most_children, child_count(u));
        }
    }

    // With ids in range and none twice, a list of (nodes - 1 + labels) holds each of them.
    void check_children(int64_t nodes, int64_t n_labels) {
        require(child_ptr[nodes] == nodes - 1 + n_labels, "children must be every node but the root, and every label");
        std::vector<bool> node_seen(nodes), label_seen(n_labels);
        std::vector<int32_t> depth(nodes);
        std::vector<int64_t> width(1, 1);
        kinds.resize(nodes);
        guides = std::make_unique<Guide[]>(nodes);
        for (int64_t u = 0; u < nodes; ++u) {
            for (int64_t k = child_ptr[u]; k < child_ptr[u + 1]; ++k) {
                const int32_t child = children[k];
                const int64_t id = child < 0 ? ~child : child;
                auto& seen = child < 0 ? label_seen : node_seen;
                require(id < static_cast<int64_t>(seen.size()), "children holds an id out of range");
                require(child < 0 || child > u, "a child node must come after its parent");
                require(!seen[id], "children holds an id twice");
                seen[id] = true;
                kinds[u] |= child < 0 ? has_leaves : has_nodes;
                if (child < 0) continue;
                depth[child] = depth[u] + 1;
                if (depth[child] == static_cast<int32_t>(width.size())) width.push_back(0);
                ++width[depth[child]];
            }
        }
        widest = *std::max_element(width.begin(), width.end());
        levels = static_cast<int64_t>(width.size());
    }
};

struct Forest {
    std::vector<Tree> trees;
    int64_t n_features, n_labels;
    float bias;
};

}  // namespace labeltree
