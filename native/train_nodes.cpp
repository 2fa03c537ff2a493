// Trains the blocks of a plan and writes each to its place on disk: threads over nodes and sibling groups, largest first.
#include <cerrno>
#include <memory>
#include <mutex>
#include <system_error>

#include <unistd.h>

#include "checksum.h"
#include "sibling_groups.h"
#include "solver.h"
#include "tree_binding.h"

namespace labeltree {
namespace {

struct Training {
    Sparse x;
    Sparse label_instances;
    const float* costs;  // of each instance; may be null
    TreeView tree;
    SolverSettings settings;
    bool precise;  // in double precision
};

// Where the plan puts the blocks: position of each node's first feature and first weight in its file.
struct Files {
    const int64_t* feature_ptr;
    const int64_t* weight_ptr;
    int features, weights;               // file descriptors
    int64_t feature_start, weight_start;  // bytes before the first element
    uint32_t* checksums;                 // of each node's features, then weights
};

void write_at(int file, const void* bytes, size_t count, int64_t position) {
    const char* from = static_cast<const char*>(bytes);
    while (count) {
        const ssize_t wrote = ::pwrite(file, from, count, position);
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote < 0) throw std::system_error(errno, std::generic_category(), "writing the model");
        from += wrote;
        position += wrote;
        count -= static_cast<size_t>(wrote);
    }
}

uint32_t checksum_of_file(int file, int64_t position, int64_t count, uint32_t before, const Cancel& cancel) {
    std::vector<char> piece(1 << 20);
    while (count > 0 && !cancel) {
        const ssize_t got = ::pread(file, piece.data(), std::min<int64_t>(count, piece.size()), position);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) throw std::system_error(got < 0 ? errno : EIO, std::generic_category(), "reading the model back");
        before = crc32c(piece.data(), got, before);
        position += got;
        count -= got;
    }
    return before;
}

// A run of a node's children whose weights are held in memory together: all of them, unless the node is very large.
struct Panel {
    int64_t node;
    int64_t first_child, children;
    bool whole_node;

    std::once_flag compacted;
    std::vector<int32_t> instances, features;  // global numbers, sorted
    std::vector<int64_t> ptr;
    std::vector<int32_t> index;
    std::vector<float> value, norms, costs;
    Sparse x{};
    std::vector<float> block;        // features x children
    std::vector<int64_t> leaf;       // place of each child's first label, and the end
    std::vector<int32_t> order;      // of the children: each sixteen are solved together
    std::atomic<int64_t> groups_left{0};
};

struct Task {
    Panel* panel;
    int64_t first_group, groups;
    double work;
};

// Scratch of one thread, kept from task to task.
struct Workspace {
    Workspace(const Training& t) : instances(t.x.rows), features(t.x.columns), local(std::max(t.x.rows, t.x.columns)) {}
    SortedSet instances, features;
    std::vector<int32_t> local;  // global -> local number, of features, then of instances
    std::vector<uint16_t> positive;
    SolverSpace<float> single;
    SolverSpace<double> precise;
};

// Copies the node's instances with features numbered 0..F-1. The root takes the data as it is.
void compact(const Training& t, Panel& panel, Workspace& space, const Cancel& cancel) {
    instances_of(t.tree, t.label_instances, t.x.rows, panel.node, space.instances, panel.instances);
    features_of(t.x, panel.instances, space.features, panel.features);
    const int64_t rows = static_cast<int64_t>(panel.instances.size());
    if (panel.node == 0) {
        panel.x = t.x;
    } else {
        for (size_t f = 0; f < panel.features.size(); ++f) space.local[panel.features[f]] = static_cast<int32_t>(f);
        panel.ptr.assign(1, 0);
        for (int32_t i : panel.instances) panel.ptr.push_back(panel.ptr.back() + t.x.ptr[i + 1] - t.x.ptr[i]);
        panel.index.resize(panel.ptr.back());
        panel.value.resize(panel.ptr.back());
        for (int64_t r = 0; r < rows; ++r) {
            const int64_t from = t.x.ptr[panel.instances[r]];
            for (int64_t k = 0; k < panel.ptr[r + 1] - panel.ptr[r]; ++k) {
                panel.index[panel.ptr[r] + k] = space.local[t.x.index[from + k]];
                panel.value[panel.ptr[r] + k] = t.x.value[from + k];
            }
        }
        panel.x = {panel.ptr.data(), panel.index.data(), panel.value.data(), rows,
                   static_cast<int64_t>(panel.features.size())};
    }
    panel.norms.resize(rows);
    const double bias = t.settings.bias;
    for (int64_t r = 0; r < rows; ++r) {
        double squares = bias * bias;
        for (int64_t k = panel.x.ptr[r]; k < panel.x.ptr[r + 1]; ++k)
            squares += static_cast<double>(panel.x.value[k]) * panel.x.value[k];
        panel.norms[r] = static_cast<float>(squares);
    }
    if (t.costs) {
        panel.costs.resize(rows);
        for (int64_t r = 0; r < rows; ++r) panel.costs[r] = t.costs[panel.instances[r]];
    }
    panel.block.resize((panel.features.size() + (bias != 0)) * panel.children);
    const int32_t* children = t.tree.children + t.tree.child_ptr[panel.node];
    int64_t leaf = t.tree.first[panel.node];
    for (int64_t c = 0; c < panel.first_child; ++c) leaf += t.tree.leaves_of(children[c]);
    panel.leaf.assign(1, leaf);
    for (int64_t c = 0; c < panel.children; ++c)
        panel.leaf.push_back(leaf += t.tree.leaves_of(children[panel.first_child + c]));
    panel.order = group_siblings(t.x, t.label_instances, t.tree.labels, panel.leaf, siblings, cancel);
}

// Bit s of positive[i]: local instance i has a label of the group's sibling s.
void mark_positives(const Training& t, const Panel& panel, const int32_t* group, int64_t count, Workspace& space) {
    for (size_t r = 0; r < panel.instances.size(); ++r) space.local[panel.instances[r]] = static_cast<int32_t>(r);
    space.positive.assign(panel.instances.size(), 0);
    for (int64_t s = 0; s < count; ++s)
        for (int64_t leaf = panel.leaf[group[s]]; leaf < panel.leaf[group[s] + 1]; ++leaf) {
            const int64_t label = t.tree.labels[leaf];
            for (int64_t k = t.label_instances.ptr[label]; k < t.label_instances.ptr[label + 1]; ++k)
                space.positive[space.local[t.label_instances.index[k]]] |= uint16_t(1 << s);
        }
}

template <class Real, int W>
void solve_lanes(const Problem& problem, const SolverSettings& settings, Random random, SolverSpace<Real>& solver,
                 const Cancel& cancel) {
    switch (settings.loss) {
        case Loss::squared_hinge: return solve<Real, W, Loss::squared_hinge>(problem, settings, random, solver, cancel);
        case Loss::hinge: return solve<Real, W, Loss::hinge>(problem, settings, random, solver, cancel);
        case Loss::logistic: return solve<Real, W, Loss::logistic>(problem, settings, random, solver, cancel);
    }
}

template <class Real>
void solve_group(const Training& t, Panel& panel, int64_t group, Workspace& space, SolverSpace<Real>& solver,
                 const Cancel& cancel) {
    const int32_t* children = panel.order.data() + group * siblings;
    const int64_t count = std::min<int64_t>(siblings, panel.children - group * siblings);
    mark_positives(t, panel, children, count, space);
    const Problem problem{panel.x, panel.norms.data(), t.costs ? panel.costs.data() : nullptr, space.positive.data(),
                          static_cast<uint16_t>((1 << count) - 1)};
    const Random random(t.settings.seed, panel.node);
    const int64_t lanes = count <= few_siblings ? few_siblings : siblings;
    if (lanes == few_siblings)
        solve_lanes<Real, few_siblings>(problem, t.settings, random, solver, cancel);
    else
        solve_lanes<Real, siblings>(problem, t.settings, random, solver, cancel);
    const Real* weights = solver.weights.data();
    const int64_t rows = static_cast<int64_t>(panel.features.size());
    auto copy_row = [&](int64_t from, int64_t to) {
        for (int64_t s = 0; s < count; ++s)
            panel.block[to * panel.children + children[s]] = static_cast<float>(weights[from * lanes + s]);
    };
    for (int64_t f = 0; f < rows; ++f) copy_row(panel.node == 0 ? panel.features[f] : f, f);
    if (t.settings.bias != 0) copy_row(panel.x.columns, rows);
}

// The bias is the feature after the last.
void write_panel(const Training& t, Panel& panel, const Files& files) {
    const int64_t u = panel.node, width = t.tree.child_count(u);
    if (t.settings.bias != 0) panel.features.push_back(static_cast<int32_t>(t.x.columns));
    const int64_t rows = static_cast<int64_t>(panel.features.size());
    if (rows != files.feature_ptr[u + 1] - files.feature_ptr[u])
        throw std::invalid_argument("the plan was made for other data: a node's used features differ");
    const int64_t weights_at = files.weight_start + files.weight_ptr[u] * 4;
    if (panel.first_child == 0)
        write_at(files.features, panel.features.data(), rows * 4, files.feature_start + files.feature_ptr[u] * 4);
    if (panel.whole_node) {
        write_at(files.weights, panel.block.data(), panel.block.size() * 4, weights_at);
        files.checksums[u] =
            crc32c(panel.block.data(), panel.block.size() * 4, crc32c(panel.features.data(), rows * 4));
    } else {
        for (int64_t f = 0; f < rows; ++f)
            write_at(files.weights, panel.block.data() + f * panel.children, panel.children * 4,
                     weights_at + (f * width + panel.first_child) * 4);
    }
}

// Assigning {} would empty a vector and keep its memory.
template <class... T>
void free_all(std::vector<T>&... vectors) {
    (std::vector<T>().swap(vectors), ...);
}

void release(Panel& panel) {
    free_all(panel.instances, panel.features, panel.ptr, panel.index, panel.value, panel.norms, panel.costs, panel.block,
             panel.leaf, panel.order);
}

void train_nodes(const Training& t, const Files& files, const int64_t* nonzeros, int64_t panel_bytes, int threads,
                 std::atomic<double>& fraction, const Cancel& cancel) {
    std::vector<std::unique_ptr<Panel>> panels;
    double total = 0;
    for (int64_t u = 0; u < t.tree.nodes; ++u) {
        const int64_t width = t.tree.child_count(u), row_bytes = 4 * (files.feature_ptr[u + 1] - files.feature_ptr[u]);
        const int64_t fitting = std::max<int64_t>(1, panel_bytes / std::max<int64_t>(1, row_bytes * siblings)) * siblings;
        for (int64_t c = 0; c < width; c += fitting) {
            auto panel = std::make_unique<Panel>();
            panel->node = u;
            panel->first_child = c;
            panel->children = std::min(fitting, width - c);
            panel->whole_node = fitting >= width;
            panels.push_back(std::move(panel));
        }
    }
    auto group_work = [&](const Panel& panel) { return static_cast<double>(nonzeros[panel.node]) + 64; };
    auto groups_of = [](const Panel& panel) { return (panel.children + siblings - 1) / siblings; };
    for (const auto& panel : panels) total += group_work(*panel) * groups_of(*panel);

    // The groups of a large panel are tasks of their own; a small panel is one task.
    std::vector<Task> tasks;
    for (const auto& panel : panels) {
        const int64_t groups = groups_of(*panel);
        const double work = group_work(*panel);
        const bool split = threads > 1 && work * groups * 16 * threads > total;
        panel->groups_left = groups;
        for (int64_t g = 0; g < groups; g += split ? 1 : groups)
            tasks.push_back({panel.get(), g, split ? 1 : groups, work * (split ? 1 : groups)});
    }
    std::stable_sort(tasks.begin(), tasks.end(), [&](const Task& a, const Task& b) {
        const double one = group_work(*a.panel) * groups_of(*a.panel), other = group_work(*b.panel) * groups_of(*b.panel);
        return one > other;
    });

    std::vector<std::unique_ptr<Workspace>> spaces(threads);
    std::atomic<int64_t> done{0};
    parallel_for(static_cast<int64_t>(tasks.size()), threads, [&](int64_t k, int worker) {
        if (cancel) return;
        if (!spaces[worker]) spaces[worker] = std::make_unique<Workspace>(t);
        Workspace& space = *spaces[worker];
        Panel& panel = *tasks[k].panel;
        std::call_once(panel.compacted, [&] { compact(t, panel, space, cancel); });
        for (int64_t g = tasks[k].first_group; g < tasks[k].first_group + tasks[k].groups; ++g) {
            if (t.precise)
                solve_group(t, panel, g, space, space.precise, cancel);
            else
                solve_group(t, panel, g, space, space.single, cancel);
        }
        if (cancel) return;
        if (panel.groups_left.fetch_sub(tasks[k].groups) == tasks[k].groups) {
            write_panel(t, panel, files);
            release(panel);
        }
        fraction = static_cast<double>(done += static_cast<int64_t>(tasks[k].work)) / total;
    });
    spaces.clear();
    return_free_memory();
    if (cancel) return;
    for (const auto& panel : panels)  // blocks written in pieces are read back for their checksum
        if (!panel->whole_node && panel->first_child == 0) {
            const int64_t u = panel->node;
            const int64_t features = files.feature_ptr[u + 1] - files.feature_ptr[u];
            const uint32_t crc = checksum_of_file(files.features, files.feature_start + files.feature_ptr[u] * 4,
                                                  features * 4, 0, cancel);
            files.checksums[u] = checksum_of_file(files.weights, files.weight_start + files.weight_ptr[u] * 4,
                                                  (files.weight_ptr[u + 1] - files.weight_ptr[u]) * 4, crc, cancel);
        }
}

Loss loss_named(const std::string& name) {
    if (name == "squared_hinge") return Loss::squared_hinge;
    if (name == "hinge") return Loss::hinge;
    if (name == "logistic") return Loss::logistic;
    throw std::invalid_argument("loss must be squared_hinge, hinge or logistic");
}

}  // namespace

void bind_train_nodes(nb::module_& m) {
    m.def(
        "train_nodes",
        [](In<int64_t> x_ptr, In<int32_t> x_index, In<float> x_value, int64_t feature_count, In<int64_t> label_ptr,
           In<int32_t> label_instances, nb::object costs, In<int64_t> child_ptr, In<int32_t> children,
           In<int32_t> labels, In<int64_t> first, In<int64_t> last, In<int64_t> nonzeros, In<int64_t> feature_ptr,
           In<int64_t> weight_ptr, int feature_file, int64_t feature_start, int weight_file, int64_t weight_start,
           const std::string& loss, double cost, double tolerance, int max_iterations, double bias, uint64_t seed,
           bool precise, int64_t panel_bytes, int threads, nb::object progress) {
            require(threads >= 1 && max_iterations >= 1 && panel_bytes >= 1, "threads, max_iterations or panel_bytes < 1");
            require(cost > 0 && tolerance > 0 && bias >= 0, "cost and tolerance must be positive, bias not negative");
            require(x_value.size() == x_index.size(), "x needs one value an index");
            Training t{};
            t.x = check_sparse(x_ptr, x_index, x_value.data(), feature_count, "x");
            t.label_instances = check_sparse(label_ptr, label_instances, nullptr, t.x.rows, "label_instances");
            t.tree = check_tree(child_ptr, children, labels, first, last, t.label_instances.rows);
            t.precise = precise;
            t.settings = {loss_named(loss), cost, tolerance, max_iterations, bias, seed};
            In<float> cost_array;
            if (!costs.is_none()) {
                cost_array = nb::cast<In<float>>(costs, false);
                require(static_cast<int64_t>(cost_array.size()) == t.x.rows, "costs need one value an instance");
                for (size_t i = 0; i < cost_array.size(); ++i)
                    require(cost_array.data()[i] > 0, "costs must be positive");
                t.costs = cost_array.data();
            }
            require(static_cast<int64_t>(nonzeros.size()) == t.tree.nodes, "nonzeros must have one entry a node");
            for (const auto* ptr : {&feature_ptr, &weight_ptr})
                require(static_cast<int64_t>(ptr->size()) == t.tree.nodes + 1, "pointers must have nodes + 1 entries");
            for (int64_t u = 0; u < t.tree.nodes; ++u)
                require(feature_ptr.data()[u + 1] >= feature_ptr.data()[u] &&
                            weight_ptr.data()[u + 1] - weight_ptr.data()[u] ==
                                (feature_ptr.data()[u + 1] - feature_ptr.data()[u]) * t.tree.child_count(u),
                        "a node's weights must be its features times its children");
            std::vector<uint32_t> checksums(t.tree.nodes, 0);
            {
                nb::gil_scoped_release free;
                const Files files{feature_ptr.data(), weight_ptr.data(), feature_file, weight_file,
                                  feature_start,      weight_start,      checksums.data()};
                std::atomic<double> fraction{0};
                Cancel cancel{false};
                run_watched([&] { train_nodes(t, files, nonzeros.data(), panel_bytes, threads, fraction, cancel); },
                            python_watch(progress, fraction), cancel);
            }
            return to_numpy(std::move(checksums));
        },
        "x_ptr"_a.noconvert(), "x_index"_a.noconvert(), "x_value"_a.noconvert(), "feature_count"_a,
        "label_ptr"_a.noconvert(), "label_instances"_a.noconvert(), "costs"_a.none(), "child_ptr"_a.noconvert(),
        "children"_a.noconvert(), "labels"_a.noconvert(), "first"_a.noconvert(), "last"_a.noconvert(),
        "nonzeros"_a.noconvert(), "feature_ptr"_a.noconvert(), "weight_ptr"_a.noconvert(), "feature_file"_a,
        "feature_start"_a, "weight_file"_a, "weight_start"_a, "loss"_a, "cost"_a, "tolerance"_a, "max_iterations"_a,
        "bias"_a, "seed"_a, "precise"_a, "panel_bytes"_a, "threads"_a, "progress"_a.none(),
        "Solves every node's problems, writes features and weights to the two files; returns the nodes' checksums.");
}

}  // namespace labeltree
