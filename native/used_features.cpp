// What every node of a tree uses of the data: instances, their non-zeros, and features (F_u). This is the plan's count.
#include "tree_binding.h"

namespace labeltree {
namespace {

struct Usage {
    std::vector<int64_t> instances, nonzeros, features;
};

Usage used_features(const TreeView& tree, const Sparse& x, const Sparse& label_instances, int threads,
                    const Cancel& cancel) {
    Usage usage;
    for (auto* column : {&usage.instances, &usage.nonzeros, &usage.features}) column->resize(tree.nodes);
    struct Workspace {
        Workspace(int64_t instances, int64_t features) : instances(instances), features(features) {}
        SortedSet instances, features;
        std::vector<int32_t> rows, used;
    };
    std::vector<Workspace> spaces(threads, Workspace(x.rows, x.columns));
    // Breadth-first order is near enough to largest first.
    parallel_for(tree.nodes, threads, [&](int64_t u, int worker) {
        if (cancel) return;
        Workspace& space = spaces[worker];
        instances_of(tree, label_instances, x.rows, u, space.instances, space.rows);
        features_of(x, space.rows, space.features, space.used);
        int64_t nonzeros = 0;
        for (int32_t i : space.rows) nonzeros += x.ptr[i + 1] - x.ptr[i];
        usage.instances[u] = static_cast<int64_t>(space.rows.size());
        usage.nonzeros[u] = nonzeros;
        usage.features[u] = static_cast<int64_t>(space.used.size());
    });
    return usage;
}

}  // namespace

void bind_used_features(nb::module_& m) {
    m.def(
        "used_features",
        [](In<int64_t> x_ptr, In<int32_t> x_index, int64_t feature_count, In<int64_t> label_ptr,
           In<int32_t> label_instances, In<int64_t> child_ptr, In<int32_t> children, In<int32_t> labels,
           In<int64_t> first, In<int64_t> last, int threads) {
            require(threads >= 1, "threads must be at least 1");
            const Sparse x = check_sparse(x_ptr, x_index, nullptr, feature_count, "x");
            const Sparse by_label = check_sparse(label_ptr, label_instances, nullptr, x.rows, "label_instances");
            const TreeView tree = check_tree(child_ptr, children, labels, first, last, by_label.rows);
            Usage usage;
            run_interruptible([&](const Cancel& cancel) { usage = used_features(tree, x, by_label, threads, cancel); });
            return nb::make_tuple(to_numpy(std::move(usage.instances)), to_numpy(std::move(usage.nonzeros)),
                                  to_numpy(std::move(usage.features)));
        },
        "x_ptr"_a.noconvert(), "x_index"_a.noconvert(), "feature_count"_a, "label_ptr"_a.noconvert(),
        "label_instances"_a.noconvert(), "child_ptr"_a.noconvert(), "children"_a.noconvert(), "labels"_a.noconvert(),
        "first"_a.noconvert(), "last"_a.noconvert(), "threads"_a,
        "Instances, non-zeros and used features of every node: three int64 arrays.");
}

}  // namespace labeltree
