// Trains the blocks of a plan, the largest first, and writes each to its place on disk.
#include <memory>

#include "choices.h"
#include "handles.h"
#include "panel.h"
#include "stored.h"

namespace labeltree {
namespace {

// A range of the groups of a panel, which one thread solves.
struct Task {
    Panel* panel;
    int64_t first_group, last_group;
    double panel_work, work;
};

std::vector<std::unique_ptr<Panel>> make_panels(const Training& t, BlockWriter& writer, int64_t panel_bytes) {
    std::vector<std::unique_ptr<Panel>> panels;
    for (int64_t u = 0; u < t.tree.shape.n_nodes(); ++u) {
        const int64_t width = t.tree.shape.n_children(u);
        // As for floats, whatever is stored: the siblings that are solved together influence each other's rounding.
        const int64_t group_bytes = 4 * writer.n_features(u) * siblings;
        const int64_t n_groups = std::max<int64_t>(1, panel_bytes / std::max<int64_t>(1, group_bytes));
        const int64_t step = writer.codec() == Codec::sparse ? panel_children : n_groups * siblings;
        for (int64_t c = 0; c < width; c += step)
            panels.push_back(std::make_unique<Panel>(t, writer, u, c, std::min(step, width - c)));
    }
    return panels;
}

// The groups of a large panel are separate tasks; a small panel is one task.
std::vector<Task> make_tasks(const std::vector<std::unique_ptr<Panel>>& panels, std::span<const int64_t> n_nonzeros,
                             int threads) {
    auto group_work = [&](const Panel& panel) { return static_cast<double>(n_nonzeros[panel.node()]) + 64; };
    double total = 0;
    for (const auto& panel : panels) total += group_work(*panel) * static_cast<double>(panel->n_groups());
    std::vector<Task> tasks;
    for (const auto& panel : panels) {
        const int64_t n_groups = panel->n_groups();
        const double panel_work = group_work(*panel) * static_cast<double>(n_groups);
        const int64_t step = threads > 1 && panel_work * 16 * threads > total ? 1 : n_groups;
        panel->n_groups_left = n_groups;
        for (int64_t g = 0; g < n_groups; g += step)
            tasks.push_back({panel.get(), g, g + step, panel_work, group_work(*panel) * static_cast<double>(step)});
    }
    std::stable_sort(tasks.begin(), tasks.end(),
                     [](const Task& a, const Task& b) { return a.panel_work > b.panel_work; });
    return tasks;
}

// Returns the number of problems whose solution is not proven.
int64_t train_nodes(const Training& t, BlockWriter& writer, std::span<const int64_t> n_nonzeros, int64_t panel_bytes,
                    int threads, std::atomic<double>& fraction, const Cancel& cancel) {
    const auto panels = make_panels(t, writer, panel_bytes);
    const auto tasks = make_tasks(panels, n_nonzeros, threads);
    double total = 0;
    for (const Task& task : tasks) total += task.work;
    std::vector<std::unique_ptr<Workspace>> spaces(threads);
    std::atomic<int64_t> done{0};
    parallel_for(std::ssize(tasks), threads, [&](int64_t k, int worker) {
        if (cancel) return;
        if (!spaces[worker]) spaces[worker] = std::make_unique<Workspace>(t);
        const auto& [panel, first_group, last_group, panel_work, work] = tasks[k];
        panel->prepare(*spaces[worker], cancel);
        for (int64_t g = first_group; g < last_group; ++g) panel->solve_group(g, *spaces[worker], cancel);
        if (cancel) return;
        const int64_t n_solved = last_group - first_group;
        if (panel->n_groups_left.fetch_sub(n_solved) == n_solved) {
            panel->write();
            panel->release();
        }
        fraction = static_cast<double>(done += static_cast<int64_t>(work)) / total;
    });
    spaces.clear();
    return_free_memory();
    int64_t n_open = 0;
    for (const auto& panel : panels) {
        n_open += panel->n_open;
        if (!cancel && writer.codec() != Codec::sparse && !panel->is_whole_node() && panel->is_first())
            writer.read_checksum(panel->node(), cancel);
    }
    writer.finish(cancel);
    return n_open;
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
    m.attr("LINE_BYTES") = siblings * sizeof(float);
    m.attr("NEWTON_FEATURE_BYTES") = NewtonSpace::feature_bytes;
    m.attr("NEWTON_INSTANCE_BYTES") = NewtonSpace::instance_bytes;
    m.def(
        "train_nodes",
        [](const DataHandle& data, const TreeHandle& tree, std::optional<In<float>> costs, In<double> positive_costs,
           In<int64_t> n_nonzeros, In<int64_t> feature_ptr, In<int64_t> weight_ptr, int feature_file,
           int64_t feature_start, int weight_file, int64_t weight_start, std::string_view loss, double cost,
           double tolerance, int max_iterations, double bias, uint64_t seed, bool precise, int64_t panel_bytes,
           int threads, nb::handle progress, std::string_view codec, float threshold) {
            require(threads >= 1 && max_iterations >= 1 && panel_bytes >= 1,
                    "threads, max_iterations and panel_bytes must be at least 1");
            require(cost > 0 && tolerance > 0 && bias >= 0, "cost and tolerance must be positive, bias not negative");
            check_fit(data, tree);
            const Training training{data.view(),
                                    tree.view(),
                                    costs ? span_of(*costs) : std::span<const float>{},
                                    {choose(loss_names, loss, "loss"), cost, 1, tolerance, max_iterations, bias, seed},
                                    span_of(positive_costs),
                                    precise};
            require(threshold >= 0, "threshold must not be negative");
            BlockWriter writer(training.tree.shape, choose(codecs, codec, "codec"), threshold, data.view().n_features(),
                               span_of(feature_ptr), span_of(weight_ptr), {feature_file, feature_start},
                               {weight_file, weight_start});
            int64_t n_open = 0;
            {
                nb::gil_scoped_release no_gil;
                require(!costs || std::ssize(training.costs) == training.data.n_instances(),
                        "costs must have one entry per instance");
                require(std::ssize(training.positive_costs) == training.tree.shape.n_nodes(),
                        "positive_costs must have one entry per node");
                for (const float c : training.costs) require(c > 0, "costs must be positive");
                for (const double c : training.positive_costs) require(c > 0, "positive_costs must be positive");
                check_plan(training.tree.shape, writer, span_of(n_nonzeros));
                run_interruptible(progress, [&](std::atomic<double>& fraction, const Cancel& cancel) {
                    n_open = train_nodes(training, writer, span_of(n_nonzeros), panel_bytes, threads, fraction, cancel);
                });
            }
            return nb::make_tuple(to_python(std::move(writer.written)), n_open);
        },
        "data"_a, "tree"_a, "costs"_a.noconvert().none(), "positive_costs"_a.noconvert(), "n_nonzeros"_a.noconvert(),
        "feature_ptr"_a.noconvert(), "weight_ptr"_a.noconvert(), "feature_file"_a, "feature_start"_a, "weight_file"_a,
        "weight_start"_a, "loss"_a, "cost"_a, "tolerance"_a, "max_iterations"_a, "bias"_a, "seed"_a, "precise"_a,
        "panel_bytes"_a, "threads"_a, "progress"_a.none(), "codec"_a, "threshold"_a,
        "Train every node and write its features and weights to the two files; return what was written, and the number "
        "of problems that did not converge.");
}

}  // namespace labeltree
