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

struct Workspace {
    NodeData node;
    std::vector<int32_t> instances, features;
};

// find_instances(node, u, instances) sets the instances of set u.
template <class FindInstances>
Usage count_sets(const TrainingData& data, int64_t n_sets, int threads, const Cancel& cancel,
                 FindInstances&& find_instances) {
    Usage usage(n_sets);
    std::vector<Workspace> spaces(threads, Workspace{NodeData(data), {}, {}});
    // Breadth-first order is close enough to largest first.
    parallel_for(n_sets, threads, [&](int64_t u, int worker) {
        if (cancel) return;
        auto& [node, instances, features] = spaces[worker];
        find_instances(node, u, instances);
        node.find_features(instances, features);
        int64_t n_nonzeros = 0;
        for (const int32_t i : instances) n_nonzeros += data.x.n_entries(i);
        usage.n_instances[u] = std::ssize(instances);
        usage.n_nonzeros[u] = n_nonzeros;
        usage.n_features[u] = std::ssize(features);
    });
    return usage;
}

// The features that occur in any instance.
int64_t count_features(const SparseRows& x, int threads, const Cancel& cancel) {
    constexpr int64_t chunk = 1 << 18;
    std::vector<std::vector<uint8_t>> marks(threads);
    parallel_for((std::ssize(x.index) + chunk - 1) / chunk, threads, [&](int64_t part, int worker) {
        if (cancel) return;
        std::vector<uint8_t>& occurs = marks[worker];
        occurs.resize(x.n_columns);
        for (const int32_t f : slice(x.index, part * chunk, std::min(std::ssize(x.index), (part + 1) * chunk)))
            occurs[f] = 1;
    });
    int64_t n_features = 0;
    for (int64_t f = 0; f < x.n_columns; ++f)
        n_features += std::ranges::any_of(marks, [&](const auto& occurs) { return !occurs.empty() && occurs[f]; });
    return n_features;
}

nb::tuple to_tuple(Usage&& usage) {
    return nb::make_tuple(to_numpy(std::move(usage.n_instances)), to_numpy(std::move(usage.n_nonzeros)),
                          to_numpy(std::move(usage.n_features)));
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
                run_interruptible([&](const Cancel& cancel) {
                    usage = count_sets(data.view(), tree.view().shape.n_nodes(), threads, cancel,
                                       [&](NodeData& node, int64_t u, std::vector<int32_t>& instances) {
                                           node.find_instances(tree.view(), u, instances);
                                       });
                });
            }
            return to_tuple(std::move(usage));
        },
        "data"_a, "tree"_a, "threads"_a, "Count the instances, non-zeros and used features of every node.");
    m.def(
        "used_features_of",
        [](const DataHandle& data, In<int32_t> labels, In<int64_t> first, In<int64_t> last, int threads) {
            require(threads >= 1, "threads must be at least 1");
            Usage usage(0);
            {
                nb::gil_scoped_release no_gil;
                const auto starts = span_of(first), ends = span_of(last);
                check_range(span_of(labels), data.view().n_labels(), "labels");
                require(starts.size() == ends.size(), "first and last must have one entry per set");
                for (size_t u = 0; u < starts.size(); ++u)
                    require(starts[u] >= 0 && starts[u] <= ends[u] && ends[u] <= std::ssize(span_of(labels)),
                            "first and last must be a range of labels for each set");
                run_interruptible([&](const Cancel& cancel) {
                    usage = count_sets(data.view(), std::ssize(starts), threads, cancel,
                                       [&](NodeData& node, int64_t u, std::vector<int32_t>& instances) {
                                           node.find_instances(slice(span_of(labels), starts[u], ends[u]), instances);
                                       });
                });
            }
            return to_tuple(std::move(usage));
        },
        "data"_a, "labels"_a.noconvert(), "first"_a.noconvert(), "last"_a.noconvert(), "threads"_a,
        "Count the instances, non-zeros and used features of labels[first[u]:last[u]] for every u.");
    m.def(
        "count_features",
        [](const DataHandle& data, int threads) {
            require(threads >= 1, "threads must be at least 1");
            int64_t n_features = 0;
            nb::gil_scoped_release no_gil;
            run_interruptible(
                [&](const Cancel& cancel) { n_features = count_features(data.view().x, threads, cancel); });
            return n_features;
        },
        "data"_a, "threads"_a, "Count the features that occur in any instance.");
}

}  // namespace labeltree
