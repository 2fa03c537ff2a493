// K-means of the label vectors of one node: Lloyd's iterations, starting from greedy k-means++ or random labels.
//
// Euclidean, as in the paper. Centroids of length 1 (spherical K-means) gave the same P@1 to P@5 within the variation
// between seeds, and a model of debian-depends that was larger by a fifth.
#pragma once

#include <cmath>
#include <numeric>

#include "cluster/centroid_products.h"
#include "cluster/node_vectors.h"
#include "cluster/seeding.h"
#include "common/memory.h"

namespace labeltree {

constexpr int64_t column_chunk = 16;     // clusters that a thread updates at a time: one cache line
constexpr int64_t large_sums = 1 << 20;  // from this size on, the sums are also kept as bfloat16

struct ClusterSettings {
    int64_t n_clusters;
    int max_iterations;
    double main_share;   // all but the last use the first entries of a vector, with this share of its squared length
    double least_moved;  // stop when a smaller share of the labels moves
    uint64_t seed;
};

// Up to this many labels, greedy k-means++ chooses the first centroids; their distances take less time than a few
// iterations. Larger nodes start from random labels: k-means++ at the root lowered P@1 of debian-depends by 0.3 points
// (four seeds) and raised that of yso-finna-en by as much (one seed). src/labeltree/trees/kmeans.py counts the memory
// of the distances.
constexpr int64_t seeded_per_cluster = 10, max_seeded = 4096;
// The part of the squared length of a vector that may be missing, as a share of the mean squared distance from the
// mean.
constexpr double missing_share = 0.25;
constexpr float rounding = 1e-5f;  // the squared distance of equal vectors is below this

// Scratch memory of one thread, kept from node to node.
struct ClusteringSpace {
    explicit ClusteringSpace(int64_t n_features) : vectors(n_features) {}
    VectorSpace vectors;
    Buffer<float> sums;
    Buffer<uint32_t> packed;
    Buffer<float> distances;
};

// Centroids are kept as sums over their members, feature-major: the values of one feature for all clusters are
// adjacent. Large sums are copied as bfloat16, and labels compared with the copy: reading the centroids takes most of
// the time.
//
// After the first iterations, more and more clusters keep their members and so their centroids. The copy begins with
// the clusters that have changed, and a label is compared with these only, where this is enough to find the nearest of
// all: where the label's own cluster is unchanged, or one of the changed ones is nearer than any of the others was.
class NodeClustering {
  public:
    NodeClustering(const SparseRows& vectors, std::span<const int32_t> labels, const ClusterSettings& settings,
                   Random random, ClusteringSpace& space, int threads, const Cancel& cancel)
        : vectors_(vectors, labels, space.vectors, threads), n_labels_(std::ssize(labels)), settings_(settings),
          random_(random), threads_(threads), cancel_(cancel), width_((settings.n_clusters + 7) / 8 * 8),
          stride_(packed_words(width_)), max_features_(vectors_.max_features()), space_(space),
          n_members_(settings.n_clusters), squares_(settings.n_clusters), order_(width_), place_(width_),
          n_compared_(width_), rate_(width_), half_square_(width_) {
        std::iota(order_.begin(), order_.end(), 0);
    }

    // Writes the cluster of each label. Calls report(share) with the share of the iterations that is done, at most.
    template <class Report>
    void run(std::span<int32_t> cluster, Report&& report) {
        std::fill(cluster.begin(), cluster.end(), -1);
        int iteration = 0;
        if (settings_.main_share < 1 && settings_.max_iterations > 1 && main_parts_suffice()) {
            iteration = settings_.max_iterations - 1;
            reserve();
            start();
            iterate(cluster, 0, iteration, report);
            vectors_.use_whole();
            if (!cancel_) {  // otherwise labels may have no cluster yet
                reserve();
                add_up(cluster);
            }
        } else {
            reserve();
            start();
        }
        iterate(cluster, iteration, settings_.max_iterations, report);
        vectors_.forget_features();
    }

  private:
    // Uses the main parts of the vectors, if what is missing matters little compared with how much they differ.
    bool main_parts_suffice() {
        vectors_.use_main_parts(settings_.main_share);
        vectors_.number_features();
        vectors_.copy();
        if (1 - settings_.main_share <= missing_share * vectors_.spread()) return true;
        vectors_.use_whole();
        return false;
    }

    // Numbers the features in use, and reserves memory for their sums.
    void reserve() {
        n_features_ = vectors_.number_features();
        // Enough for whole vectors, too: memory that is not used yet takes no space.
        sums_ = space_.sums.reserve(max_features_ * width_);
        if (n_features_ * width_ >= large_sums) packed_ = space_.packed.reserve(max_features_ * stride_);
        clear_sums();
        top_.resize(n_labels_);
    }

    void clear_sums() {
        parallel_ranges(n_features_, pack_chunk, threads_, [&](int64_t first, int64_t last) {
            std::fill(sums_ + first * width_, sums_ + last * width_, 0.0f);
        });
    }

    // Iterations from `first` on, up to `last` or until few labels move.
    template <class Report>
    void iterate(std::span<int32_t> cluster, int first, int last, Report&& report) {
        std::vector<int32_t> next(n_labels_);
        for (int iteration = first; iteration < last && !cancel_; ++iteration) {
            assign(cluster, next);
            int64_t n_moved = 0;
            for (int64_t i = 0; i < n_labels_; ++i) n_moved += next[i] != cluster[i];
            const bool done = static_cast<double>(n_moved) < settings_.least_moved * static_cast<double>(n_labels_) ||
                              iteration + 1 == last;
            if (!done) update(cluster, next, n_moved);
            std::copy(next.begin(), next.end(), cluster.begin());
            if (done) break;
            report(static_cast<double>(iteration + 1) / settings_.max_iterations);
        }
    }

    // Takes the means of these clusters; the sums are zero.
    void add_up(std::span<const int32_t> cluster) {
        std::fill(squares_.begin(), squares_.end(), 0.0);
        add_labels([&](int64_t i, auto&& mine) {
            if (mine(cluster[i])) add(i, cluster[i], 1.0f);
        });
        count_members(cluster);
        n_compared_ = width_;
        std::iota(order_.begin(), order_.end(), 0);
        is_in_order_ = true;
        take_means();
    }

    void start() {
        const bool seeded = n_labels_ <= std::min(seeded_per_cluster * settings_.n_clusters, max_seeded);
        const std::vector<int32_t> chosen =
            seeded ? Seeding(measure(), random_).choose(settings_.n_clusters) : random_labels();
        for (int64_t c = 0; c < settings_.n_clusters; ++c) {
            add(chosen[c], c, 1.0f);
            n_members_[c] = 1;
        }
        take_means();
    }

    std::vector<int32_t> random_labels() {
        std::vector<int32_t> order(n_labels_);
        std::iota(order.begin(), order.end(), 0);
        for (int64_t c = 0; c < settings_.n_clusters; ++c)
            std::swap(order[c], order[c + random_.below(static_cast<uint32_t>(n_labels_ - c))]);
        order.resize(settings_.n_clusters);
        return order;
    }

    // The squared distances between all labels. As many of them as sums_ has columns are multiplied with the others at
    // a time; sums_ is zero before and after.
    Distances measure() {
        const int64_t n = n_labels_;
        float* products = space_.distances.zeros(n * n);
        for (int64_t first = 0; first < n && !cancel_; first += width_) {
            const int64_t last = std::min(n, first + width_);
            set_columns(first, last, 1.0f);
            parallel_ranges(n - first, label_chunk, threads_, [&](int64_t begin, int64_t end) {
                std::vector<Match> entries;
                std::vector<float> row(width_);
                for (int64_t i = first + begin; i < first + end; ++i) {
                    centroid_products(sums_, width_, vectors_.matches(i, entries), row.data());
                    std::copy_n(row.begin(), last - first, products + i * n + first);
                }
            });
            set_columns(first, last, 0.0f);
        }
        std::vector<float> square(n);
        for (int64_t i = 0; i < n; ++i) square[i] = products[i * n + i];
        for (int64_t i = 0; i < n; ++i)
            for (int64_t k = 0; k <= i; ++k) {
                const float distance = square[i] + square[k] - 2 * products[i * n + k];
                products[i * n + k] = products[k * n + i] = distance > rounding ? distance : 0.0f;
            }
        return {{products, static_cast<size_t>(n * n)}, n};
    }

    // Writes label vectors into the first columns of sums_, or zeros.
    void set_columns(int64_t first, int64_t last, float factor) {
        for (int64_t i = first; i < last; ++i)
            vectors_.each_entry(i, [&](int64_t row, float value) { sums_[row * width_ + i - first] = factor * value; });
    }

    void add(int64_t i, int64_t cluster, float sign) {
        double gained = 0;
        vectors_.each_entry(i, [&](int64_t row, float value) {
            float& sum = sums_[row * width_ + cluster];
            const double before = sum;
            sum += sign * value;
            gained += (sum - before) * (sum + before);
        });
        squares_[cluster] += gained;
    }

    // Calls visit(i, mine) for every label, where mine(c) is whether to add to cluster c. A thread owns whole clusters
    // and adds their labels in order, so the sums do not depend on the threads.
    template <class Visit>
    void add_labels(Visit&& visit) {
        parallel_ranges(settings_.n_clusters, column_chunk, threads_, [&](int64_t first, int64_t last) {
            for (int64_t i = 0; i < n_labels_; ++i) visit(i, [=](int32_t c) { return c >= first && c < last; });
        });
    }

    void count_members(std::span<const int32_t> cluster) {
        std::fill(n_members_.begin(), n_members_.end(), 0);
        for (const int32_t c : cluster) ++n_members_[c];
    }

    // A label goes to the cluster with the largest v'mean - |mean|^2 / 2. An empty cluster stays empty.
    void take_means() {
        for (int64_t k = 0; k < width_; ++k) {
            const int64_t c = order_[k];
            const bool used = c < settings_.n_clusters && n_members_[c] > 0;
            rate_[k] = used ? 1.0f / static_cast<float>(n_members_[c]) : 0.0f;
            half_square_[k] = used ? static_cast<float>(squares_[c] / 2) * rate_[k] * rate_[k] : HUGE_VALF;
        }
        if (!packed_) return;
        parallel_ranges(n_features_, pack_chunk, threads_, [&](int64_t first, int64_t last) {
            for (int64_t f = first; f < last; ++f) {
                const float* row = sums_ + f * width_;
                if (is_in_order_ && n_compared_ == width_)
                    pack_bfloat16(row, width_, packed_ + f * stride_);
                else
                    pack_bfloat16(row, outdated_, packed_ + f * stride_);
            }
        });
    }

    // Finds the clusters that gain or lose a label, and brings them to the front of the order. With those that follow
    // they fill whole vectors. New sums round differently, so all of their clusters count as changed.
    void find_changed(std::span<const int32_t> before, std::span<const int32_t> after, bool from_scratch) {
        std::vector<bool> changed(width_, from_scratch);
        for (int64_t i = 0; i < n_labels_; ++i) {
            if (before[i] == after[i]) continue;
            changed[after[i]] = true;
            if (before[i] >= 0) changed[before[i]] = true;
        }
        const int64_t n_changed = std::count(changed.begin(), changed.end(), true);
        n_compared_ = (n_changed + 7) / 8 * 8;
        if (!packed_ || n_compared_ * 4 > width_ * 3) n_compared_ = width_;  // few would be left out
        if (n_compared_ < width_)
            for (int64_t k = 0, from = n_changed; k < n_changed; ++k) {
                if (changed[order_[k]]) continue;
                while (!changed[order_[from]]) ++from;
                std::swap(order_[k], order_[from]);
                changed[order_[from++]] = true;  // it has a new place
                is_in_order_ = false;
            }
        outdated_.clear();
        for (int64_t k = 0; k < width_; ++k) {
            place_[order_[k]] = static_cast<int32_t>(k);
            if (changed[order_[k]]) outdated_.emplace_back(order_[k], k);
        }
    }

    void assign(std::span<const int32_t> before, std::span<int32_t> next) {
        parallel_ranges(n_labels_, label_chunk, threads_, [&](int64_t first, int64_t last) {
            if (cancel_) return;
            std::vector<Match> entries;
            std::vector<float> products(width_);
            for (int64_t i = first; i < last; ++i) {
                const auto of_label = vectors_.matches(i, entries);
                next[i] = n_compared_ < width_ ? nearest_changed(of_label, before[i], products, top_[i]) : -1;
                if (next[i] < 0) next[i] = nearest(of_label, products, top_[i]);
            }
        });
    }

    // Returns the nearest cluster, and sets how near it is and a bound for all others.
    int32_t nearest(std::span<const Match> of_label, std::vector<float>& products, TopTwo& top) const {
        if (packed_)
            centroid_products(packed_, width_, width_, of_label, products.data());
        else
            centroid_products(sums_, width_, of_label, products.data());
        top = nearness(products, rate_.data(), half_square_.data());
        return first_of(top.most, products);
    }

    // The same by the clusters that come first in the order, given the last result; -1 if these do not suffice.
    int32_t nearest_changed(std::span<const Match> of_label, int32_t own, std::vector<float>& products,
                            TopTwo& top) const {
        const std::span<float> compared(products.data(), n_compared_);
        centroid_products(packed_, width_, n_compared_, of_label, products.data());
        TopTwo found = nearness(compared, rate_.data(), half_square_.data());
        int32_t best = own;
        if (place_[own] < n_compared_) {
            if (!(found.most > top.next)) return -1;
            best = first_of(found.most, compared);
        } else {
            if (found.most > top.most) best = first_of(found.most, compared);
            if (found.most == top.most) best = std::min(own, first_of(found.most, compared));
            found.add(top.most);
        }
        top = {found.most, std::max(found.next, top.next)};
        return best;
    }

    // The cluster with this nearness; the first of equals.
    int32_t first_of(float most, std::span<const float> found) const {
        int32_t best = static_cast<int32_t>(width_);
        each_equal(found, most, [&](int64_t k) { best = std::min(best, order_[k]); });
        return best < settings_.n_clusters ? best : 0;
    }

    void update(std::span<const int32_t> before, std::span<const int32_t> after, int64_t n_moved) {
        const bool from_scratch = n_moved * 2 > n_labels_;
        if (from_scratch) {
            clear_sums();
            std::fill(squares_.begin(), squares_.end(), 0.0);
        }
        add_labels([&](int64_t i, auto&& mine) {
            if (!from_scratch && before[i] == after[i]) return;
            if (!from_scratch && mine(before[i])) add(i, before[i], -1.0f);
            if (mine(after[i])) add(i, after[i], 1.0f);
        });
        count_members(after);
        find_changed(before, after, from_scratch);
        take_means();
    }

    NodeVectors vectors_;
    const int64_t n_labels_;
    const ClusterSettings& settings_;
    Random random_;
    const int threads_;
    const Cancel& cancel_;
    const int64_t width_;   // clusters, rounded up to whole vectors
    const int64_t stride_;  // words of a row of packed_
    const int64_t max_features_;
    ClusteringSpace& space_;
    int64_t n_features_ = 0;
    float* sums_ = nullptr;
    uint32_t* packed_ = nullptr;  // the sums as bfloat16, or null
    std::vector<int64_t> n_members_;
    std::vector<double> squares_;            // of the lengths of the sums
    std::vector<int32_t> order_, place_;     // of the clusters in rows of packed_, and the inverse
    bool is_in_order_ = true;                // whether no cluster has been moved
    int64_t n_compared_;                     // the first of them, with which labels are compared first
    std::vector<PackedColumn> outdated_;     // to be packed again
    std::vector<float> rate_, half_square_;  // in this order
    std::vector<TopTwo> top_;  // of each label: how near its cluster is, and no other cluster is nearer than the next
};

}  // namespace labeltree
