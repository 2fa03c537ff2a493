// Which siblings are solved together: those that resemble one another.
//
// A group visits an instance as long as any of its siblings still moves there. Similar siblings share their difficult
// instances, so their group can skip most of the others: a fifth less work than in the order of the tree.
#pragma once

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "common/parallel.h"
#include "common/simd.h"
#include "common/views.h"

namespace labeltree {

constexpr int64_t sketch_size = 128;       // numbers that summarise the features of a child
constexpr int64_t sketch_instances = 128;  // instances of a child that are looked at, at most
constexpr int64_t group_window = 1024;     // children that are compared with one another, at most

// Eight sums side by side: the compiler may not reorder a single sum, and so could not vectorise it.
LABELTREE_INLINE float product(const float* a, const float* b) {
    float sum[8] = {};
    for (int64_t k = 0; k < sketch_size; k += 8)
        for (int64_t j = 0; j < 8; ++j) sum[j] += a[k + j] * b[k + j];
    return std::accumulate(sum, sum + 8, 0.0f);
}

// Adds the products with the sketches of other children to their likeness. The first sketch is that of child `first`.
LABELTREE_INLINE void add_likeness(const float* sketch, const float* sketches, std::span<const int32_t> others,
                                   int32_t first, float* likeness) {
    for (const int32_t c : others) likeness[c - first] += product(sketch, sketches + (c - first) * sketch_size);
}

// (Label, instance) pairs of these labels.
inline int64_t count_pairs(const TrainingData& data, std::span<const int32_t> labels) {
    int64_t n_pairs = 0;
    for (const int32_t label : labels) n_pairs += data.label_instances.n_entries(label);
    return n_pairs;
}

// The sum of some instances of a child's labels, features hashed to buckets with random signs, scaled to length 1.
inline void sketch_child(const TrainingData& data, std::span<const int32_t> labels, float* sketch) {
    const SparseRows& x = data.x;
    std::fill_n(sketch, sketch_size, 0.0f);
    const int64_t stride = (count_pairs(data, labels) + sketch_instances - 1) / sketch_instances;
    int64_t n_seen = 0;
    for (const int32_t label : labels)
        for (const int32_t i : data.label_instances.columns(label)) {
            if (n_seen++ % stride) continue;
            for (int64_t e = x.ptr[i]; e < x.ptr[i + 1]; ++e) {
                const uint32_t hash = static_cast<uint32_t>(x.index[e]) * 2654435761u;
                sketch[hash >> 25] += hash >> 24 & 1 ? x.value[e] : -x.value[e];
            }
        }
    const float squares = product(sketch, sketch);
    const float rate = squares > 0 ? 1 / std::sqrt(squares) : 0.0f;
    for (int64_t b = 0; b < sketch_size; ++b) sketch[b] *= rate;
}
static_assert(sketch_size == 1 << (32 - 25), "a bucket is the first seven bits of the hash");

// An order of the children in which each run of `size` is a group: the largest child that is left, then repeatedly the
// child most similar to the group so far. The labels of child c are labels[leaf[c]] to labels[leaf[c + 1] - 1].
inline std::vector<int32_t> group_siblings(const TrainingData& data, std::span<const int32_t> labels,
                                           std::span<const int64_t> leaf, int64_t size, const Cancel& cancel) {
    const int64_t n_children = std::ssize(leaf) - 1;
    auto labels_of = [&](int64_t c) { return slice(labels, leaf[c], leaf[c + 1]); };
    std::vector<int32_t> order(n_children);
    std::iota(order.begin(), order.end(), 0);
    if (n_children <= size) return order;
    std::vector<int64_t> n_pairs(n_children);
    for (int64_t c = 0; c < n_children; ++c) n_pairs[c] = count_pairs(data, labels_of(c));
    if (*std::max_element(n_pairs.begin(), n_pairs.end()) == 0) return order;

    static const auto add = for_this_cpu<add_likeness>();
    const int64_t window = std::min(n_children, group_window);
    std::vector<float> sketches(window * sketch_size), likeness(window);
    for (int64_t start = 0; start < n_children && !cancel; start += group_window) {
        const int64_t end = std::min(n_children, start + group_window);
        auto sketch = [&](int64_t c) { return sketches.data() + (c - start) * sketch_size; };
        for (int64_t c = start; c < end; ++c) sketch_child(data, labels_of(c), sketch(c));
        for (int64_t place = start; place < end; ++place) {
            const bool first = (place - start) % size == 0;
            if (first) std::fill(likeness.begin(), likeness.end(), 0.0f);
            int64_t best = place;
            for (int64_t k = place + 1; k < end; ++k) {
                const int32_t c = order[k], b = order[best];
                if (first ? n_pairs[c] > n_pairs[b] : likeness[c - start] > likeness[b - start]) best = k;
            }
            std::swap(order[place], order[best]);
            add(sketch(order[place]), sketches.data(), slice(std::span<const int32_t>(order), place + 1, end),
                static_cast<int32_t>(start), likeness.data());
        }
    }
    return order;
}

}  // namespace labeltree
