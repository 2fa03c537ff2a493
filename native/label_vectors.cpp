// Label vectors v_j: the sum of the instances that have label j, L2-normalised (eq:label-representation).
#include <cmath>

#include "tree_binding.h"

namespace labeltree {
namespace {

// Two kernels, count and fill, so that the size is known before the memory is taken, and no more is taken.
class LabelVectors {
  public:
    LabelVectors(const Sparse& x, const Sparse& label_instances, int threads, const Cancel& cancel)
        : x_(x), label_instances_(label_instances), threads_(threads), cancel_(cancel) {}

    // Where each label's entries will begin.
    std::vector<int64_t> count() const {
        std::vector<int64_t> ptr(label_instances_.rows + 1, 0);
        each_label([&](int64_t label, std::vector<int64_t>& mark) {
            each_entry(label, [&](int32_t f, int64_t) {
                ptr[label + 1] += mark[f] != label;
                mark[f] = label;
            });
        });
        for (int64_t j = 0; j < label_instances_.rows; ++j) ptr[j + 1] += ptr[j];
        return ptr;
    }

    // mark[f]: where feature f of the present label stands in the output; what lies before its start is stale.
    void fill(const int64_t* ptr, int32_t* index, float* value) const {
        each_label([&](int64_t label, std::vector<int64_t>& mark) {
            const int64_t start = ptr[label];
            int64_t end = start;
            each_entry(label, [&](int32_t f, int64_t e) {
                if (mark[f] < start) {
                    if (end == ptr[label + 1]) throw std::invalid_argument("ptr was made for other data");
                    mark[f] = end;
                    index[end] = f;
                    value[end++] = x_.value[e];
                } else {
                    value[mark[f]] += x_.value[e];
                }
            });
            normalise(value + start, end - start);
        });
    }

  private:
    // Labels go up within a thread, so a mark of an earlier label is always below that of a later one.
    template <class Visit>
    void each_label(Visit&& visit) const {
        const int64_t labels = label_instances_.rows;
        const int64_t chunk = std::clamp<int64_t>(labels / (4 * threads_), 1, 256);
        std::vector<std::vector<int64_t>> marks(threads_);
        parallel_for((labels + chunk - 1) / chunk, threads_, [&](int64_t part, int worker) {
            if (marks[worker].empty()) marks[worker].assign(x_.columns, -1);
            for (int64_t j = part * chunk; j < std::min(labels, (part + 1) * chunk) && !cancel_; ++j)
                visit(j, marks[worker]);
        });
    }

    template <class Visit>
    void each_entry(int64_t label, Visit&& visit) const {
        for (int64_t k = label_instances_.ptr[label]; k < label_instances_.ptr[label + 1]; ++k) {
            const int32_t i = label_instances_.index[k];
            for (int64_t e = x_.ptr[i]; e < x_.ptr[i + 1]; ++e) visit(x_.index[e], e);
        }
    }

    static void normalise(float* values, int64_t count) {
        double squares = 0;
        for (int64_t k = 0; k < count; ++k) squares += static_cast<double>(values[k]) * values[k];
        if (squares <= 0) return;
        const float scale = static_cast<float>(1 / std::sqrt(squares));
        for (int64_t k = 0; k < count; ++k) values[k] *= scale;
    }

    const Sparse& x_;
    const Sparse& label_instances_;
    const int threads_;
    const Cancel& cancel_;
};

}  // namespace

void bind_label_vectors(nb::module_& m) {
    m.def(
        "count_label_vectors",
        [](In<int64_t> x_ptr, In<int32_t> x_index, int64_t feature_count, In<int64_t> label_ptr,
           In<int32_t> label_instances, int threads) {
            require(threads >= 1, "threads must be at least 1");
            const Sparse x = check_sparse(x_ptr, x_index, nullptr, feature_count, "x");
            const Sparse by_label = check_sparse(label_ptr, label_instances, nullptr, x.rows, "label_instances");
            std::vector<int64_t> ptr;
            run_interruptible(
                [&](const Cancel& cancel) { ptr = LabelVectors(x, by_label, threads, cancel).count(); });
            return to_numpy(std::move(ptr));
        },
        "x_ptr"_a.noconvert(), "x_index"_a.noconvert(), "feature_count"_a, "label_ptr"_a.noconvert(),
        "label_instances"_a.noconvert(), "threads"_a, "indptr of the label vectors: how many entries each will have.");
    m.def(
        "label_vectors",
        [](In<int64_t> x_ptr, In<int32_t> x_index, In<float> x_value, int64_t feature_count, In<int64_t> label_ptr,
           In<int32_t> label_instances, In<int64_t> ptr, Out<int32_t> index, Out<float> value, int threads) {
            require(threads >= 1, "threads must be at least 1");
            require(x_value.size() == x_index.size(), "x needs one value an index");
            const Sparse x = check_sparse(x_ptr, x_index, x_value.data(), feature_count, "x");
            const Sparse by_label = check_sparse(label_ptr, label_instances, nullptr, x.rows, "label_instances");
            require(static_cast<int64_t>(ptr.size()) == by_label.rows + 1 && index.size() == value.size(),
                    "ptr must have one entry a label and one more, index and value must match");
            check_indptr(ptr, index.size(), "ptr");
            run_interruptible([&](const Cancel& cancel) {
                LabelVectors(x, by_label, threads, cancel).fill(ptr.data(), index.data(), value.data());
            });
        },
        "x_ptr"_a.noconvert(), "x_index"_a.noconvert(), "x_value"_a.noconvert(), "feature_count"_a,
        "label_ptr"_a.noconvert(), "label_instances"_a.noconvert(), "ptr"_a.noconvert(), "index"_a.noconvert(),
        "value"_a.noconvert(), "threads"_a,
        "Fills in one L2-normalised row a label, columns in no order; ptr is from count_label_vectors.");
}

}  // namespace labeltree
