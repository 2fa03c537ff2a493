// Label vectors v_j: the sum of the instances that have label j, L2-normalised (eq:label-representation).
//
// The entries of a vector are ordered by magnitude, largest first, so that its first entries approximate it.
#include <array>
#include <bit>
#include <cmath>

#include "common/handles.h"

namespace labeltree {
namespace {

// Two kernels, count and fill, so that the size is known before memory is allocated.
class LabelVectors {
  public:
    LabelVectors(const TrainingData& data, int threads, const Cancel& cancel)
        : data_(data), threads_(threads), cancel_(cancel) {}

    // Where the entries of each label will begin.
    std::vector<int64_t> count() const {
        std::vector<int64_t> ptr(data_.n_labels() + 1, 0);
        each_label([&](int64_t label, Workspace& space) {
            auto& mark = space.mark;
            each_entry(label, [&](int32_t f, float) {
                ptr[label + 1] += mark[f] != label;
                mark[f] = label;
            });
        });
        for (int64_t j = 0; j < data_.n_labels(); ++j) ptr[j + 1] += ptr[j];
        return ptr;
    }

    // mark[f]: the place of feature f of this label in the output. A place before the label's first is out of date.
    void fill(std::span<const int64_t> ptr, std::span<int32_t> index, std::span<float> value) const {
        each_label([&](int64_t label, Workspace& space) {
            auto& mark = space.mark;
            const int64_t start = ptr[label];
            int64_t end = start;
            each_entry(label, [&](int32_t f, float x) {
                if (mark[f] < start) {
                    if (end == ptr[label + 1]) throw std::invalid_argument("ptr was made for other data");
                    mark[f] = end;
                    index[end] = f;
                    value[end++] = x;
                } else {
                    value[mark[f]] += x;
                }
            });
            if (end != ptr[label + 1]) throw std::invalid_argument("ptr was made for other data");
            normalise(slice(value, start, end));
            order_by_magnitude(slice(index, start, end), slice(value, start, end), space);
        });
    }

  private:
    struct Workspace {
        std::vector<int64_t> mark;
        std::vector<int32_t> columns;
        std::vector<float> values;
    };

    // A thread takes labels in ascending order, so a mark of an earlier label is always lower than that of a later one.
    template <class Visit>
    void each_label(Visit&& visit) const {
        const int64_t n_labels = data_.n_labels();
        const int64_t chunk = std::clamp<int64_t>(n_labels / threads_ / 4, 1, 256);
        std::vector<Workspace> spaces(threads_);
        parallel_for((n_labels + chunk - 1) / chunk, threads_, [&](int64_t part, int worker) {
            if (spaces[worker].mark.empty()) spaces[worker].mark.assign(data_.n_features(), -1);
            for (int64_t j = part * chunk; j < std::min(n_labels, (part + 1) * chunk) && !cancel_; ++j)
                visit(j, spaces[worker]);
        });
    }

    template <class Visit>
    void each_entry(int64_t label, Visit&& visit) const {
        const SparseRows& x = data_.x;
        for (const int32_t i : data_.label_instances.columns(label))
            for (int64_t e = x.ptr[i]; e < x.ptr[i + 1]; ++e) visit(x.index[e], x.value[e]);
    }

    static void normalise(std::span<float> values) {
        double squares = 0;
        for (const float value : values) squares += static_cast<double>(value) * value;
        if (squares <= 0) return;
        const auto scale = static_cast<float>(1 / std::sqrt(squares));
        for (float& value : values) value *= scale;
    }

    // Four groups for each factor of 2; within a group, the order stays the same.
    static void order_by_magnitude(std::span<int32_t> index, std::span<float> value, Workspace& space) {
        constexpr uint32_t n_groups = 64, largest = std::bit_cast<uint32_t>(1.0f) >> 21;
        auto group = [=](float x) {
            const uint32_t size = std::bit_cast<uint32_t>(std::abs(x)) >> 21;
            return std::min(largest - std::min(size, largest), n_groups - 1);
        };
        std::array<size_t, n_groups + 1> start{};
        for (const float x : value) ++start[group(x) + 1];
        for (uint32_t g = 0; g < n_groups; ++g) start[g + 1] += start[g];
        space.columns.assign(index.begin(), index.end());
        space.values.assign(value.begin(), value.end());
        for (size_t k = 0; k < space.values.size(); ++k) {
            const size_t place = start[group(space.values[k])]++;
            index[place] = space.columns[k];
            value[place] = space.values[k];
        }
    }

    const TrainingData& data_;
    const int threads_;
    const Cancel& cancel_;
};

}  // namespace

void bind_label_vectors(nb::module_& m) {
    m.def(
        "count_label_vectors",
        [](const DataHandle& data, int threads) {
            require(threads >= 1, "threads must be at least 1");
            std::vector<int64_t> ptr;
            {
                nb::gil_scoped_release no_gil;
                run_interruptible(
                    [&](const Cancel& cancel) { ptr = LabelVectors(data.view(), threads, cancel).count(); });
            }
            return to_numpy(std::move(ptr));
        },
        "data"_a, "threads"_a, "Count the entries of the label vectors; return where each of them begins.");
    m.def(
        "label_vectors",
        [](const DataHandle& data, In<int64_t> ptr, Out<int32_t> index, Out<float> value, int threads) {
            require(threads >= 1, "threads must be at least 1");
            require(std::ssize(span_of(ptr)) == data.view().n_labels() + 1,
                    "ptr must have one entry per label, and one more");
            require(index.size() == value.size(), "value must have as many entries as index");
            nb::gil_scoped_release no_gil;
            check_ptr(span_of(ptr), index.size(), "ptr");
            run_interruptible([&](const Cancel& cancel) {
                LabelVectors(data.view(), threads, cancel).fill(span_of(ptr), span_of(index), span_of(value));
            });
        },
        "data"_a, "ptr"_a.noconvert(), "index"_a.noconvert(), "value"_a.noconvert(), "threads"_a,
        "Fill in one L2-normalised row per label, large values first; ptr is from count_label_vectors.");
}

}  // namespace labeltree
