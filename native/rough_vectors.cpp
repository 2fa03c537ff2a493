// Rough label vectors: short approximations of label vectors, for the approximate size of a model.
#include <bit>
#include <cmath>
#include <memory>
#include <numeric>

#include "handles.h"
#include "memory.h"
#include "random.h"

namespace labeltree {
namespace {

constexpr int64_t label_chunk = 64;      // labels that a thread takes at a time
constexpr int64_t instance_chunk = 256;  // the same for instances
constexpr size_t prefetch_rows = 8;      // instances that are read ahead

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
// instances are used, and only those of their sum are kept. A row has as many entries as it may need; those that it
// does not need are zero, in a column after all features.
class RoughVectors {
  public:
    RoughVectors(const TrainingData& data, int64_t n_instances, int64_t n_row_entries, int64_t n_entries, uint64_t seed,
                 int threads, const Cancel& cancel)
        : data_(data), n_instances_(n_instances), n_row_entries_(n_row_entries), n_entries_(n_entries), seed_(seed),
          threads_(threads), cancel_(cancel) {}

    // Returns where the row of each label begins. Call it first: it also finds the instances to shorten.
    std::vector<int64_t> count() {
        std::vector<int64_t> ptr(data_.n_labels() + 1);
        place_.assign(data_.n_instances(), -1);
        parallel_ranges(data_.n_labels(), label_chunk, threads_, [&](int64_t first, int64_t last) {
            for (int64_t j = first; j < last; ++j) {
                int64_t n_entries = 0;
                each_instance(static_cast<int32_t>(j), [&](int32_t i) {
                    const int64_t n = data_.x.n_entries(i);
                    n_entries += std::min(n, n_row_entries_);
                    if (n > n_row_entries_) __atomic_store_n(&place_[i], 0, __ATOMIC_RELAXED);
                });
                ptr[j + 1] = std::min(n_entries, n_entries_);
            }
        });
        std::partial_sum(ptr.begin(), ptr.end(), ptr.begin());
        return ptr;
    }

    void make(std::span<const int64_t> ptr, std::span<int32_t> index, std::span<float> value) {
        shorten_instances();
        std::vector<Workspace> spaces(threads_);
        parallel_for((data_.n_labels() + label_chunk - 1) / label_chunk, threads_, [&](int64_t part, int worker) {
            if (cancel_) return;
            Workspace& space = spaces[worker];
            auto& [sum, instances, ends, entries, largest] = space;
            sum.resize(data_.n_features());
            instances.clear();
            ends.clear();
            const int64_t first = part * label_chunk, last = std::min(data_.n_labels(), first + label_chunk);
            for (int64_t j = first; j < last; ++j) {
                each_instance(static_cast<int32_t>(j), [&](int32_t i) {
                    instances.push_back(i);
                    __builtin_prefetch(data_.x.ptr.data() + i);
                    __builtin_prefetch(place_.data() + i);
                });
                ends.push_back(instances.size());
            }
            size_t k = 0;
            for (int64_t j = first; j < last; ++j) {
                const std::span<const Entry> found = add(space, std::exchange(k, ends[j - first]), ends[j - first]);
                write(found, slice(index, ptr[j], ptr[j + 1]), slice(value, ptr[j], ptr[j + 1]));
            }
        });
    }

  private:
    struct Workspace {
        std::vector<float> sum;  // zero before and after a label
        std::vector<int32_t> instances;
        std::vector<size_t> ends;  // of the instances of each label of a chunk
        std::vector<Entry> entries;
        Largest largest;
    };

    // Calls visit(i) for the chosen instances of a label.
    template <class Visit>
    void each_instance(int32_t label, Visit&& visit) const {
        const auto instances = data_.label_instances.columns(label);
        const int64_t n = std::ssize(instances);
        if (n <= n_instances_) {
            for (const int32_t i : instances) visit(i);
            return;
        }
        const double start = Random(seed_, label).fraction(), step = static_cast<double>(n);
        for (int64_t k = 0; k < n_instances_; ++k) {
            const double place = (static_cast<double>(k) + start) * step / static_cast<double>(n_instances_);
            visit(instances[std::min(n - 1, static_cast<int64_t>(place))]);
        }
    }

    // Copies the chosen instances that have too many entries.
    void shorten_instances() {
        std::vector<int32_t> rows;
        for (int32_t i = 0; i < data_.n_instances(); ++i)
            if (place_[i] == 0) {
                place_[i] = static_cast<int32_t>(rows.size());
                rows.push_back(i);
            }
        Entry* const copies = short_.reserve(rows.size() * n_row_entries_);
        std::vector<Workspace> spaces(threads_);
        const int64_t n_rows = std::ssize(rows);
        parallel_for((n_rows + instance_chunk - 1) / instance_chunk, threads_, [&](int64_t part, int worker) {
            auto& [sum, instances, ends, entries, largest] = spaces[worker];
            const int64_t first = part * instance_chunk, last = std::min(n_rows, first + instance_chunk);
            for (int64_t r = first; r < last && !cancel_; ++r) {
                const auto columns = data_.x.columns(rows[r]);
                const auto values = data_.x.values(rows[r]);
                entries.resize(columns.size());
                for (size_t k = 0; k < columns.size(); ++k) entries[k] = {columns[k], values[k]};
                largest.keep(entries, n_row_entries_);
                std::copy_n(entries.begin(), n_row_entries_, copies + r * n_row_entries_);
            }
        });
    }

    void prefetch(int32_t instance) {
        const int64_t first = data_.x.ptr[instance];
        if (const int32_t r = place_[instance]; r >= 0) {
            for (int64_t e = 0; e < n_row_entries_ && e < 32; e += 8)
                __builtin_prefetch(short_.data() + r * n_row_entries_ + e);
        } else {
            __builtin_prefetch(data_.x.index.data() + first);
            __builtin_prefetch(data_.x.value.data() + first);
        }
    }

    template <class Visit>
    void each_entry(int32_t instance, Visit&& visit) {
        if (const int32_t r = place_[instance]; r >= 0) {
            const Entry* const copy = short_.data() + r * n_row_entries_;
            for (int64_t e = 0; e < n_row_entries_; ++e) visit(copy[e].column, copy[e].value);
        } else {
            for (int64_t e = data_.x.ptr[instance]; e < data_.x.ptr[instance + 1]; ++e)
                visit(data_.x.index[e], data_.x.value[e]);
        }
    }

    // Adds the instances [first, last) of a chunk, and returns the largest entries of their sum.
    std::span<const Entry> add(Workspace& space, size_t first, size_t last) {
        auto& [sum, instances, ends, buffer, largest] = space;
        size_t end = 0;
        for (size_t k = first; k < last; ++k) {
            if (k + prefetch_rows < instances.size()) prefetch(instances[k + prefetch_rows]);
            const size_t most = end + std::min(n_row_entries_, data_.x.n_entries(instances[k]));
            if (buffer.size() < most) buffer.resize(2 * most);
            if (last - first == 1) {
                each_entry(instances[k], [&](int32_t f, float x) { buffer[end++] = {f, x}; });
                continue;
            }
            each_entry(instances[k], [&](int32_t f, float x) {
                const float before = sum[f];
                buffer[end].column = f;
                end += before == 0;
                sum[f] = before + x;
            });
        }
        const std::span<Entry> entries(buffer.data(), end);
        // A feature whose sum was zero in between is listed again, with zero.
        if (last - first > 1)
            for (Entry& entry : entries) entry.value = std::exchange(sum[entry.column], 0.0f);
        return entries.first(largest.keep(entries, n_entries_));
    }

    void write(std::span<const Entry> entries, std::span<int32_t> index, std::span<float> value) const {
        double square = 0;
        for (const Entry& entry : entries) square += static_cast<double>(entry.value) * entry.value;
        const auto rate = static_cast<float>(square > 0 ? 1 / std::sqrt(square) : 0);
        for (size_t k = 0; k < entries.size(); ++k) {
            index[k] = entries[k].column;
            value[k] = rate * entries[k].value;
        }
        std::fill(index.begin() + std::ssize(entries), index.end(), static_cast<int32_t>(data_.n_features()));
        std::fill(value.begin() + std::ssize(entries), value.end(), 0.0f);
    }

    const TrainingData data_;
    const int64_t n_instances_, n_row_entries_, n_entries_;
    const uint64_t seed_;
    const int threads_;
    const Cancel& cancel_;
    std::vector<int32_t> place_;  // of each instance in the following; -1 if it is used as it is
    Buffer<Entry> short_;         // n_row_entries_ for each
};

// An array for Python, not initialised, on huge pages where the system has them.
template <class T>
struct Array {
    std::unique_ptr<Buffer<T>> buffer = std::make_unique<Buffer<T>>();
    size_t size = 0;

    std::span<T> reserve(size_t n) {
        size = n;
        return {buffer->reserve(std::max<size_t>(n, 1)), n};
    }
    Numpy<T> release() {
        Buffer<T>* const kept = buffer.release();
        nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<Buffer<T>*>(p); });
        return Numpy<T>(kept->data(), {size}, owner);
    }
};

}  // namespace

void bind_rough_vectors(nb::module_& m) {
    m.def(
        "rough_vectors",
        [](const DataHandle& data, int64_t n_instances, int64_t n_row_entries, int64_t n_entries, uint64_t seed,
           int threads) {
            require(threads >= 1 && n_instances >= 1 && n_row_entries >= 1 && n_entries >= 1,
                    "threads, n_instances, n_row_entries and n_entries must be at least 1");
            std::vector<int64_t> ptr;
            Array<int32_t> index;
            Array<float> value;
            {
                nb::gil_scoped_release no_gil;
                run_interruptible([&](const Cancel& cancel) {
                    RoughVectors vectors(data.view(), n_instances, n_row_entries, n_entries, seed, threads, cancel);
                    ptr = vectors.count();
                    vectors.make(ptr, index.reserve(ptr.back()), value.reserve(ptr.back()));
                });
            }
            return nb::make_tuple(to_numpy(std::move(ptr)), index.release(), value.release());
        },
        "data"_a, "n_instances"_a, "n_row_entries"_a, "n_entries"_a, "seed"_a, "threads"_a,
        "Return approximate label vectors with at most n_entries entries, by at most n_instances instances of each "
        "label with n_row_entries entries. Rows are padded with zeros in column n_features.");
}

}  // namespace labeltree
