// Trains panels of a plan, from the largest and from the smallest on, and writes each to its place on disk.
#include <memory>
#include <mutex>

#include "blocks/stored.h"
#include "common/choices.h"
#include "common/handles.h"
#include "train/panel.h"

namespace labeltree {
namespace {

// What was written about each panel that is complete, as Python records it to continue after an interruption.
class FinishedPanels {
  public:
    void add(std::vector<uint8_t>&& record) {
        const std::scoped_lock hold(lock_);
        records_.push_back(std::move(record));
    }

    // Returns the records since the last call.
    nb::list take() {
        std::vector<std::vector<uint8_t>> records;
        {
            const std::scoped_lock hold(lock_);
            records.swap(records_);
        }
        nb::list out;
        for (const auto& record : records) out.append(nb::bytes(record.data(), record.size()));
        return out;
    }

  private:
    std::mutex lock_;
    std::vector<std::vector<uint8_t>> records_;
};

// Consecutive children of a node that are trained together.
struct PanelRange {
    int64_t node, first_child, n_children;
};

// All panels of a tree, in the order of the nodes.
std::vector<PanelRange> list_panels(const TreeShape& tree, Codec codec, std::span<const int64_t> feature_ptr,
                                    int64_t panel_bytes) {
    const std::vector<int64_t> block_ptr = first_blocks(tree, codec);
    require(std::ssize(feature_ptr) == block_ptr.back() + 1, "feature_ptr must have one entry per block, and one more");
    std::vector<PanelRange> panels;
    for (int64_t u = 0; u < tree.n_nodes(); ++u) {
        const int64_t width = tree.n_children(u);
        if (width == 0) continue;
        const int64_t n_features = feature_ptr[block_ptr[u] + 1] - feature_ptr[block_ptr[u]];
        // As for floats, whatever is stored: the siblings that are solved together influence each other's rounding.
        const int64_t group_bytes = 4 * n_features * siblings;
        const int64_t n_groups = std::max<int64_t>(1, panel_bytes / std::max<int64_t>(1, group_bytes));
        const int64_t step = codec == Codec::sparse ? panel_children : n_groups * siblings;
        for (int64_t c = 0; c < width; c += step) panels.push_back({u, c, std::min(step, width - c)});
    }
    return panels;
}

// A range of the groups of a panel, which one thread solves.
struct Task {
    Panel* panel;
    int64_t number;  // of the panel
    int64_t first_group, last_group;
    double panel_work, work;
};

// The groups of a large panel are separate tasks; a small panel is one task.
std::vector<Task> make_tasks(const std::vector<std::unique_ptr<Panel>>& panels, std::span<const int64_t> numbers,
                             std::span<const int64_t> n_nonzeros, int threads) {
    auto group_work = [&](const Panel& panel) { return static_cast<double>(n_nonzeros[panel.node()]) + 64; };
    double total = 0;
    for (const auto& panel : panels) total += group_work(*panel) * static_cast<double>(panel->n_groups());
    std::vector<Task> tasks;
    for (size_t p = 0; p < panels.size(); ++p) {
        Panel* const panel = panels[p].get();
        const int64_t n_groups = panel->n_groups();
        const double panel_work = group_work(*panel) * static_cast<double>(n_groups);
        const int64_t step = threads > 1 && panel_work * 16 * threads > total ? 1 : n_groups;
        panel->n_groups_left = n_groups;
        for (int64_t g = 0; g < n_groups; g += step)
            tasks.push_back(
                {panel, numbers[p], g, g + step, panel_work, group_work(*panel) * static_cast<double>(step)});
    }
    std::stable_sort(tasks.begin(), tasks.end(),
                     [](const Task& a, const Task& b) { return a.panel_work > b.panel_work; });
    return tasks;
}

void train_panels(const Training& t, BlockWriter& writer, std::span<const PanelRange> ranges,
                  std::span<const int64_t> numbers, std::span<const int64_t> n_nonzeros, int threads,
                  FinishedPanels& finished, std::atomic<double>& fraction, const Cancel& cancel) {
    std::vector<std::unique_ptr<Panel>> panels;
    for (const int64_t number : numbers) {
        const auto& [node, first_child, n_children] = ranges[number];
        panels.push_back(std::make_unique<Panel>(t, writer, node, first_child, n_children));
    }
    const auto tasks = make_tasks(panels, numbers, n_nonzeros, threads);
    double total = 0;
    for (const Task& task : tasks) total += task.work;
    std::vector<std::unique_ptr<Workspace>> spaces(threads);
    std::atomic<int64_t> done{0}, first{0}, last{std::ssize(tasks)};
    parallel_for(std::ssize(tasks), threads, [&](int64_t, int worker) {
        if (cancel) return;
        if (!spaces[worker]) spaces[worker] = std::make_unique<Workspace>(t);
        // The weights of large panels fill the caches. Half of the threads begin with small panels, so that few threads
        // solve large ones at a time; they meet in the middle, where tasks are too small for a thread to wait long.
        const int64_t k = 2 * worker < threads ? first++ : --last;
        const auto& [panel, number, first_group, last_group, panel_work, work] = tasks[k];
        panel->prepare(*spaces[worker], cancel);
        for (int64_t g = first_group; g < last_group; ++g) panel->solve_group(g, *spaces[worker], cancel);
        if (cancel) return;
        const int64_t n_solved = last_group - first_group;
        if (panel->n_groups_left.fetch_sub(n_solved) == n_solved) {
            panel->write();
            finished.add(panel->record(number));
            panel->release();
        }
        fraction = static_cast<double>(done += static_cast<int64_t>(work)) / total;
    });
    spaces.clear();
    return_free_memory();
}

void check_plan(const TreeShape& tree, const BlockWriter& writer, std::span<const int64_t> n_nonzeros) {
    require(std::ssize(n_nonzeros) == tree.n_nodes(), "n_nonzeros must have one entry per node");
    if (writer.codec() == Codec::sparse) return;  // positions are bounds
    for (int64_t u = 0; u < tree.n_nodes(); ++u)
        require(writer.n_features(u) >= 0 && writer.n_weights(u) == writer.n_features(u) * tree.n_children(u),
                "weight_ptr must step by features times children");
}

}  // namespace

void bind_train_nodes(nb::module_& m) {
    m.attr("LOSSES") = names_of(loss_names);
    m.attr("SIBLINGS") = siblings;
    m.attr("LINE_BYTES") = siblings * sizeof(float);
    m.attr("NEWTON_FEATURE_BYTES") = NewtonSpace::feature_bytes;
    m.attr("NEWTON_INSTANCE_BYTES") = NewtonSpace::instance_bytes;
    m.def(
        "list_panels",
        [](const TreeHandle& tree, std::string_view codec, In<int64_t> feature_ptr, int64_t panel_bytes) {
            require(panel_bytes >= 1, "panel_bytes must be at least 1");
            std::vector<int64_t> nodes, first_children, n_children;
            for (const PanelRange& panel :
                 list_panels(tree.view().shape, choose(codecs, codec, "codec"), span_of(feature_ptr), panel_bytes)) {
                nodes.push_back(panel.node);
                first_children.push_back(panel.first_child);
                n_children.push_back(panel.n_children);
            }
            return nb::make_tuple(to_numpy(std::move(nodes)), to_numpy(std::move(first_children)),
                                  to_numpy(std::move(n_children)));
        },
        "tree"_a, "codec"_a, "feature_ptr"_a.noconvert(), "panel_bytes"_a,
        "Return the node, the first child and the number of children of every panel.");
    nb::class_<FinishedPanels>(m, "FinishedPanels")
        .def(nb::init<>())
        .def("take", &FinishedPanels::take, "Return the records of the panels that were written since the last call.");
    m.def(
        "train_panels",
        [](const DataHandle& data, const TreeHandle& tree, std::optional<In<float>> costs, In<double> positive_costs,
           In<int64_t> n_nonzeros, In<int64_t> feature_ptr, In<int64_t> weight_ptr, int feature_file,
           int64_t feature_start, int weight_file, int64_t weight_start, std::string_view loss, In<double> node_costs,
           double tolerance, int max_iterations, double bias, uint64_t seed, bool precise, int64_t panel_bytes,
           int threads, nb::handle progress, std::string_view codec, float threshold, In<int64_t> panels,
           FinishedPanels& finished) {
            require(threads >= 1 && max_iterations >= 1 && panel_bytes >= 1,
                    "threads, max_iterations and panel_bytes must be at least 1");
            require(tolerance > 0 && bias >= 0, "tolerance must be positive, bias not negative");
            check_fit(data, tree);
            const Training training{data.view(),
                                    tree.view(),
                                    costs ? span_of(*costs) : std::span<const float>{},
                                    // The costs are those of each node, see Panel::solve_with.
                                    {choose(loss_names, loss, "loss"), 1, 1, tolerance, max_iterations, bias, seed},
                                    span_of(node_costs),
                                    span_of(positive_costs),
                                    precise};
            require(threshold >= 0, "threshold must not be negative");
            BlockWriter writer(training.tree.shape, choose(codecs, codec, "codec"), threshold, data.view().n_features(),
                               span_of(feature_ptr), span_of(weight_ptr), {feature_file, feature_start},
                               {weight_file, weight_start});
            const auto ranges = list_panels(training.tree.shape, writer.codec(), span_of(feature_ptr), panel_bytes);
            {
                nb::gil_scoped_release no_gil;
                for (const int64_t panel : span_of(panels))
                    require(panel >= 0 && panel < std::ssize(ranges), "panels has an entry out of range");
                require(!costs || std::ssize(training.costs) == training.data.n_instances(),
                        "costs must have one entry per instance");
                require(std::ssize(training.positive_costs) == training.tree.shape.n_nodes(),
                        "positive_costs must have one entry per node");
                require(std::ssize(training.node_costs) == training.tree.shape.n_nodes(),
                        "node_costs must have one entry per node");
                for (const double c : training.node_costs) require(c > 0, "node_costs must be positive");
                for (const float c : training.costs) require(c > 0, "costs must be positive");
                for (const double c : training.positive_costs) require(c > 0, "positive_costs must be positive");
                check_plan(training.tree.shape, writer, span_of(n_nonzeros));
                run_interruptible(progress, [&](std::atomic<double>& fraction, const Cancel& cancel) {
                    train_panels(training, writer, ranges, span_of(panels), span_of(n_nonzeros), threads, finished,
                                 fraction, cancel);
                });
            }
        },
        "data"_a, "tree"_a, "costs"_a.noconvert().none(), "positive_costs"_a.noconvert(), "n_nonzeros"_a.noconvert(),
        "feature_ptr"_a.noconvert(), "weight_ptr"_a.noconvert(), "feature_file"_a, "feature_start"_a, "weight_file"_a,
        "weight_start"_a, "loss"_a, "node_costs"_a.noconvert(), "tolerance"_a, "max_iterations"_a, "bias"_a, "seed"_a,
        "precise"_a, "panel_bytes"_a, "threads"_a, "progress"_a.none(), "codec"_a, "threshold"_a,
        "panels"_a.noconvert(), "finished"_a,
        "Train some panels and write their features and weights to the two files; add a record of each to finished.");
}

}  // namespace labeltree
