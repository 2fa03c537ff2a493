// K-means of the label vectors of a tree level's nodes: Lloyd's iterations from distinct random labels.
//
// Euclidean, as in the paper. With centroids of length 1 (K-means by cosine) P@1 to P@5 were the same within the noise of
// the seeds, and the model of debian-depends larger by a fifth.
#include <cmath>
#include <memory>

#include "likeness.h"
#include "memory.h"
#include "random.h"
#include "tree_binding.h"

namespace labeltree {
namespace {

constexpr int64_t row_chunk = 64;       // labels assigned by a thread at a time
constexpr int64_t feature_chunk = 1024;  // features whose sums are copied by a thread at a time
constexpr int64_t column_chunk = 16;    // clusters updated by a thread at a time: one cache line
constexpr int64_t large_sums = 1 << 20;  // from so many on, they are also kept in half the bytes

struct Settings {
    int64_t clusters;
    int max_iterations;
    double least_moved;  // stop when fewer than this share of the labels move
};

// Scratch of one thread, kept from node to node.
struct ClusteringSpace {
    std::vector<int32_t> local;
    Buffer<float> sums;
    Buffer<uint32_t> halves;
};

// Centroids are kept as sums over their members, feature-major: one feature's values for all clusters lie together.
// Where they are many, labels are compared with a copy in half the bytes, for fetching these is what takes the time.
class NodeClustering {
  public:
    NodeClustering(const Sparse& vectors, const int32_t* labels, int64_t count, const Settings& settings, Random random,
                   ClusteringSpace& space, int threads, const Cancel& cancel)
        : vectors_(vectors), labels_(labels), count_(count), settings_(settings), random_(random), threads_(threads),
          cancel_(cancel), width_((settings.clusters + 7) / 8 * 8), stride_((width_ + 15) / 16 * 8), space_(space),
          local_(space.local), members_(settings.clusters),
          squares_(settings.clusters), rate_(settings.clusters), half_square_(settings.clusters) {}

    void run(int32_t* cluster) {
        number_features();
        sums_ = space_.sums.zeros(features_ * width_);
        if (features_ * width_ >= large_sums) halves_ = space_.halves.reserve(features_ * stride_);
        start_from_random_labels();
        std::vector<int32_t> next(count_);
        std::fill_n(cluster, count_, -1);
        for (int iteration = 0; iteration < settings_.max_iterations && !cancel_; ++iteration) {
            assign(next.data());
            int64_t moved = 0;
            for (int64_t i = 0; i < count_; ++i) moved += next[i] != cluster[i];
            const bool last = moved < settings_.least_moved * count_ || iteration + 1 == settings_.max_iterations;
            if (!last) update(cluster, next.data(), moved);
            std::copy(next.begin(), next.end(), cluster);
            if (last) break;
        }
        each_feature([&](int32_t& id) { id = -1; });
    }

  private:
    void number_features() {
        each_feature([&](int32_t& id) {
            if (id < 0) id = static_cast<int32_t>(features_++);
        });
    }

    template <class Visit>
    void each_feature(Visit&& visit) {
        for (int64_t i = 0; i < count_; ++i)
            for (int64_t k = vectors_.ptr[labels_[i]]; k < vectors_.ptr[labels_[i] + 1]; ++k)
                visit(local_[vectors_.index[k]]);
    }

    void start_from_random_labels() {
        std::vector<int32_t> order(count_);
        std::iota(order.begin(), order.end(), 0);
        for (int64_t c = 0; c < settings_.clusters; ++c) {
            std::swap(order[c], order[c + random_.below(static_cast<uint32_t>(count_ - c))]);
            add(order[c], c, 1.0f);
            members_[c] = 1;
        }
        take_means();
    }

    void add(int64_t i, int64_t cluster, float sign) {
        double gained = 0;
        for (int64_t k = vectors_.ptr[labels_[i]]; k < vectors_.ptr[labels_[i] + 1]; ++k) {
            float& sum = sums_[local_[vectors_.index[k]] * width_ + cluster];
            const double before = sum;
            sum += sign * vectors_.value[k];
            gained += (sum - before) * (sum + before);
        }
        squares_[cluster] += gained;
    }

    // A label goes to the cluster of the largest v'mean - |mean|^2 / 2.
    void take_means() {
        for (int64_t c = 0; c < settings_.clusters; ++c) {
            rate_[c] = members_[c] > 0 ? 1.0f / static_cast<float>(members_[c]) : 0.0f;
            half_square_[c] = static_cast<float>(squares_[c] / 2) * rate_[c] * rate_[c];
        }
        if (!halves_) return;
        parallel_for((features_ + feature_chunk - 1) / feature_chunk, threads_, [&](int64_t part, int) {
            for (int64_t f = part * feature_chunk; f < std::min(features_, (part + 1) * feature_chunk); ++f)
                pack_halves(sums_ + f * width_, width_, halves_ + f * stride_);
        });
    }

    void assign(int32_t* next) const {
        parallel_for((count_ + row_chunk - 1) / row_chunk, threads_, [&](int64_t part, int) {
            if (cancel_) return;
            std::vector<Match> entries;
            std::vector<float> product(width_);
            for (int64_t i = part * row_chunk; i < std::min(count_, (part + 1) * row_chunk); ++i)
                next[i] = nearest(i, entries, product);
        });
    }

    int32_t nearest(int64_t i, std::vector<Match>& entries, std::vector<float>& product) const {
        const int64_t start = vectors_.ptr[labels_[i]], size = vectors_.ptr[labels_[i] + 1] - start;
        entries.assign(size + prefetch_ahead, {0, 0});
        for (int64_t k = 0; k < size; ++k)
            entries[k] = {local_[vectors_.index[start + k]], vectors_.value[start + k]};
        if (halves_)
            likeness(halves_, width_, entries.data(), size, product.data());
        else
            likeness(sums_, width_, entries.data(), size, product.data());
        int32_t best = 0;
        float most = -HUGE_VALF;
        for (int64_t c = 0; c < settings_.clusters; ++c) {
            const float nearness = product[c] * rate_[c] - half_square_[c];
            if (members_[c] > 0 && nearness > most) {  // an empty cluster stays empty
                most = nearness;
                best = static_cast<int32_t>(c);
            }
        }
        return best;
    }

    // A thread owns whole clusters and meets their labels in order, so the sums don't depend on the threads.
    void update(const int32_t* before, const int32_t* after, int64_t moved) {
        const bool from_scratch = moved * 2 > count_;
        if (from_scratch) {
            std::fill_n(sums_, features_ * width_, 0.0f);
            std::fill(squares_.begin(), squares_.end(), 0.0);
        }
        parallel_for((settings_.clusters + column_chunk - 1) / column_chunk, threads_, [&](int64_t part, int) {
            auto mine = [&](int32_t c) { return c >= 0 && c / column_chunk == part; };
            for (int64_t i = 0; i < count_; ++i) {
                if (from_scratch) {
                    if (mine(after[i])) add(i, after[i], 1.0f);
                } else if (before[i] != after[i]) {
                    if (mine(before[i])) add(i, before[i], -1.0f);
                    if (mine(after[i])) add(i, after[i], 1.0f);
                }
            }
        });
        std::fill(members_.begin(), members_.end(), 0);
        for (int64_t i = 0; i < count_; ++i) ++members_[after[i]];
        take_means();
    }

    const Sparse& vectors_;
    const int32_t* labels_;
    const int64_t count_;
    const Settings& settings_;
    Random random_;
    const int threads_;
    const Cancel& cancel_;
    const int64_t width_;         // clusters, rounded up to whole vectors
    const int64_t stride_;        // words of a row of halves_
    ClusteringSpace& space_;
    std::vector<int32_t>& local_;  // feature -> row of sums_; all -1 before and after
    int64_t features_ = 0;
    float* sums_ = nullptr;
    uint32_t* halves_ = nullptr;  // the sums in half the bytes, or null
    std::vector<int64_t> members_;
    std::vector<double> squares_;  // of the lengths of the sums
    std::vector<float> rate_, half_square_;
};

// Large nodes are clustered one after the other by all threads, the others side by side; large in work, or in memory:
// the centroids held at a time stay below those of `most_matrices` roots (src/labeltree/tree.py counts on it).
constexpr int64_t most_matrices = 4;

void cluster_level(const Sparse& vectors, const int32_t* labels, const int64_t* first, const int64_t* last,
                   const int64_t* streams, int64_t nodes, const Settings& settings, uint64_t seed, int threads,
                   int32_t* cluster, std::atomic<double>& fraction, const Cancel& cancel) {
    std::vector<int64_t> work(nodes), order(nodes);
    for (int64_t u = 0; u < nodes; ++u) {
        for (int64_t p = first[u]; p < last[u]; ++p) work[u] += vectors.ptr[labels[p] + 1] - vectors.ptr[labels[p]];
        order[u] = u;
    }
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return work[a] > work[b]; });
    const int64_t total = std::max<int64_t>(1, std::accumulate(work.begin(), work.end(), int64_t{0}));
    std::atomic<int64_t> done{0};
    std::vector<std::unique_ptr<ClusteringSpace>> spaces(threads);
    auto run = [&](int64_t u, int worker, int threads_inside) {
        if (!spaces[worker]) {
            spaces[worker] = std::make_unique<ClusteringSpace>();
            spaces[worker]->local.assign(vectors.columns, -1);
        }
        NodeClustering(vectors, labels + first[u], last[u] - first[u], settings, Random(seed, streams[u]), *spaces[worker],
                       threads_inside, cancel)
            .run(cluster + first[u]);
        fraction = static_cast<double>(done += work[u]) / total;
    };
    auto is_large = [&](int64_t u) {
        return work[u] * 2 * threads > total || std::min(work[u], vectors.columns) * threads > most_matrices * vectors.columns;
    };
    int64_t large = 0;
    while (large < nodes && threads > 1 && is_large(order[large]) && !cancel) run(order[large++], 0, threads);
    spaces[0].reset();  // as large as the largest node
    parallel_for(nodes - large, threads, [&](int64_t k, int worker) {
        if (!cancel) run(order[large + k], worker, 1);
    });
}

}  // namespace

void bind_kmeans(nb::module_& m) {
    m.def(
        "cluster_level",
        [](In<int64_t> ptr, In<int32_t> index, In<float> value, int64_t feature_count, In<int32_t> labels,
           In<int64_t> first, In<int64_t> last, In<int64_t> streams, int64_t clusters, int max_iterations,
           double least_moved, uint64_t seed, int threads, nb::object progress) {
            require(threads >= 1 && clusters >= 2 && max_iterations >= 1, "threads, clusters or max_iterations too small");
            require(value.size() == index.size(), "vectors need one value an index");
            const Sparse vectors = check_sparse(ptr, index, value.data(), feature_count, "vectors");
            check_range(labels, vectors.rows, "labels");
            require(first.size() == last.size() && first.size() == streams.size(), "first, last and streams must match");
            for (size_t u = 0; u < first.size(); ++u)
                require(first.data()[u] >= 0 && last.data()[u] - first.data()[u] >= clusters &&
                            last.data()[u] <= static_cast<int64_t>(labels.size()),
                        "a node needs at least as many labels as clusters, within range");
            std::vector<int32_t> cluster(labels.size(), -1);
            {
                nb::gil_scoped_release free;
                const Settings settings{clusters, max_iterations, least_moved};
                std::atomic<double> fraction{0};
                Cancel cancel{false};
                run_watched(
                    [&] {
                        cluster_level(vectors, labels.data(), first.data(), last.data(), streams.data(), first.size(),
                                      settings, seed, threads, cluster.data(), fraction, cancel);
                    },
                    python_watch(progress, fraction), cancel);
            }
            return to_numpy(std::move(cluster));
        },
        "ptr"_a.noconvert(), "index"_a.noconvert(), "value"_a.noconvert(), "feature_count"_a, "labels"_a.noconvert(),
        "first"_a.noconvert(), "last"_a.noconvert(), "streams"_a.noconvert(), "clusters"_a, "max_iterations"_a,
        "least_moved"_a, "seed"_a, "threads"_a, "progress"_a.none(),
        "Cluster of each label in labels[first[u]:last[u]] for every node u; -1 for labels of no node.");
}

}  // namespace labeltree
