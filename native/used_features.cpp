// Counts what each node of a tree uses: instances, their non-zeros, and features (F_u). The plan is made of these
// counts.
#include "handles.h"
#include "node_data.h"

namespace labeltree {
namespace {

constexpr int64_t marked_share = 8;  // features are marked if a set has more entries than n_features / 8

struct Usage {
    std::vector<int64_t> n_instances, n_nonzeros, n_features;

    explicit Usage(int64_t n_nodes) : n_instances(n_nodes), n_nonzeros(n_nodes), n_features(n_nodes) {}
};

struct Workspace {
    NodeData node;
    std::vector<int32_t> instances, features;
    std::vector<uint8_t> occurs;  // for each feature; zero before and after a set
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

// find_instances(node, u, instances) sets the instances of set u.
template <class FindInstances>
Usage count_sets(const TrainingData& data, int64_t n_sets, int threads, const Cancel& cancel,
                 FindInstances&& find_instances) {
    Usage usage(n_sets);
    std::vector<Workspace> spaces(threads, Workspace{NodeData(data), {}, {}, {}});
    // Breadth-first order is close enough to largest first.
    parallel_for(n_sets, threads, [&](int64_t u, int worker) {
        if (cancel) return;
        auto& [node, instances, features, occurs] = spaces[worker];
        find_instances(node, u, instances);
        int64_t n_nonzeros = 0;
        for (const int32_t i : instances) n_nonzeros += data.x.n_entries(i);
        usage.n_instances[u] = std::ssize(instances);
        usage.n_nonzeros[u] = n_nonzeros;
        if (n_nonzeros * marked_share > data.n_features()) {
            usage.n_features[u] = count_marks(data.x, instances, occurs);
        } else {
            node.find_features(instances, features);
            usage.n_features[u] = std::ssize(features);
        }
    });
    return usage;
}

// The non-zeros of the instances of each label.
std::vector<int64_t> count_entries(const TrainingData& data, int threads, const Cancel& cancel) {
    constexpr int64_t chunk = 256;
    std::vector<int64_t> counts(data.n_labels());
    parallel_ranges(data.n_labels(), chunk, threads, [&](int64_t first, int64_t last) {
        if (cancel) return;
        for (int64_t j = first; j < last; ++j)
            for (const int32_t i : data.label_instances.columns(j)) counts[j] += data.x.n_entries(i);
    });
    return counts;
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
        "count_entries",
        [](const DataHandle& data, int threads) {
            require(threads >= 1, "threads must be at least 1");
            std::vector<int64_t> counts;
            {
                nb::gil_scoped_release no_gil;
                run_interruptible([&](const Cancel& cancel) { counts = count_entries(data.view(), threads, cancel); });
            }
            return to_numpy(std::move(counts));
        },
        "data"_a, "threads"_a, "Count the non-zeros of the instances of each label.");
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
