// Clusters of rough label vectors, in a fraction of the time of K-means.
#include <numeric>

#include "handles.h"
#include "node_clustering.h"
#include "rough_vectors.h"

namespace labeltree {
namespace {

constexpr int64_t block = 2048;  // labels whose vectors are kept at a time
constexpr int64_t max_stored = 8192;

// As many slots as labels in small nodes, and fewer in large ones: centroids should fit into the cache.
constexpr int64_t slots_of(int64_t n_labels) {
    const auto power = [](int64_t n) { return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(n))); };
    return std::clamp<int64_t>(std::max(std::min<int64_t>(power(n_labels), 8192), power(n_labels / 8)), 2048, n_slots);
}

struct BatchSettings {
    int64_t n_batches;
    int64_t most;         // labels per cluster, at most, of nodes that are clustered by K-means
    int64_t per_cluster;  // labels of a batch, at least
    double share;         // of the labels of the node that are in a batch, at least
    double last;          // how many times as large the last batch is
};

// Packs rows of the sums as bfloat16, and adds up the squares of each column.
LABELTREE_INLINE void pack_rows(const float* sums, int64_t n_rows, int64_t width, uint32_t* packed, float* squares) {
    for (int64_t f = 0; f < n_rows; ++f, sums += width, packed += packed_words(width)) {
        for (int64_t c = 0; c < width; ++c) squares[c] += sums[c] * sums[c];
        pack_bfloat16(sums, width, packed);
    }
}

// Returns the cluster with the largest product * rate - square, the first of equals. All have a multiple of eight.
LABELTREE_INLINE int32_t largest_of(const float* products, const float* rates, const float* squares, int64_t width) {
    typedef int32_t Places __attribute__((vector_size(32)));
    Eight most = -HUGE_VALF - Eight{};
    Places place{}, here{0, 1, 2, 3, 4, 5, 6, 7};
    for (int64_t c = 0; c < width; c += 8, here += 8) {
        const Eight near = load_columns(products, c) * load_columns(rates, c) - load_columns(squares, c);
        place = near > most ? here : place;
        most = near > most ? near : most;
    }
    int best = 0;
    for (int k = 1; k < 8; ++k)
        if (most[k] > most[best] || (most[k] == most[best] && place[k] < place[best])) best = k;
    return place[best];
}

// Clusters of the many labels of one node: the iterations of K-means use random batches. Each batch is assigned to the
// means of the batch before; the first one, to random labels. All other labels are assigned to the means of the last.
// So no label is compared with a mean that it is part of: as in a large cluster, where a single label hardly matters.
class BatchClustering {
  public:
    BatchClustering(const RoughVectors& vectors, int64_t n_clusters, const BatchSettings& settings, int threads,
                    const Cancel& cancel)
        : vectors_(vectors), n_clusters_(n_clusters), width_((n_clusters + 7) / 8 * 8), stride_(packed_words(width_)),
          settings_(settings), threads_(threads), cancel_(cancel), n_members_(n_clusters), rate_(width_),
          half_square_(width_), spaces_(threads) {}

    void run(std::span<const int32_t> labels, Random random, std::span<int32_t> cluster) {
        const int64_t n_labels = std::ssize(labels);
        const auto times = [](double factor, int64_t n) {
            return static_cast<int64_t>(factor * static_cast<double>(n));
        };
        const int64_t size =
            std::min(n_labels / 2, std::max(settings_.per_cluster * n_clusters_, times(settings_.share, n_labels)));
        const int64_t last_size = std::min(n_labels / 2, times(settings_.last, size));
        n_rows_ = slots_of(n_labels);
        shift_ = std::countr_zero(static_cast<uint64_t>(n_slots)) - std::countr_zero(static_cast<uint64_t>(n_rows_));
        store(labels);
        sums_ = sum_space_.reserve(n_rows_ * width_);
        packed_ = packed_space_.reserve(n_rows_ * stride_);
        std::vector<int32_t> order(n_labels), places;
        std::iota(order.begin(), order.end(), 0);
        random.shuffle(std::span(order));
        std::fill(cluster.begin(), cluster.end(), -1);
        clear_sums();
        places.assign(order.begin(), order.begin() + n_clusters_);
        for (int32_t c = 0; c < n_clusters_; ++c) cluster[places[c]] = c;
        add(labels, places, cluster, false);
        int64_t end = n_clusters_;
        for (int64_t batch = 0; batch < settings_.n_batches && !cancel_; ++batch) {
            take_means();
            clear_sums();
            for (const int32_t i : places) cluster[i] = -1;
            places.clear();
            for (int64_t k = batch + 1 < settings_.n_batches ? size : last_size; k > 0; --k)
                places.push_back(order[end++ % n_labels]);
            std::sort(places.begin(), places.end());  // neighbors in memory
            add(labels, places, cluster, true);
        }
        take_means();
        assign_others(labels, cluster);
    }

  private:
    // Assigns the labels that are in no cluster yet. Labels whose only instance is the same have the same vector: one
    // of them is assigned, and the others follow it.
    void assign_others(std::span<const int32_t> labels, std::span<int32_t> cluster) {
        std::vector<int32_t> places, owner(vectors_.n_instances(), -1);
        std::vector<std::pair<int32_t, int32_t>> followers;
        for (int32_t i = 0; i < std::ssize(labels); ++i) {
            if (cluster[i] >= 0) continue;
            const auto instances = vectors_.instances_of(labels[i]);
            int32_t* const first = instances.size() == 1 ? &owner[instances[0]] : nullptr;
            if (first && *first >= 0) {
                followers.emplace_back(i, *first);
                continue;
            }
            if (first) *first = i;
            places.push_back(i);
        }
        each(labels, places, 0, std::ssize(places),
             [&](int64_t k, std::span<const Match> vector) { cluster[places[k]] = nearest(vector); });
        for (const auto& [i, first] : followers) cluster[i] = cluster[first];
    }

    // Makes the vectors of a node with few labels, which are in several batches.
    void store(std::span<const int32_t> labels) {
        stored_.clear();
        stored_end_.clear();
        if (std::ssize(labels) > max_stored) return;
        vectors_.each(labels, {}, 0, std::ssize(labels), spaces_[0], [&](int64_t, std::span<const Match> vector) {
            for (const auto& [slot, value] : vector) stored_.push_back({slot >> shift_, value});
            stored_end_.push_back(stored_.size());
        });
        stored_.resize(stored_.size() + prefetch_ahead);
    }

    // Calls visit(k, vector) with the vectors of labels[places[k]] for k in [first, last).
    template <class Visit>
    void each(std::span<const int32_t> labels, std::span<const int32_t> places, int64_t first, int64_t last,
              Visit&& visit) {
        parallel_for((last - first + label_chunk - 1) / label_chunk, threads_, [&](int64_t part, int worker) {
            if (cancel_) return;
            const int64_t begin = first + part * label_chunk, end = std::min(last, begin + label_chunk);
            if (!stored_.empty()) {
                for (int64_t k = begin; k < end; ++k) {
                    const size_t from = places[k] > 0 ? stored_end_[places[k] - 1] : 0;
                    visit(k, std::span<const Match>(stored_).subspan(from, stored_end_[places[k]] - from));
                }
                return;
            }
            vectors_.each(labels, places, begin, end, spaces_[worker], [&](int64_t k, std::span<Match> vector) {
                for (Match& match : vector) match.row >>= shift_;
                visit(k, std::span<const Match>(vector));
            });
        });
    }

    // Adds the labels to the sums of their clusters, which are found first if `assign`.
    void add(std::span<const int32_t> labels, std::span<const int32_t> places, std::span<int32_t> cluster,
             bool assign) {
        const int64_t size = std::ssize(places), step = vectors_.max_entries();
        if (threads_ == 1) {
            each(labels, places, 0, size, [&](int64_t k, std::span<const Match> vector) {
                if (assign) cluster[places[k]] = nearest(vector);
                add(vector, cluster[places[k]]);
            });
            return;
        }
        Match* const made = block_space_.reserve(block * step);
        std::vector<size_t> n_made(block);
        for (int64_t first = 0; first < size && !cancel_; first += block) {
            const int64_t last = std::min(size, first + block);
            each(labels, places, first, last, [&](int64_t k, std::span<const Match> vector) {
                if (assign) cluster[places[k]] = nearest(vector);
                std::copy(vector.begin(), vector.end(), made + (k - first) * step);
                n_made[k - first] = vector.size();
            });
            // A thread owns whole clusters and adds their labels in order, so the sums do not depend on the threads.
            parallel_ranges(n_clusters_, column_chunk, threads_, [&](int64_t begin, int64_t end) {
                for (int64_t k = first; k < last; ++k)
                    if (const int32_t c = cluster[places[k]]; c >= begin && c < end)
                        add({made + (k - first) * step, n_made[k - first]}, c);
            });
        }
    }

    void add(std::span<const Match> vector, int32_t c) {
        ++n_members_[c];
        for (const auto& [row, value] : vector) sums_[row * width_ + c] += value;
    }

    void clear_sums() {
        parallel_ranges(n_rows_, pack_chunk, threads_, [&](int64_t first, int64_t last) {
            std::fill(sums_ + first * width_, sums_ + last * width_, 0.0f);
        });
        std::fill(n_members_.begin(), n_members_.end(), 0);
    }

    // A label goes to the cluster with the largest v'mean - |mean|^2 / 2. Labels are compared with means of other
    // labels: the squared length of a mean is estimated by the products of different labels, without those of labels
    // with themselves. An empty cluster stays empty.
    void take_means() {
        static const auto pack = for_this_cpu<pack_rows>();
        const int64_t n_parts = (n_rows_ + pack_chunk - 1) / pack_chunk;
        std::vector<float> squares(n_parts * width_);
        parallel_ranges(n_rows_, pack_chunk, threads_, [&](int64_t first, int64_t last) {
            pack(sums_ + first * width_, last - first, width_, packed_ + first * stride_,
                 squares.data() + first / pack_chunk * width_);
        });
        for (int64_t c = 0; c < width_; ++c) {
            const auto n = static_cast<double>(c < n_clusters_ ? n_members_[c] : 0);
            double square = 0;
            for (int64_t part = 0; part < n_parts; ++part) square += squares[part * width_ + c];
            if (n > 1) square = std::max(0.0, square - n) * n / (n - 1);
            rate_[c] = n > 0 ? static_cast<float>(1 / n) : 0.0f;
            half_square_[c] = n > 0 ? static_cast<float>(square / 2) * rate_[c] * rate_[c] : HUGE_VALF;
        }
    }

    int32_t nearest(std::span<const Match> vector) const {
        static const auto largest = for_this_cpu<largest_of>();
        thread_local std::vector<float> products;
        products.resize(width_);
        likeness(packed_, width_, width_, vector, products.data());
        return largest(products.data(), rate_.data(), half_square_.data(), width_);
    }

    const RoughVectors& vectors_;
    const int64_t n_clusters_, width_, stride_;  // width_: clusters, rounded up to whole vectors
    const BatchSettings settings_;
    const int threads_;
    const Cancel& cancel_;
    int64_t n_rows_ = 0;  // slots in use: few in small nodes
    int shift_ = 0;       // of slots to these
    std::vector<Match> stored_;
    std::vector<size_t> stored_end_;  // of each label
    Buffer<float> sum_space_;
    Buffer<uint32_t> packed_space_;
    Buffer<Match> block_space_;
    float* sums_ = nullptr;
    uint32_t* packed_ = nullptr;  // the sums as bfloat16
    std::vector<int64_t> n_members_;
    std::vector<float> rate_, half_square_;
    std::vector<RoughVectors::Workspace> spaces_;
};

// _native.RoughClusters
class RoughClusters {
  public:
    RoughClusters(const DataHandle& data, const RoughSettings& settings, int threads) : threads_(threads) {
        nb::gil_scoped_release no_gil;
        run_interruptible([&](const Cancel& cancel) {
            vectors_ = std::make_unique<RoughVectors>(data.view(), settings, threads, cancel);
        });
    }

    const RoughVectors& vectors() const { return *vectors_; }

    // Writes the cluster of each label of the nodes labels[first[u]:last[u]].
    void split(std::span<const int32_t> labels, std::span<const int64_t> first, std::span<const int64_t> last,
               std::span<const int64_t> streams, const ClusterSettings& settings, const BatchSettings& batches,
               const Cancel& cancel, std::span<int32_t> cluster) const {
        std::vector<int64_t> shared, large, others;
        for (const int64_t u : largest_first(first, last)) {
            const int64_t n_labels = last[u] - first[u];
            const bool in_batches = n_labels > batches.most * settings.n_clusters;
            (!in_batches ? others : n_labels > max_stored ? shared : large).push_back(u);
        }
        const auto run = [&](BatchClustering& clustering, int64_t u) {
            clustering.run(slice(labels, first[u], last[u]), Random(settings.seed, streams[u]),
                           slice(cluster, first[u], last[u]));
        };
        // Threads share the labels of the largest nodes, one after the other, and take the others whole.
        if (!shared.empty()) {
            BatchClustering clustering(*vectors_, settings.n_clusters, batches, threads_, cancel);
            for (const int64_t u : shared)
                if (!cancel) run(clustering, u);
        }
        std::vector<std::unique_ptr<BatchClustering>> clusterings(threads_);
        parallel_for(std::ssize(large), threads_, [&](int64_t k, int worker) {
            if (cancel) return;
            auto& own = clusterings[worker];
            if (!own) own = std::make_unique<BatchClustering>(*vectors_, settings.n_clusters, batches, 1, cancel);
            run(*own, large[k]);
        });
        std::vector<std::unique_ptr<Space>> spaces(threads_);
        parallel_for(std::ssize(others), threads_, [&](int64_t k, int worker) {
            if (cancel) return;
            if (!spaces[worker]) spaces[worker] = std::make_unique<Space>();
            const int64_t u = others[k];
            cluster_node(slice(labels, first[u], last[u]), Random(settings.seed, streams[u]), settings, *spaces[worker],
                         cancel, slice(cluster, first[u], last[u]));
        });
    }

    RowBuffer rows(std::span<const int32_t> labels) const {
        RoughVectors::Workspace space;
        RowBuffer rows;
        make_rows(labels, space, rows);
        return rows;
    }

  private:
    struct Space {
        RoughVectors::Workspace vectors;
        RowBuffer rows;
        ClusteringSpace clustering{n_slots};
    };

    void make_rows(std::span<const int32_t> labels, RoughVectors::Workspace& space, RowBuffer& rows) const {
        rows.clear();
        vectors_->each(labels, {}, 0, std::ssize(labels), space, [&](int64_t, std::span<const Match> vector) {
            for (const auto& [slot, value] : vector) {
                rows.index.push_back(slot);
                rows.value.push_back(value);
            }
            rows.end_row();
        });
    }

    // K-means of all labels of a node.
    void cluster_node(std::span<const int32_t> labels, Random random, const ClusterSettings& settings, Space& space,
                      const Cancel& cancel, std::span<int32_t> cluster) const {
        make_rows(labels, space.vectors, space.rows);
        std::vector<int32_t> own(labels.size());
        std::iota(own.begin(), own.end(), 0);
        NodeClustering(space.rows.view(n_slots), own, settings, random, space.clustering, 1, cancel)
            .run(cluster, [](double) {});
    }

    const int threads_;
    std::unique_ptr<RoughVectors> vectors_;
};

}  // namespace

void bind_rough_clusters(nb::module_& m) {
    nb::class_<RoughClusters>(m, "RoughClusters", "Rough label vectors, and clusters of them.")
        .def(
            "__init__",
            [](RoughClusters* self, const DataHandle& data, int64_t n_instances, int64_t n_row_entries,
               int64_t n_entries, uint64_t seed, int threads, float scale) {
                require(threads >= 1 && n_instances >= 1 && n_row_entries >= 1 && n_entries >= n_row_entries,
                        "threads, n_instances and n_row_entries must be at least 1, n_entries at least n_row_entries");
                require(scale > 0 && std::isfinite(scale), "scale must be positive and finite");
                new (self) RoughClusters(data, {n_instances, n_row_entries, n_entries, scale, seed}, threads);
            },
            "data"_a, "n_instances"_a, "n_row_entries"_a, "n_entries"_a, "seed"_a, "threads"_a, "scale"_a = 1.0f,
            nb::keep_alive<1, 2>(),
            "Label vectors by at most n_instances instances of each label, whose values are multiplied by scale. Columns "
            "are slots that features are hashed to. An entry of an instance is left out if its square is below a quarter "
            "of the mean of n_row_entries equal ones, and of a vector, of n_entries; at most twice as many are kept.")
        .def(
            "vectors",
            [](const RoughClusters& self, In<int32_t> labels) {
                RowBuffer rows;
                {
                    nb::gil_scoped_release no_gil;
                    check_range(span_of(labels), self.vectors().n_labels(), "labels");
                    rows = self.rows(span_of(labels));
                }
                return nb::make_tuple(to_numpy(std::move(rows.ptr)), to_numpy(std::move(rows.index)),
                                      to_numpy(std::move(rows.value)));
            },
            "labels"_a.noconvert(), "Return the vectors of labels, for tests.")
        .def(
            "split",
            [](const RoughClusters& self, In<int32_t> labels, In<int64_t> first, In<int64_t> last, In<int64_t> streams,
               int64_t clusters, int max_iterations, double least_moved, uint64_t seed,
               std::tuple<int64_t, int64_t, int64_t, double, double> batches) {
                const auto [n_batches, most, per_cluster, share, last_batch] = batches;
                require(clusters >= 2 && max_iterations >= 1, "max_iterations must be at least 1, clusters at least 2");
                require(n_batches >= 1 && most >= 4 && per_cluster >= 1 && share >= 0 && share <= 0.25 &&
                            last_batch >= 1 && last_batch <= 4,
                        "batches must be at least 1, for at least 4 labels per cluster, of at least 1 per cluster, "
                        "the share from 0 to 0.25, and the last batch 1 to 4 times as large");
                std::vector<int32_t> cluster(labels.size(), -1);
                {
                    nb::gil_scoped_release no_gil;
                    check_range(span_of(labels), self.vectors().n_labels(), "labels");
                    const auto starts = span_of(first), ends = span_of(last);
                    require(starts.size() == ends.size() && starts.size() == streams.size(),
                            "first, last and streams must have one entry per node");
                    for (size_t u = 0; u < starts.size(); ++u)
                        require(
                            starts[u] >= 0 && ends[u] - starts[u] >= clusters && ends[u] <= std::ssize(span_of(labels)),
                            "first and last must be a range of labels for each node, at least as many as clusters");
                    const ClusterSettings settings{clusters, max_iterations, 1.0, least_moved, seed};
                    run_interruptible([&](const Cancel& cancel) {
                        self.split(span_of(labels), starts, ends, span_of(streams), settings,
                                   {n_batches, most, per_cluster, share, last_batch}, cancel, cluster);
                    });
                }
                return to_numpy(std::move(cluster));
            },
            "labels"_a.noconvert(), "first"_a.noconvert(), "last"_a.noconvert(), "streams"_a.noconvert(), "clusters"_a,
            "max_iterations"_a, "least_moved"_a, "seed"_a, "batches"_a,
            "Return the cluster of each label in labels[first[u]:last[u]] for every node u; -1 for other labels.\n"
            "batches: (number; labels per cluster up to which a node is clustered by K-means instead; of a batch, at "
            "least, the labels per cluster and the share of the node's labels; how many times as large the last is).");
}

}  // namespace labeltree
