// Rough label vectors: short approximations of label vectors, for the approximate size of a model.
#include <bit>
#include <cmath>

#include "handles.h"
#include "random.h"

namespace labeltree {
namespace {

constexpr int64_t label_chunk = 64;      // labels that a thread takes at a time
constexpr int64_t instance_chunk = 256;  // the same for instances
constexpr size_t prefetch_rows = 6;      // instances that are read ahead

struct Entry {
    int32_t column;
    float value;
};

// Keeps the largest entries, by exponent and three bits of the significand; of equal ones, the first.
class Largest {
  public:
    // Moves them to the front, in their order, and returns their number.
    int64_t keep(std::span<Entry> entries, int64_t most) {
        const int64_t n_entries = std::ssize(entries);
        if (n_entries <= most) return n_entries;
        uint32_t bin = 0;
        for (const Entry& entry : entries) {
            ++n_in_[bin_of(entry)];
            bin = std::max(bin, bin_of(entry));
        }
        int64_t n_left = most;  // of the last bin that is used
        while (n_in_[bin] < n_left) n_left -= n_in_[bin--];
        for (const Entry& entry : entries) n_in_[bin_of(entry)] = 0;
        int64_t end = 0;
        for (const Entry entry : entries) {  // branches would be mispredicted
            const uint32_t own = bin_of(entry);
            entries[end] = entry;
            end += (own > bin) | ((own == bin) & (n_left > 0));
            n_left -= own == bin;
        }
        return end;
    }

  private:
    static uint32_t bin_of(const Entry& entry) { return std::bit_cast<uint32_t>(std::abs(entry.value)) >> 20; }

    std::vector<int32_t> n_in_ = std::vector<int32_t>(1 << 11);
};

// A label is described by a few of its instances, evenly spaced from a random start. Only the largest entries of
// instances are used, and only those of their sum are kept.
class RoughVectors {
  public:
    RoughVectors(const TrainingData& data, int64_t n_instances, int64_t n_row_entries, int64_t n_entries, uint64_t seed,
                 int threads, const Cancel& cancel)
        : data_(data), n_instances_(n_instances), n_row_entries_(n_row_entries), n_entries_(n_entries), seed_(seed),
          threads_(threads), cancel_(cancel) {}

    RowBuffer make() {
        shorten_instances();
        const int64_t n_labels = data_.n_labels(), n_chunks = (n_labels + label_chunk - 1) / label_chunk;
        std::vector<RowBuffer> parts(n_chunks);
        std::vector<Workspace> spaces(threads_);
        parallel_for(n_chunks, threads_, [&](int64_t part, int worker) {
            Workspace& space = spaces[worker];
            space.sum.resize(data_.n_features());
            const int64_t first = part * label_chunk, last = std::min(n_labels, first + label_chunk);
            parts[part].index.reserve(label_chunk * std::min<int64_t>(n_entries_, 64));
            parts[part].value.reserve(label_chunk * std::min<int64_t>(n_entries_, 64));
            for (int64_t j = first; j < last && !cancel_; ++j) append(static_cast<int32_t>(j), space, parts[part]);
        });
        return joined(parts);
    }

  private:
    struct Workspace {
        std::vector<float> sum;  // zero before and after a label
        std::vector<int32_t> instances;
        std::vector<Entry> entries;
        Largest largest;
    };

    // Calls visit(i) for the chosen instances of a label.
    template <class Visit>
    void each_instance(int32_t label, Visit&& visit) const {
        const auto instances = data_.label_instances.columns(label);
        const int64_t n = std::ssize(instances), n_chosen = std::min(n, n_instances_);
        const double start = n > n_chosen ? Random(seed_, label).fraction() : 0;
        for (int64_t k = 0; k < n_chosen; ++k) {
            const double place = (static_cast<double>(k) + start) * static_cast<double>(n);
            visit(instances[std::min(n - 1, static_cast<int64_t>(place / static_cast<double>(n_chosen)))]);
        }
    }

    // Copies the chosen instances that have too many entries.
    void shorten_instances() {
        std::vector<bool> chosen(data_.n_instances());
        for (int32_t j = 0; j < data_.n_labels(); ++j) each_instance(j, [&](int32_t i) { chosen[i] = true; });
        place_.assign(data_.n_instances(), -1);
        std::vector<int32_t> rows;
        for (int32_t i = 0; i < data_.n_instances(); ++i)
            if (chosen[i] && data_.x.n_entries(i) > n_row_entries_) {
                place_[i] = static_cast<int32_t>(rows.size());
                rows.push_back(i);
            }
        short_.resize(rows.size() * n_row_entries_);
        std::vector<Workspace> spaces(threads_);
        const int64_t n_rows = std::ssize(rows);
        parallel_for((n_rows + instance_chunk - 1) / instance_chunk, threads_, [&](int64_t part, int worker) {
            auto& [sum, instances, entries, largest] = spaces[worker];
            const int64_t first = part * instance_chunk, last = std::min(n_rows, first + instance_chunk);
            for (int64_t r = first; r < last && !cancel_; ++r) {
                const auto columns = data_.x.columns(rows[r]);
                const auto values = data_.x.values(rows[r]);
                entries.resize(columns.size());
                for (size_t k = 0; k < columns.size(); ++k) entries[k] = {columns[k], values[k]};
                largest.keep(entries, n_row_entries_);
                std::copy_n(entries.begin(), n_row_entries_, short_.begin() + r * n_row_entries_);
            }
        });
    }

    void prefetch(int32_t instance) const {
        const int64_t first = data_.x.ptr[instance];
        if (const int32_t r = place_[instance]; r >= 0) {
            __builtin_prefetch(short_.data() + r * n_row_entries_);
        } else {
            __builtin_prefetch(data_.x.index.data() + first);
            __builtin_prefetch(data_.x.value.data() + first);
        }
    }

    template <class Visit>
    void each_entry(int32_t instance, Visit&& visit) const {
        if (const int32_t r = place_[instance]; r >= 0) {
            for (int64_t e = r * n_row_entries_; e < (r + 1) * n_row_entries_; ++e)
                visit(short_[e].column, short_[e].value);
        } else {
            for (int64_t e = data_.x.ptr[instance]; e < data_.x.ptr[instance + 1]; ++e)
                visit(data_.x.index[e], data_.x.value[e]);
        }
    }

    void append(int32_t label, Workspace& space, RowBuffer& out) const {
        auto& [sum, instances, buffer, largest] = space;
        instances.clear();
        each_instance(label, [&](int32_t i) {
            instances.push_back(i);
            __builtin_prefetch(data_.x.ptr.data() + i);
            __builtin_prefetch(place_.data() + i);
        });
        size_t end = 0;
        for (size_t k = 0; k < instances.size(); ++k) {
            if (k + prefetch_rows < instances.size()) prefetch(instances[k + prefetch_rows]);
            const size_t most = end + std::min(n_row_entries_, data_.x.n_entries(instances[k]));
            if (buffer.size() < most) buffer.resize(2 * most);
            each_entry(instances[k], [&](int32_t f, float x) {
                const float before = sum[f];
                buffer[end].column = f;
                end += before == 0;
                sum[f] = before + x;
            });
        }
        std::span<Entry> entries(buffer.data(), end);
        // A feature whose sum was zero in between is listed again, with zero.
        for (Entry& entry : entries) entry.value = std::exchange(sum[entry.column], 0.0f);
        entries = entries.first(largest.keep(entries, n_entries_));
        double square = 0;
        for (const Entry& entry : entries) square += static_cast<double>(entry.value) * entry.value;
        const auto rate = static_cast<float>(square > 0 ? 1 / std::sqrt(square) : 0);
        for (const Entry& entry : entries) {
            out.index.push_back(entry.column);
            out.value.push_back(rate * entry.value);
        }
        out.end_row();
    }

    static RowBuffer joined(const std::vector<RowBuffer>& parts) {
        RowBuffer all;
        size_t n_rows = 1, n_entries = 0;
        for (const RowBuffer& part : parts) {
            n_rows += part.ptr.size() - 1;
            n_entries += part.index.size();
        }
        all.ptr.reserve(n_rows);
        all.index.reserve(n_entries);
        all.value.reserve(n_entries);
        for (const RowBuffer& part : parts) {
            for (size_t k = 1; k < part.ptr.size(); ++k) all.ptr.push_back(std::ssize(all.index) + part.ptr[k]);
            all.index.insert(all.index.end(), part.index.begin(), part.index.end());
            all.value.insert(all.value.end(), part.value.begin(), part.value.end());
        }
        return all;
    }

    const TrainingData data_;
    const int64_t n_instances_, n_row_entries_, n_entries_;
    const uint64_t seed_;
    const int threads_;
    const Cancel& cancel_;
    std::vector<int32_t> place_;  // of each instance in the following; -1 if it is used as it is
    std::vector<Entry> short_;    // n_row_entries_ for each
};

}  // namespace

void bind_rough_vectors(nb::module_& m) {
    m.def(
        "rough_vectors",
        [](const DataHandle& data, int64_t n_instances, int64_t n_row_entries, int64_t n_entries, uint64_t seed,
           int threads) {
            require(threads >= 1 && n_instances >= 1 && n_row_entries >= 1 && n_entries >= 1,
                    "threads, n_instances, n_row_entries and n_entries must be at least 1");
            RowBuffer rows;
            {
                nb::gil_scoped_release no_gil;
                run_interruptible([&](const Cancel& cancel) {
                    rows =
                        RoughVectors(data.view(), n_instances, n_row_entries, n_entries, seed, threads, cancel).make();
                });
            }
            return nb::make_tuple(to_numpy(std::move(rows.ptr)), to_numpy(std::move(rows.index)),
                                  to_numpy(std::move(rows.value)));
        },
        "data"_a, "n_instances"_a, "n_row_entries"_a, "n_entries"_a, "seed"_a, "threads"_a,
        "Return approximate label vectors with at most n_entries entries, by at most n_instances instances of each "
        "label with n_row_entries entries.");
}

}  // namespace labeltree
