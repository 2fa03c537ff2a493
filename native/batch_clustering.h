// Clusters of the many labels of one node in a fraction of the time of K-means: its iterations use random batches.
#pragma once

#include <algorithm>
#include <numeric>
#include <vector>

#include "node_clustering.h"

namespace labeltree {

struct BatchSettings {
    int64_t n_batches;
    int64_t per_cluster;  // labels of a batch, at least; nodes with fewer labels than this are clustered by K-means
    double share, last;   // of the labels of the node that are in a batch, and in the last one
};

// Each batch is assigned to the means of the batch before; the first one, to random labels. All other labels are
// assigned to the means of the last. So no label is compared with a mean that it is part of: as in a large cluster,
// where a single label hardly matters.
inline void cluster_in_batches(const SparseRows& vectors, std::span<const int32_t> labels,
                               const ClusterSettings& settings, const BatchSettings& batches, Random random,
                               ClusteringSpace& space, int threads, const Cancel& cancel, std::span<int32_t> cluster) {
    const int64_t n_labels = std::ssize(labels);
    const auto share_of = [&](double share) { return static_cast<int64_t>(share * static_cast<double>(n_labels)); };
    const int64_t size =
        std::min(n_labels / 2, std::max(batches.per_cluster * settings.n_clusters, share_of(batches.share)));
    std::vector<int32_t> order(n_labels);
    std::iota(order.begin(), order.end(), 0);
    random.shuffle(std::span(order));
    std::fill(cluster.begin(), cluster.end(), -1);
    for (int64_t c = 0; c < settings.n_clusters; ++c) cluster[order[c]] = static_cast<int32_t>(c);
    std::vector<bool> is_next(n_labels);
    std::vector<int32_t> places, part, given, found;
    int64_t end = settings.n_clusters;
    for (int64_t batch = 0; batch < batches.n_batches && !cancel; ++batch) {
        const int64_t n_next = batch + 1 < batches.n_batches ? size : std::max(size, share_of(batches.last));
        for (int64_t k = 0; k < n_next; ++k) is_next[order[end++ % n_labels]] = true;
        places.clear();
        part.clear();
        given.clear();
        for (int32_t i = 0; i < n_labels; ++i) {  // in order of labels: neighbors in memory
            if (cluster[i] < 0 && !is_next[i]) continue;
            places.push_back(i);
            part.push_back(labels[i]);
            given.push_back(cluster[i]);
        }
        found.resize(part.size());
        NodeClustering(vectors, part, settings, random, space, threads, cancel).assign_to(given, found);
        for (size_t k = 0; k < places.size(); ++k) cluster[places[k]] = is_next[places[k]] ? found[k] : -1;
        is_next.assign(n_labels, false);
    }
    given.assign(cluster.begin(), cluster.end());
    NodeClustering(vectors, labels, settings, random, space, threads, cancel).assign_to(given, cluster);
}

}  // namespace labeltree
