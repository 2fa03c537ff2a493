// Counts what each node of a tree uses: instances, their non-zeros, and features (F_u). The plan is made of these
// counts.
#include <cmath>

#include "handles.h"
#include "node_data.h"

namespace labeltree {
namespace {

constexpr int64_t marked_share = 8;  // features are marked if a set has more entries than n_features / 8

struct Usage {
    std::vector<int64_t> n_instances, n_nonzeros, n_features;

    explicit Usage(int64_t n_nodes) : n_instances(n_nodes), n_nonzeros(n_nodes), n_features(n_nodes) {}
};

// Calls visit(f) for every entry of some instances, which are anywhere in memory.
template <class Visit>
void each_feature(const SparseRows& x, std::span<const int32_t> instances, Visit&& visit) {
    constexpr size_t ahead = 8;
    for (size_t k = 0; k < instances.size(); ++k) {
        if (k + 2 * ahead < instances.size()) __builtin_prefetch(&x.ptr[instances[k + 2 * ahead]]);
        if (k + ahead < instances.size()) __builtin_prefetch(x.index.data() + x.ptr[instances[k + ahead]]);
        for (const int32_t f : x.columns(instances[k])) visit(f);
    }
}

// The number of features with this mark, or with any for 0.
int64_t count_equal(const std::vector<uint8_t>& marks, uint8_t mark) {
    int64_t n_features = 0;
    for (size_t f = 0; f < marks.size();) {
        uint8_t few = 0;  // at most 255 at a time: a vector has more bytes than larger numbers
        const size_t end = std::min(marks.size(), f + 255);
        if (mark == 0)
            for (; f < end; ++f) few += marks[f] != 0;
        else
            for (; f < end; ++f) few += marks[f] == mark;
        n_features += few;
    }
    return n_features;
}

// Marks every feature, then counts the marks of all: faster than a list of features if there are many entries.
int64_t count_marks(const SparseRows& x, std::span<const int32_t> instances, std::vector<uint8_t>& occurs) {
    occurs.resize(x.n_columns);
    each_feature(x, instances, [&](int32_t f) { occurs[f] = 1; });
    const int64_t n_features = count_equal(occurs, 0);
    std::fill(occurs.begin(), occurs.end(), 0);
    return n_features;
}

// Estimates the features of all instances from one of `parts` of them, by the number of features that one or
// two instances have. Of two estimates, the first is too small if many features are rare, and the second is too large
// if they are not: how many features are missing, if all are equally likely to be (Chao), and the present growth
// continued (Good and Turing: a new instance has a new feature as often as the last one had).
int64_t estimate_marks(const SparseRows& x, std::span<const int32_t> instances, int64_t parts,
                       std::vector<uint8_t>& occurs) {
    occurs.resize(x.n_columns);
    each_feature(x, instances, [&](int32_t f) { occurs[f] = static_cast<uint8_t>(occurs[f] + (occurs[f] < 3)); });
    const auto found = static_cast<double>(count_equal(occurs, 0));
    const auto once = static_cast<double>(count_equal(occurs, 1)), twice = static_cast<double>(count_equal(occurs, 2));
    std::fill(occurs.begin(), occurs.end(), 0);
    if (once == 0) return static_cast<int64_t>(found);
    const auto n = static_cast<double>(instances.size()), times = static_cast<double>(parts);
    const double missing = once * once / (2 * std::max(twice, 1.0));
    const double chao = found + missing * (1 - std::pow(1 - once / (n * missing + once), (times - 1) * n));
    const double grown = found * std::pow(times, once / found);
    const double weight = parts == 2 ? 1.0 / 2 : 2.0 / 3;  // nearly without error on average, on five datasets
    return std::min<int64_t>(x.n_columns, std::lround(std::pow(chao, 1 - weight) * std::pow(grown, weight)));
}

// Finds a part of the instances of many labels, always the same, by a hash of their numbers.
class PartOfInstances {
  public:
    explicit PartOfInstances(int64_t n_instances) : bits_((n_instances + 63) / 64) {}

    // One of `parts`, a power of two; `most` is the number of instances, with those that occur again.
    void find(const SparseRows& label_instances, std::span<const int32_t> labels, int64_t most, int64_t parts,
              std::vector<int32_t>& instances) {
        const auto limit = static_cast<uint32_t>((uint64_t{1} << 32) / parts - 1);
        instances.resize(most + 1);
        size_t n_found = 0;
        for (const int32_t label : labels)
            for (const int32_t i : label_instances.columns(label)) {  // branches would be mispredicted
                const auto number = static_cast<uint32_t>(i);
                const uint64_t chosen = number * 0x9E3779B1u <= limit, word = bits_[number / 64];
                instances[n_found] = i;
                n_found += chosen & ~(word >> number % 64);
                bits_[number / 64] = word | chosen << number % 64;
            }
        instances.resize(n_found);
        std::fill(bits_.begin(), bits_.end(), 0);
    }

  private:
    std::vector<uint64_t> bits_;
};

struct Workspace {
    explicit Workspace(const TrainingData& data) : node(data), part(data.n_instances()) {}

    NodeData node;
    PartOfInstances part;
    std::vector<int32_t> instances, features;
    std::vector<uint8_t> occurs;  // for each feature; zero before and after a set
};

// Counts all sets in this order, which should begin with large ones. find_instances(space, u) sets space.instances to
// one of several parts of the instances of set u, and returns how many parts there are.
template <class FindInstances>
Usage count_sets(const TrainingData& data, std::span<const int64_t> order, int threads, const Cancel& cancel,
                 FindInstances&& find_instances) {
    Usage usage(std::ssize(order));
    std::vector<Workspace> spaces(threads, Workspace(data));
    parallel_for(std::ssize(order), threads, [&](int64_t k, int worker) {
        if (cancel) return;
        const int64_t u = order[k];
        auto& [node, part, instances, features, occurs] = spaces[worker];
        const int64_t parts = find_instances(spaces[worker], u);
        int64_t n_nonzeros = 0;
        for (const int32_t i : instances) n_nonzeros += data.x.n_entries(i);
        usage.n_instances[u] = parts * std::ssize(instances);
        usage.n_nonzeros[u] = parts * n_nonzeros;
        if (parts > 1) {
            usage.n_features[u] = estimate_marks(data.x, instances, parts, occurs);
        } else if (n_nonzeros * marked_share > data.n_features()) {
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
        for (const int32_t f : slice(x.index, part * chunk, std::min<int64_t>(std::ssize(x.index), (part + 1) * chunk)))
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
                std::vector<int64_t> order(tree.view().shape.n_nodes());
                std::iota(order.begin(), order.end(), 0);  // breadth-first, so large ones come early
                run_interruptible([&](const Cancel& cancel) {
                    usage = count_sets(data.view(), order, threads, cancel, [&](Workspace& space, int64_t u) {
                        space.node.find_instances(tree.view(), u, space.instances);
                        return 1;
                    });
                });
            }
            return to_tuple(std::move(usage));
        },
        "data"_a, "tree"_a, "threads"_a, "Count the instances, non-zeros and used features of every node.");
    m.def(
        "used_features_of",
        [](const DataHandle& data, In<int32_t> labels, In<int64_t> first, In<int64_t> last, int64_t max_instances,
           int threads) {
            require(threads >= 1 && max_instances >= 100, "threads must be at least 1, max_instances at least 100");
            Usage usage(0);
            {
                nb::gil_scoped_release no_gil;
                const auto starts = span_of(first), ends = span_of(last);
                check_range(span_of(labels), data.view().n_labels(), "labels");
                require(starts.size() == ends.size(), "first and last must have one entry per set");
                for (size_t u = 0; u < starts.size(); ++u)
                    require(starts[u] >= 0 && starts[u] <= ends[u] && ends[u] <= std::ssize(span_of(labels)),
                            "first and last must be a range of labels for each set");
                const auto order = largest_first(starts, ends);
                run_interruptible([&](const Cancel& cancel) {
                    const auto find = [&](Workspace& space, int64_t u) {
                        const auto of_set = slice(span_of(labels), starts[u], ends[u]);
                        int64_t most = 0;
                        for (const int32_t label : of_set) most += data.view().label_instances.n_entries(label);
                        if (const int64_t parts = most > 8 * max_instances ? 4 : 2; most > parts * max_instances) {
                            space.part.find(data.view().label_instances, of_set, most, parts, space.instances);
                            if (std::ssize(space.instances) * 2 > max_instances) return parts;
                        }
                        if (most * 64 > data.view().n_instances())  // all of its memory is cleared
                            space.part.find(data.view().label_instances, of_set, most, 1, space.instances);
                        else
                            space.node.find_instances(of_set, space.instances);
                        return int64_t{1};
                    };
                    usage = count_sets(data.view(), order, threads, cancel, find);
                });
            }
            return to_tuple(std::move(usage));
        },
        "data"_a, "labels"_a.noconvert(), "first"_a.noconvert(), "last"_a.noconvert(), "max_instances"_a, "threads"_a,
        "Count the instances, non-zeros and used features of labels[first[u]:last[u]] for every u. Sets with many "
        "more than max_instances are estimated from half of them, or a quarter.");
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
