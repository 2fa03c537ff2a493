// Rough clusters: assigns many labels to clusters that were found for a few of them, for the approximate size of a
// model.
//
// The product of a label vector with a centroid is the sum of those of the label's instances. Instances have fewer
// entries than the vectors of all labels together, so products are computed once per instance, and no label vector is
// stored.
#include <cmath>

#include "handles.h"
#include "likeness.h"
#include "memory.h"

namespace labeltree {
namespace {

constexpr int64_t row_chunk = 64;  // instances or labels that a thread takes at a time

class RoughClustering {
  public:
    RoughClustering(const TrainingData& data, int64_t n_clusters, int threads, const Cancel& cancel)
        : data_(data), n_clusters_(n_clusters), threads_(threads), cancel_(cancel), width_((n_clusters + 7) / 8 * 8),
          stride_(packed_words(width_)), rate_of_(data.n_labels()), rate_(width_), half_square_(width_, HUGE_VALF),
          cluster_(data.n_labels(), -1) {}

    // Labels are taken in the given order; the first ones have clusters. In each round, centroids are those of the
    // labels so far, and the labels up to its end are assigned to them.
    std::vector<int32_t> run(std::span<const int32_t> order, std::span<const int32_t> first_clusters,
                             std::span<const int64_t> ends) {
        find_lengths();
        sums_.reserve(data_.n_features() * n_clusters_);
        packed_.reserve(data_.n_features() * stride_);
        products_.reserve(data_.n_instances() * width_);
        for (size_t k = 0; k < first_clusters.size(); ++k) cluster_[order[k]] = first_clusters[k];
        int64_t n_before = std::ssize(first_clusters);
        for (const int64_t end : ends) {
            if (cancel_) break;
            add_up(slice(order, 0, n_before));
            assign(slice(order, 0, end));
            n_before = end;
        }
        return std::move(cluster_);
    }

  private:
    // One over the length of the sum of each label's instances.
    void find_lengths() {
        std::vector<std::vector<float>> spaces(threads_);
        const int64_t n_labels = data_.n_labels();
        parallel_for((n_labels + row_chunk - 1) / row_chunk, threads_, [&](int64_t part, int worker) {
            std::vector<float>& sum = spaces[worker];
            if (sum.empty()) sum.assign(data_.n_features(), 0.0f);
            for (int64_t j = part * row_chunk; j < std::min(n_labels, (part + 1) * row_chunk) && !cancel_; ++j) {
                double square = 0;
                each_entry(j, [&](int32_t f, float x) {
                    square += (2.0 * sum[f] + x) * x;
                    sum[f] += x;
                });
                each_entry(j, [&](int32_t f, float) { sum[f] = 0; });
                rate_of_[j] = square > 0 ? static_cast<float>(1 / std::sqrt(square)) : 0.0f;
            }
        });
    }

    template <class Visit>
    void each_entry(int64_t label, Visit&& visit) const {
        const SparseRows& x = data_.x;
        for (const int32_t i : data_.label_instances.columns(label))
            for (int64_t e = x.ptr[i]; e < x.ptr[i + 1]; ++e) visit(x.index[e], x.value[e]);
    }

    std::vector<int32_t> rows_of(std::span<const int32_t> labels) const {
        std::vector<bool> needed(data_.n_instances());
        for (const int32_t j : labels)
            for (const int32_t i : data_.label_instances.columns(j)) needed[i] = true;
        std::vector<int32_t> rows;
        for (int64_t i = 0; i < data_.n_instances(); ++i)
            if (needed[i]) rows.push_back(static_cast<int32_t>(i));
        return rows;
    }

    // The sums of the vectors of these labels by cluster, and their squared lengths. A thread owns whole clusters and
    // adds their labels in order, so the sums do not depend on the threads.
    void add_up(std::span<const int32_t> labels) {
        std::vector<std::vector<int32_t>> members(n_clusters_);
        for (const int32_t j : labels) members[cluster_[j]].push_back(j);
        const int64_t n_features = data_.n_features();
        parallel_for(n_clusters_, threads_, [&](int64_t c, int) {
            float* sum = sums_.data() + c * n_features;
            std::fill_n(sum, n_features, 0.0f);
            for (const int32_t j : members[c]) {
                const float rate = rate_of_[j];
                each_entry(j, [&](int32_t f, float x) { sum[f] += rate * x; });
            }
            double square = 0;
            for (int64_t f = 0; f < n_features; ++f) square += static_cast<double>(sum[f]) * sum[f];
            set_mean(c, static_cast<double>(members[c].size()), square);
        });
        pack();
    }

    // Centroids are compared with other labels than those that they were made of: the squared length of a cluster's
    // mean is estimated by the products of different labels, without those of labels with themselves.
    void set_mean(int64_t c, double n, double square) {
        square = n > 1 ? std::max(0.0, square - n) / (n * (n - 1)) : square;
        rate_[c] = n > 0 ? static_cast<float>(1 / n) : 0.0f;
        half_square_[c] = n > 0 ? static_cast<float>(square / 2) : HUGE_VALF;
    }

    // Copies the sums as bfloat16, with the values of one feature for all clusters adjacent.
    void pack() {
        const int64_t n_features = data_.n_features();
        parallel_ranges(n_features, pack_chunk, threads_, [&](int64_t first, int64_t last) {
            std::vector<float> rows((last - first) * width_);
            for (int64_t c = 0; c < n_clusters_; ++c)
                for (int64_t f = first; f < last; ++f)
                    rows[(f - first) * width_ + c] = sums_.data()[c * n_features + f];
            for (int64_t f = first; f < last; ++f)
                pack_bfloat16(rows.data() + (f - first) * width_, width_, packed_.data() + f * stride_);
        });
    }

    void assign(std::span<const int32_t> labels) {
        const SparseRows& x = data_.x;
        const std::vector<int32_t> rows = rows_of(labels);
        float* products = products_.data();
        parallel_ranges(std::ssize(rows), row_chunk, threads_, [&](int64_t first, int64_t last) {
            if (cancel_) return;
            std::vector<Match> entries;
            for (int64_t k = first; k < last; ++k) {
                const auto columns = x.columns(rows[k]);
                const auto values = x.values(rows[k]);
                if (entries.size() < columns.size() + prefetch_ahead) entries.resize(columns.size() + prefetch_ahead);
                std::fill_n(entries.begin() + columns.size(), prefetch_ahead, Match{0, 0});
                for (size_t e = 0; e < columns.size(); ++e) entries[e] = {columns[e], values[e]};
                likeness(packed_.data(), width_, width_, {entries.data(), columns.size()}, products + rows[k] * width_);
            }
        });
        parallel_ranges(std::ssize(labels), row_chunk, threads_, [&](int64_t first, int64_t last) {
            std::vector<float> sum(width_);
            for (int64_t k = first; k < last && !cancel_; ++k) {
                const int32_t j = labels[k];
                std::fill(sum.begin(), sum.end(), 0.0f);
                for (const int32_t i : data_.label_instances.columns(j))
                    for (int64_t c = 0; c < width_; ++c) sum[c] += products[i * width_ + c];
                for (float& value : sum) value *= rate_of_[j];
                const TopTwo top = nearness(sum, rate_.data(), half_square_.data());
                const auto best = static_cast<int32_t>(std::find(sum.begin(), sum.end(), top.most) - sum.begin());
                cluster_[j] = best < n_clusters_ ? best : 0;
            }
        });
    }

    const TrainingData data_;
    const int64_t n_clusters_;
    const int threads_;
    const Cancel& cancel_;
    const int64_t width_;         // clusters, rounded up to whole vectors
    const int64_t stride_;        // words of a row of packed_
    std::vector<float> rate_of_;  // of each label
    Buffer<float> sums_;          // of the vectors of each cluster
    Buffer<uint32_t> packed_;     // the same by features, as bfloat16
    Buffer<float> products_;      // of each instance with the sums
    std::vector<float> rate_, half_square_;
    std::vector<int32_t> cluster_;
};

}  // namespace

void bind_rough_clusters(nb::module_& m) {
    m.def(
        "rough_clusters",
        [](const DataHandle& data, In<int32_t> order, In<int32_t> first_clusters, In<int64_t> ends, int64_t clusters,
           int threads) {
            require(threads >= 1 && clusters >= 2, "threads must be at least 1, clusters at least 2");
            const int64_t n_labels = data.view().n_labels();
            std::vector<int32_t> cluster;
            {
                nb::gil_scoped_release no_gil;
                check_range(span_of(order), n_labels, "order");
                check_range(span_of(first_clusters), clusters, "first_clusters");
                int64_t before = std::ssize(span_of(first_clusters));
                require(before <= std::ssize(span_of(order)), "first_clusters is longer than order");
                for (const int64_t end : span_of(ends)) {
                    require(end >= before && end <= std::ssize(span_of(order)),
                            "ends must not decrease, from the length of first_clusters to that of order");
                    before = end;
                }
                run_interruptible([&](const Cancel& cancel) {
                    cluster = RoughClustering(data.view(), clusters, threads, cancel)
                                  .run(span_of(order), span_of(first_clusters), span_of(ends));
                });
            }
            return to_numpy(std::move(cluster));
        },
        "data"_a, "order"_a.noconvert(), "first_clusters"_a.noconvert(), "ends"_a.noconvert(), "clusters"_a,
        "threads"_a,
        "Return the cluster of each label, given those of the first in an order; -1 for labels after the last end.");
}

}  // namespace labeltree
