// Label vectors v_j: the sum of the instances that have label j, L2-normalised (eq:label-representation).
#include <cmath>

#include "tree_binding.h"

namespace labeltree {
namespace {

struct Matrix {
    std::vector<int64_t> ptr;
    std::vector<int32_t> index;
    std::vector<float> value;
};

// Two passes, count and fill, so that the product takes its own size in memory and no more.
Matrix label_vectors(const Sparse& x, const Sparse& label_instances, int threads, const Cancel& cancel) {
    const int64_t labels = label_instances.rows;
    const int64_t chunk = std::max<int64_t>(1, std::min<int64_t>(256, labels / (4 * threads) + 1));
    const int64_t chunks = (labels + chunk - 1) / chunk;
    Matrix out;
    out.ptr.assign(labels + 1, 0);

    std::vector<std::vector<int64_t>> seen(threads, std::vector<int64_t>(x.columns, -1));
    auto each_label = [&](int64_t part, auto&& visit) {
        for (int64_t j = part * chunk; j < std::min(labels, (part + 1) * chunk); ++j) visit(j);
    };
    auto each_entry = [&](int64_t label, auto&& visit) {
        for (int64_t k = label_instances.ptr[label]; k < label_instances.ptr[label + 1]; ++k) {
            const int32_t i = label_instances.index[k];
            for (int64_t e = x.ptr[i]; e < x.ptr[i + 1]; ++e) visit(x.index[e], e);
        }
    };
    parallel_for(chunks, threads, [&](int64_t part, int worker) {
        if (cancel) return;
        auto& mark = seen[worker];
        each_label(part, [&](int64_t j) {
            int64_t count = 0;
            each_entry(j, [&](int32_t f, int64_t) {
                count += mark[f] != j;
                mark[f] = j;
            });
            out.ptr[j + 1] = count;
        });
    });
    if (cancel) return out;
    for (int64_t j = 0; j < labels; ++j) out.ptr[j + 1] += out.ptr[j];
    out.index.resize(out.ptr[labels]);
    out.value.resize(out.ptr[labels]);

    // Now mark[f] is where feature f of the present label stands in the output; what is before its start is stale.
    for (auto& mark : seen) std::fill(mark.begin(), mark.end(), -1);
    parallel_for(chunks, threads, [&](int64_t part, int worker) {
        if (cancel) return;
        auto& mark = seen[worker];
        each_label(part, [&](int64_t j) {
            const int64_t start = out.ptr[j];
            int64_t end = start;
            each_entry(j, [&](int32_t f, int64_t e) {
                if (mark[f] < start || mark[f] >= end || out.index[mark[f]] != f) {
                    mark[f] = end;
                    out.index[end] = f;
                    out.value[end++] = x.value[e];
                } else {
                    out.value[mark[f]] += x.value[e];
                }
            });
            double squares = 0;
            for (int64_t k = start; k < end; ++k) squares += static_cast<double>(out.value[k]) * out.value[k];
            if (squares > 0) {
                const float scale = static_cast<float>(1 / std::sqrt(squares));
                for (int64_t k = start; k < end; ++k) out.value[k] *= scale;
            }
        });
    });
    return out;
}

}  // namespace

void bind_label_vectors(nb::module_& m) {
    m.def(
        "label_vectors",
        [](In<int64_t> x_ptr, In<int32_t> x_index, In<float> x_value, int64_t feature_count, In<int64_t> label_ptr,
           In<int32_t> label_instances, int threads) {
            require(threads >= 1, "threads must be at least 1");
            require(x_value.size() == x_index.size(), "x needs one value an index");
            const Sparse x = check_sparse(x_ptr, x_index, x_value.data(), feature_count, "x");
            const Sparse by_label = check_sparse(label_ptr, label_instances, nullptr, x.rows, "label_instances");
            Matrix out;
            run_interruptible([&](const Cancel& cancel) { out = label_vectors(x, by_label, threads, cancel); });
            return nb::make_tuple(to_numpy(std::move(out.ptr)), to_numpy(std::move(out.index)),
                                  to_numpy(std::move(out.value)));
        },
        "x_ptr"_a.noconvert(), "x_index"_a.noconvert(), "x_value"_a.noconvert(), "feature_count"_a,
        "label_ptr"_a.noconvert(), "label_instances"_a.noconvert(), "threads"_a,
        "One L2-normalised row a label, columns in no order: (indptr, indices, values).");
}

}  // namespace labeltree
