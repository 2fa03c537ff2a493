// Counts what each node of a tree uses: instances, their non-zeros, and features (F_u). The plan is made of these
// counts.
#include "common/handles.h"
#include "train/node_data.h"

namespace labeltree {
namespace {

constexpr int64_t marked_share = 8;  // features are marked if a node has more entries than n_features / 8

struct Usage {
    std::vector<int64_t> n_instances, n_nonzeros, n_features;

    explicit Usage(int64_t n_nodes) : n_instances(n_nodes), n_nonzeros(n_nodes), n_features(n_nodes) {}
};

// Marks every feature, then counts the marks of all: faster than a list of features if there are many entries.
int64_t count_marks(const SparseRows& x, std::span<const int32_t> instances, std::vector<uint8_t>& occurs) {
    constexpr size_t ahead = 8;  // instances are anywhere in memory
    occurs.resize(x.n_columns);
    for (size_t k = 0; k < instances.size(); ++k) {
        if (k + 2 * ahead < instances.size()) __builtin_prefetch(&x.ptr[instances[k + 2 * ahead]]);
        if (k + ahead < instances.size()) __builtin_prefetch(x.index.data() + x.ptr[instances[k + ahead]]);
        for (const int32_t f : x.columns(instances[k])) occurs[f] = 1;
    }
    int64_t n_features = 0;
    for (size_t f = 0; f < occurs.size();) {
        uint8_t few = 0;  // at most 255 at a time: a vector has more bytes than larger numbers
        for (const size_t end = std::min(occurs.size(), f + 255); f < end; ++f) few += occurs[f];
        n_features += few;
    }
    std::fill(occurs.begin(), occurs.end(), 0);
    return n_features;
}

struct Workspace {
    explicit Workspace(const TrainingData& data) : node(data) {}

    NodeData node;
    std::vector<int32_t> instances, features;
    std::vector<uint8_t> occurs;  // for each feature; zero before and after a node
};

// Nodes are numbered breadth-first, so large ones come early.
Usage count_nodes(const TrainingData& data, const TreeView& tree, int threads, const Cancel& cancel) {
    const int64_t n_nodes = tree.shape.n_nodes();
    Usage usage(n_nodes);
    std::vector<Workspace> spaces(threads, Workspace(data));
    parallel_for(n_nodes, threads, [&](int64_t u, int worker) {
        if (cancel) return;
        auto& [node, instances, features, occurs] = spaces[worker];
        node.find_instances(tree, u, instances);
        usage.n_instances[u] = std::ssize(instances);
        for (const int32_t i : instances) usage.n_nonzeros[u] += data.x.n_entries(i);
        if (usage.n_nonzeros[u] * marked_share > data.n_features()) {
            usage.n_features[u] = count_marks(data.x, instances, occurs);
        } else {
            node.find_features(instances, features);
            usage.n_features[u] = std::ssize(features);
        }
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
        for (const int32_t f : slice(x.index, part * chunk, std::min<int64_t>(std::ssize(x.index), (part + 1) * chunk)))
            occurs[f] = 1;
    });
    int64_t n_features = 0;
    for (int64_t f = 0; f < x.n_columns; ++f)
        n_features += std::ranges::any_of(marks, [&](const auto& occurs) { return !occurs.empty() && occurs[f]; });
    return n_features;
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
                    [&](const Cancel& cancel) { usage = count_nodes(data.view(), tree.view(), threads, cancel); });
            }
            return nb::make_tuple(to_numpy(std::move(usage.n_instances)), to_numpy(std::move(usage.n_nonzeros)),
                                  to_numpy(std::move(usage.n_features)));
        },
        "data"_a, "tree"_a, "threads"_a, "Count the instances, non-zeros and used features of every node.");
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
