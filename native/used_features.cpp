// Counts what each node of a tree uses: instances, their non-zeros, and features (F_u). The plan is made of these
// counts.
#include "handles.h"
#include "node_data.h"

namespace labeltree {
namespace {

struct Usage {
    std::vector<int64_t> n_instances, n_nonzeros, n_features;

    explicit Usage(int64_t n_nodes) : n_instances(n_nodes), n_nonzeros(n_nodes), n_features(n_nodes) {}
};

Usage used_features(const TrainingData& data, const TreeView& tree, int threads, const Cancel& cancel) {
    struct Workspace {
        NodeData node;
        std::vector<int32_t> instances, features;
    };
    Usage usage(tree.shape.n_nodes());
    std::vector<Workspace> spaces(threads, Workspace{NodeData(data), {}, {}});
    // Breadth-first order is close enough to largest first.
    parallel_for(tree.shape.n_nodes(), threads, [&](int64_t u, int worker) {
        if (cancel) return;
        auto& [node, instances, features] = spaces[worker];
        node.find_instances(tree, u, instances);
        node.find_features(instances, features);
        int64_t n_nonzeros = 0;
        for (const int32_t i : instances) n_nonzeros += data.x.n_entries(i);
        usage.n_instances[u] = std::ssize(instances);
        usage.n_nonzeros[u] = n_nonzeros;
        usage.n_features[u] = std::ssize(features);
    });
    return usage;
}

}  // namespace

void bind_used_features(nb::module_& m) {
    m.def(
        "used_features",
        [](const DataHandle& data, const TreeHandle& tree, int threads) {
            check_fit(data, tree);
            require(threads >= 1, "threads must be at least 1");
            Usage usage(0);
            {
                nb::gil_scoped_release no_gil;
                run_interruptible(
                    [&](const Cancel& cancel) { usage = used_features(data.view(), tree.view(), threads, cancel); });
            }
            return nb::make_tuple(to_numpy(std::move(usage.n_instances)), to_numpy(std::move(usage.n_nonzeros)),
                                  to_numpy(std::move(usage.n_features)));
        },
        "data"_a, "tree"_a, "threads"_a, "Count the instances, non-zeros and used features of every node.");
}

}  // namespace labeltree
