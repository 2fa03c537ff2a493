// Trains strips of a plan, from the largest and from the smallest on, and writes each to its place on disk.
#include <memory>
#include <mutex>

#include "blocks/stored.h"
#include "common/choices.h"
#include "train/strip.h"

namespace labeltree {
namespace {

// What was written about each strip that is complete, as Python records it to continue after an interruption.
class FinishedStrips {
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
struct StripRange {
    int64_t node, first_child, n_children;
};

// All strips of a tree, in the order of the nodes.
std::vector<StripRange> list_strips(const TreeShape& tree, Codec codec, std::span<const int64_t> feature_ptr,
                                    int64_t strip_bytes) {
    const std::vector<int64_t> block_ptr = first_blocks(tree, codec);
    require(std::ssize(feature_ptr) == block_ptr.back() + 1, "feature_ptr must have one entry per block, and one more");
    std::vector<StripRange> strips;
    for (int64_t u = 0; u < tree.n_nodes(); ++u) {
        const int64_t width = tree.n_children(u);
        if (width == 0) continue;
        const int64_t n_features = feature_ptr[block_ptr[u] + 1] - feature_ptr[block_ptr[u]];
        // As for floats, whatever is stored: the siblings that are solved together influence each other's rounding.
        const int64_t group_bytes = 4 * n_features * siblings;
        const int64_t n_groups = std::max<int64_t>(1, strip_bytes / std::max<int64_t>(1, group_bytes));
        const int64_t step = codec == Codec::sparse ? block_children : n_groups * siblings;
        for (int64_t c = 0; c < width; c += step) strips.push_back({u, c, std::min(step, width - c)});
    }
    return strips;
}

// A range of the groups of a strip, which one thread solves.
struct Task {
    Strip* strip;
    int64_t number;  // of the strip
    int64_t first_group, last_group;
    double strip_work, work;
};

// The groups of a large strip are separate tasks; a small strip is one task.
std::vector<Task> make_tasks(const std::vector<std::unique_ptr<Strip>>& strips, std::span<const int64_t> numbers,
                             std::span<const int64_t> n_nonzeros, int threads) {
    auto group_work = [&](const Strip& strip) { return static_cast<double>(n_nonzeros[strip.node()]) + 64; };
    double total = 0;
    for (const auto& strip : strips) total += group_work(*strip) * static_cast<double>(strip->n_groups());
    std::vector<Task> tasks;
    for (size_t p = 0; p < strips.size(); ++p) {
        Strip* const strip = strips[p].get();
        const int64_t n_groups = strip->n_groups();
        const double strip_work = group_work(*strip) * static_cast<double>(n_groups);
        const int64_t step = threads > 1 && strip_work * 16 * threads > total ? 1 : n_groups;
        strip->n_groups_left = n_groups;
        for (int64_t g = 0; g < n_groups; g += step)
            tasks.push_back(
                {strip, numbers[p], g, g + step, strip_work, group_work(*strip) * static_cast<double>(step)});
    }
    std::stable_sort(tasks.begin(), tasks.end(),
                     [](const Task& a, const Task& b) { return a.strip_work > b.strip_work; });
    return tasks;
}

void train_strips(const Training& t, BlockWriter& writer, std::span<const StripRange> ranges,
                  std::span<const int64_t> numbers, std::span<const int64_t> n_nonzeros, int threads,
                  FinishedStrips& finished, std::atomic<double>& fraction, const Cancel& cancel) {
    std::vector<std::unique_ptr<Strip>> strips;
    for (const int64_t number : numbers) {
        const auto& [node, first_child, n_children] = ranges[number];
        strips.push_back(std::make_unique<Strip>(t, writer, node, first_child, n_children));
    }
    const auto tasks = make_tasks(strips, numbers, n_nonzeros, threads);
    double total = 0;
    for (const Task& task : tasks) total += task.work;
    std::vector<std::unique_ptr<Workspace>> spaces(threads);
    std::atomic<int64_t> done{0}, first{0}, last{std::ssize(tasks)};
    parallel_for(std::ssize(tasks), threads, [&](int64_t, int worker) {
        if (cancel) return;
        if (!spaces[worker]) spaces[worker] = std::make_unique<Workspace>(t);
        // The weights of large strips fill the caches. Half of the threads begin with small strips, so that few threads
        // solve large ones at a time; they meet in the middle, where tasks are too small for a thread to wait long.
        const int64_t k = 2 * worker < threads ? first++ : --last;
        const auto& [strip, number, first_group, last_group, strip_work, work] = tasks[k];
        strip->prepare(*spaces[worker], cancel);
        for (int64_t g = first_group; g < last_group; ++g) strip->solve_group(g, *spaces[worker], cancel);
        if (cancel) return;
        const int64_t n_solved = last_group - first_group;
        if (strip->n_groups_left.fetch_sub(n_solved) == n_solved) {
            strip->write();
            finished.add(strip->record(number));
            strip->release();
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

void bind_train_strips(nb::module_& m) {
    m.attr("LOSSES") = names_of(loss_names);
    m.attr("SIBLINGS") = siblings;
    m.attr("LINE_BYTES") = siblings * sizeof(float);
    m.attr("NEWTON_FEATURE_BYTES") = NewtonSpace::feature_bytes;
    m.attr("NEWTON_INSTANCE_BYTES") = NewtonSpace::instance_bytes;
    m.def(
        "list_strips",
        [](const TreeHandle& tree, std::string_view codec, In<int64_t> feature_ptr, int64_t strip_bytes) {
            require(strip_bytes >= 1, "strip_bytes must be at least 1");
            std::vector<int64_t> nodes, first_children, n_children;
            for (const StripRange& strip :
                 list_strips(tree.view().shape, choose(codecs, codec, "codec"), span_of(feature_ptr), strip_bytes)) {
                nodes.push_back(strip.node);
                first_children.push_back(strip.first_child);
                n_children.push_back(strip.n_children);
            }
            return nb::make_tuple(to_numpy(std::move(nodes)), to_numpy(std::move(first_children)),
                                  to_numpy(std::move(n_children)));
        },
        "tree"_a, "codec"_a, "feature_ptr"_a.noconvert(), "strip_bytes"_a,
        "Return the node, the first child and the number of children of every strip.");
    nb::class_<FinishedStrips>(m, "FinishedStrips")
        .def(nb::init<>())
        .def("take", &FinishedStrips::take, "Return the records of the strips that were written since the last call.");
    m.def(
        "train_strips",
        [](const TrainingHandle& handle, const BlockFiles& files, float threshold, In<int64_t> n_nonzeros,
           int64_t strip_bytes, In<int64_t> strips, FinishedStrips& finished, int threads, nb::handle progress) {
            require(threads >= 1 && strip_bytes >= 1, "threads and strip_bytes must be at least 1");
            require(threshold >= 0, "threshold must not be negative");
            const Training& training = handle.view();
            BlockWriter writer = files.writer(training.tree.shape, threshold, training.data.n_features());
            const auto ranges = list_strips(training.tree.shape, files.codec, files.feature_ptr(), strip_bytes);
            nb::gil_scoped_release no_gil;
            for (const int64_t strip : span_of(strips))
                require(strip >= 0 && strip < std::ssize(ranges), "strips has an entry out of range");
            check_plan(training.tree.shape, writer, span_of(n_nonzeros));
            run_interruptible(progress, [&](std::atomic<double>& fraction, const Cancel& cancel) {
                train_strips(training, writer, ranges, span_of(strips), span_of(n_nonzeros), threads, finished,
                             fraction, cancel);
            });
        },
        "training"_a, "files"_a, nb::kw_only(), "threshold"_a, "n_nonzeros"_a.noconvert(), "strip_bytes"_a,
        "strips"_a.noconvert(), "finished"_a, "threads"_a, "progress"_a.none(),
        "Train some strips and write their features and weights to the two files; add a record of each to finished.");
}

}  // namespace labeltree
