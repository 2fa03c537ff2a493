// K-means of the label vectors of all nodes of a level.
#include <algorithm>
#include <memory>
#include <utility>

#include "cluster/node_clustering.h"
#include "common/handles.h"

namespace labeltree {
namespace {

// The nodes of a level: node u has labels[first[u]] to labels[last[u] - 1], and a random stream of its own.
struct Level {
    std::span<const int32_t> labels;
    std::span<const int64_t> first, last, streams;

    int64_t n_nodes() const { return std::ssize(first); }
    std::span<const int32_t> labels_of(int64_t u) const { return slice(labels, first[u], last[u]); }
};

// All threads cluster the large nodes, one after the other; then each takes one of the other nodes at a time. A node is
// large by its work or by its memory: the others have no more centroids at a time than `most_matrices` roots would
// have.
constexpr int64_t most_matrices = 4;

// Scratch memory of the threads, kept from level to level.
class ClusteringSpaces {
  public:
    using Spaces = std::vector<std::unique_ptr<ClusteringSpace>>;

    ClusteringSpaces() = default;
    ClusteringSpaces(const ClusteringSpaces&) = delete;

    // Empties this: after an exception, memory is not in the state that the next level expects.
    Spaces take(int threads, int64_t n_features) {
        Spaces taken = std::exchange(spaces_, {});
        if (std::any_of(taken.begin(), taken.end(),
                        [&](const auto& space) { return space && std::ssize(space->vectors.local) != n_features; }))
            taken.clear();
        taken.resize(threads);
        return taken;
    }

    // Only centroids, the larger part, are kept: what else the levels need must not add up.
    void put_back(Spaces&& spaces) {
        spaces_ = std::move(spaces);
        for (const auto& space : spaces_) {
            if (!space) continue;
            space->distances.release();
            space->vectors.copied.release();
        }
    }

  private:
    Spaces spaces_;
};

void cluster_level(const SparseRows& vectors, const Level& level, const ClusterSettings& settings, int threads,
                   ClusteringSpaces& kept, std::span<int32_t> cluster, std::atomic<double>& fraction,
                   const Cancel& cancel) {
    const int64_t n_nodes = level.n_nodes();
    std::vector<int64_t> work(n_nodes), order(n_nodes);
    for (int64_t u = 0; u < n_nodes; ++u)
        for (const int32_t label : level.labels_of(u)) work[u] += vectors.n_entries(label);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return work[a] > work[b]; });
    const int64_t total = std::max<int64_t>(1, std::accumulate(work.begin(), work.end(), int64_t{0}));
    std::atomic<int64_t> done{0};
    auto spaces = kept.take(threads, vectors.n_columns);
    auto run = [&](int64_t u, int worker, int threads_inside) {
        if (!spaces[worker]) spaces[worker] = std::make_unique<ClusteringSpace>(vectors.n_columns);
        const Random random(settings.seed, level.streams[u]);
        const bool alone = threads_inside == threads;  // otherwise nodes are small
        NodeClustering(vectors, level.labels_of(u), settings, random, *spaces[worker], threads_inside, cancel)
            .run(slice(cluster, level.first[u], level.last[u]), [&](double share) {
                const double here = share * static_cast<double>(work[u]);
                if (alone) fraction = (static_cast<double>(done) + here) / static_cast<double>(total);
            });
        fraction = static_cast<double>(done += work[u]) / static_cast<double>(total);
    };
    auto is_large = [&](int64_t u) {
        return work[u] * 2 * threads > total ||
               std::min(work[u], vectors.n_columns) * threads > most_matrices * vectors.n_columns;
    };
    int64_t n_large = 0;
    while (n_large < n_nodes && threads > 1 && is_large(order[n_large]) && !cancel) run(order[n_large++], 0, threads);
    if (n_large > 0) spaces[0].reset();  // as large as the largest node
    parallel_for(n_nodes - n_large, threads, [&](int64_t k, int worker) {
        if (!cancel) run(order[n_large + k], worker, 1);
    });
    kept.put_back(std::move(spaces));
}

void check_level(const Level& level, int64_t n_labels, int64_t n_clusters) {
    check_range(level.labels, n_labels, "labels");
    require(level.first.size() == level.last.size() && level.first.size() == level.streams.size(),
            "first, last and streams must have one entry per node");
    for (int64_t u = 0; u < level.n_nodes(); ++u)
        require(level.first[u] >= 0 && level.last[u] - level.first[u] >= n_clusters &&
                    level.last[u] <= std::ssize(level.labels),
                "first and last must be a range of labels for each node, at least as many as clusters");
}

}  // namespace

void bind_kmeans(nb::module_& m) {
    m.attr("MOST_MATRICES") = most_matrices + 1;  // in memory: those of the last level, and of a large node
    m.attr("SEEDED_PER_CLUSTER") = seeded_per_cluster;
    m.attr("MAX_SEEDED") = max_seeded;
    m.attr("MAX_COPIED_BYTES") = max_copied * sizeof(Match);
    m.attr("CENTROID_BYTES") = sizeof(float) + sizeof(uint32_t) / 2;  // a sum and its bfloat16
    nb::class_<ClusteringSpaces>(m, "ClusteringSpaces", "Memory of cluster_level, to be used again.").def(nb::init<>());
    m.def(
        "cluster_level",
        [](const RowsHandle& vectors, In<int32_t> labels, In<int64_t> first, In<int64_t> last, In<int64_t> streams,
           int64_t clusters, int max_iterations, double least_moved, uint64_t seed, int threads, nb::handle progress,
           double main_share, ClusteringSpaces* kept) {
            require(threads >= 1 && clusters >= 2 && max_iterations >= 1,
                    "threads and max_iterations must be at least 1, clusters at least 2");
            require(main_share > 0 && main_share <= 1, "main_share must be above 0 and at most 1");
            const Level level{span_of(labels), span_of(first), span_of(last), span_of(streams)};
            std::vector<int32_t> cluster(labels.size(), -1);
            {
                nb::gil_scoped_release no_gil;
                check_level(level, vectors.view().n_rows(), clusters);
                const ClusterSettings settings{clusters, max_iterations, main_share, least_moved, seed};
                ClusteringSpaces own;
                run_interruptible(progress, [&](std::atomic<double>& fraction, const Cancel& cancel) {
                    cluster_level(vectors.view(), level, settings, threads, kept ? *kept : own, cluster, fraction,
                                  cancel);
                });
            }
            return to_numpy(std::move(cluster));
        },
        "vectors"_a, nb::kw_only(), "labels"_a.noconvert(), "first"_a.noconvert(), "last"_a.noconvert(),
        "streams"_a.noconvert(), "clusters"_a, "max_iterations"_a, "least_moved"_a, "seed"_a, "threads"_a,
        "progress"_a.none(), "main_share"_a = 1.0, "spaces"_a.none() = nb::none(),
        "Return the cluster of each label in labels[first[u]:last[u]] for every node u; -1 for other labels.\n"
        "main_share: all iterations but the last use the first entries of each vector, with this share of its "
        "squared length.\n"
        "spaces: memory to use, and to keep for the next level.");
}

}  // namespace labeltree
