// Which siblings are solved together: those that resemble one another.
//
// An instance is visited by a group as long as any of its siblings still moves there. Alike siblings have their hard
// instances in common, so their group can leave most of the others alone: a fifth less work than in the tree's order.
#pragma once

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "parallel.h"
#include "tree_view.h"

namespace labeltree {

constexpr int64_t sketch_size = 128;      // numbers that stand for a child's features
constexpr int64_t sketch_instances = 128;  // at most so many instances are looked at for a child
constexpr int64_t group_window = 1024;     // at most so many children are compared with one another

// Eight sums side by side: the compiler may not reorder a single one, and so not use its vectors.
inline float product(const float* a, const float* b) {
    float sum[8] = {};
    for (int64_t k = 0; k < sketch_size; k += 8)
        for (int64_t j = 0; j < 8; ++j) sum[j] += a[k + j] * b[k + j];
    return std::accumulate(sum, sum + 8, 0.0f);
}

// The sum of some of the child's instances, its features thrown into sketch_size buckets with random signs; length 1.
inline void sketch_child(const Sparse& x, const Sparse& label_instances, const int32_t* labels, int64_t count,
                         float* sketch) {
    std::fill_n(sketch, sketch_size, 0.0f);
    int64_t entries = 0, seen = 0;
    for (int64_t l = 0; l < count; ++l) entries += label_instances.ptr[labels[l] + 1] - label_instances.ptr[labels[l]];
    const int64_t stride = (entries + sketch_instances - 1) / sketch_instances;
    for (int64_t l = 0; l < count; ++l)
        for (int64_t k = label_instances.ptr[labels[l]]; k < label_instances.ptr[labels[l] + 1]; ++k) {
            if (seen++ % stride) continue;
            const int64_t i = label_instances.index[k];
            for (int64_t e = x.ptr[i]; e < x.ptr[i + 1]; ++e) {
                const uint32_t hash = static_cast<uint32_t>(x.index[e]) * 2654435761u;
                sketch[hash >> 25] += hash >> 24 & 1 ? x.value[e] : -x.value[e];
            }
        }
    const float squares = product(sketch, sketch);
    const float rate = squares > 0 ? 1 / std::sqrt(squares) : 0.0f;
    for (int64_t b = 0; b < sketch_size; ++b) sketch[b] *= rate;
}
static_assert(sketch_size == 1 << (32 - 25), "a bucket is the hash's first seven bits");

// An order of the children in which each run of `size` is a group: the largest child that is left, then again and again
// the one most like the group so far. leaf[c] is the place of child c's first label in `labels`; leaf[count], the end.
inline std::vector<int32_t> group_siblings(const Sparse& x, const Sparse& label_instances, const int32_t* labels,
                                           const std::vector<int64_t>& leaf, int64_t size, const Cancel& cancel) {
    const int64_t count = static_cast<int64_t>(leaf.size()) - 1;
    std::vector<int32_t> order(count);
    std::iota(order.begin(), order.end(), 0);
    if (count <= size) return order;
    std::vector<int64_t> instances(count, 0);
    for (int64_t c = 0; c < count; ++c)
        for (int64_t l = leaf[c]; l < leaf[c + 1]; ++l)
            instances[c] += label_instances.ptr[labels[l] + 1] - label_instances.ptr[labels[l]];
    if (*std::max_element(instances.begin(), instances.end()) == 0) return order;

    std::vector<float> sketches(std::min(count, group_window) * sketch_size), likeness(std::min(count, group_window));
    for (int64_t start = 0; start < count && !cancel; start += group_window) {
        const int64_t end = std::min(count, start + group_window);
        auto sketch = [&](int32_t c) { return sketches.data() + (c - start) * sketch_size; };
        for (int64_t c = start; c < end; ++c)
            sketch_child(x, label_instances, labels + leaf[c], leaf[c + 1] - leaf[c], sketch(static_cast<int32_t>(c)));
        for (int64_t place = start; place < end; ++place) {
            const bool first = (place - start) % size == 0;
            if (first) std::fill(likeness.begin(), likeness.end(), 0.0f);
            int64_t best = place;
            for (int64_t k = place + 1; k < end; ++k) {
                const int32_t c = order[k], b = order[best];
                if (first ? instances[c] > instances[b] : likeness[c - start] > likeness[b - start]) best = k;
            }
            std::swap(order[place], order[best]);
            for (int64_t k = place + 1; k < end; ++k)
                likeness[order[k] - start] += product(sketch(order[place]), sketch(order[k]));
        }
    }
    return order;
}

}  // namespace labeltree
