// Ranks training rows with several score functions as if the model had been trained without them.
//
// A beam search, level by level for all rows and score functions together. Siblings rank by their margins whatever the
// function, so of each visit only the best few children are kept, and a node is read once for all.
#include <array>
#include <memory>
#include <mutex>
#include <numeric>
#include <string>

#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "common/choices.h"
#include "common/handles.h"
#include "predict/best_lists.h"
#include "train/held_out_node.h"
#include "train/trained_files.h"

namespace labeltree {
namespace {

struct Trial {
    std::span<const int32_t> rows;
    std::vector<Score> scores;
    std::vector<PathWeights> paths;  // of each score
    int64_t beam, top;
};

class HeldOutSearch {
  public:
    HeldOutSearch(const TrainedWith& trained, const TrainedFiles& files, const Trial& trial, int threads,
                  const Cancel& cancel)
        : trained_(trained), files_(files), trial_(trial), threads_(threads), cancel_(cancel), spaces_(threads) {}

    // Fills the lists of labels: row by row, one list for each score function.
    void run() {
        find_own_labels();
        const int64_t n_lists = n_rows() * n_scores();
        labels.reset(n_lists, trial_.top);
        beams_.reset(n_lists, trial_.beam);
        for (int64_t list = 0; list < n_lists; ++list) beams_.offer(list, {0, 0, 0});
        depth_ = 0;
        do {
            next_.reset(n_lists, trial_.beam);
            for (int64_t list = 0; list < n_lists; ++list) beams_.rank(list);
            for (const bool first_stage : {true, false}) {
                find_visits(first_stage);
                visit_nodes();
                if (cancel_) return;
            }
            std::swap(beams_, next_);
            ++depth_;
        } while (std::any_of(beams_.sizes.begin(), beams_.sizes.end(), [](int32_t size) { return size > 0; }));
    }

    BestLists labels;

  private:
    struct Visit {
        int32_t node, row;
        bool trained;
    };

    // Of one thread, kept from node to node.
    struct Space {
        explicit Space(const TrainedWith& trained) : node(trained) {}
        HeldOutNode node;
        BestLists nodes, leaves;  // the best children of each visit of the node, by margin
    };

    int64_t n_rows() const { return std::ssize(trial_.rows); }
    int64_t n_scores() const { return std::ssize(trial_.scores); }

    // The places of each row's labels among the leaves: with one of them below a node, the node was trained on the row.
    void find_own_labels() {
        std::vector<int32_t> row_of(trained_.data.n_instances(), -1);
        for (int64_t q = 0; q < n_rows(); ++q) row_of[trial_.rows[q]] = static_cast<int32_t>(q);
        own_labels_.resize(n_rows());
        for (int64_t place = 0; place < std::ssize(trained_.tree.labels); ++place)
            for (const int32_t i : trained_.data.label_instances.columns(trained_.tree.labels[place]))
                if (row_of[i] >= 0) own_labels_[row_of[i]].push_back(static_cast<int32_t>(place));
    }

    bool is_trained_on(int64_t q, int64_t node) const {
        if (node == 0) return true;
        if (trained_.foreign.has(node, trial_.rows[q])) return true;
        const auto& own = own_labels_[q];
        const auto next = std::lower_bound(own.begin(), own.end(), trained_.tree.first[node]);
        return next != own.end() && *next < trained_.tree.last[node];
    }

    // The visits of a stage: first the best nodes of each row, and those that were trained on it, so that a node is
    // prepared for such rows once; then the others, most of which the labels found by then rule out.
    void find_visits(bool first_stage) {
        constexpr int64_t n_best = 3;
        open_ptr_.assign(1, 0);
        open_.clear();
        visits_.clear();
        for (int64_t q = 0; q < n_rows(); ++q) {
            const auto begin = std::ssize(visits_);
            for (int64_t list = q * n_scores(); list < (q + 1) * n_scores(); ++list) {
                for (const Candidate* c = beams_.begin(list); c != beams_.end(list); ++c) {
                    if (trial_.paths[list % n_scores()].to_bound() * c->log_score < labels.bar(list)) continue;
                    const bool trained = is_trained_on(q, c->id);
                    if ((c - beams_.begin(list) < n_best || trained) != first_stage) continue;
                    open_.push_back(*c);
                    visits_.push_back({c->id, static_cast<int32_t>(q), trained});
                }
                open_ptr_.push_back(std::ssize(open_));
            }
            const auto by_node = [](const Visit& a, const Visit& b) { return a.node < b.node; };
            const auto same = [](const Visit& a, const Visit& b) { return a.node == b.node; };
            std::sort(visits_.begin() + begin, visits_.end(), by_node);
            visits_.erase(std::unique(visits_.begin() + begin, visits_.end(), same), visits_.end());
        }
    }

    // Finds the best children of every visit, node by node.
    void visit_nodes() {
        std::vector<int32_t> order(visits_.size());
        std::iota(order.begin(), order.end(), 0);
        std::sort(order.begin(), order.end(),
                  [&](int32_t a, int32_t b) { return std::pair(visits_[a].node, a) < std::pair(visits_[b].node, b); });
        std::vector<size_t> starts;
        for (size_t k = 0; k < order.size(); ++k)
            if (k == 0 || visits_[order[k]].node != visits_[order[k - 1]].node) starts.push_back(k);
        starts.push_back(order.size());
        parallel_for(std::ssize(starts) - 1, threads_, [&](int64_t k, int worker) {
            if (cancel_) return;
            if (!spaces_[worker]) spaces_[worker] = std::make_unique<Space>(trained_);
            visit_node(*spaces_[worker], {order.data() + starts[k], order.data() + starts[k + 1]});
        });
    }

    // These are all the visits of one node.
    void visit_node(Space& space, std::span<const int32_t> numbers) {
        const int64_t node = visits_[numbers.front()].node;
        std::vector<int32_t> rows;
        bool any_trained = false;
        for (const int32_t number : numbers) {
            rows.push_back(trial_.rows[visits_[number].row]);
            any_trained |= visits_[number].trained;
        }
        const auto children = trained_.tree.shape.children_of(node);
        space.nodes.reset(std::ssize(numbers), std::min(trial_.beam, std::ssize(children)));
        space.leaves.reset(std::ssize(numbers), std::min(trial_.top, std::ssize(children)));
        const auto keep_best = [&](size_t v, int64_t first, std::span<const float> margins) {
            const auto number = static_cast<int64_t>(v);
            float bars[] = {space.nodes.bar(number), space.leaves.bar(number)};
            for (size_t c = 0; c < margins.size(); ++c) {
                const int32_t child = children[first + c];
                if (margins[c] < bars[child < 0]) continue;
                BestLists& best = child < 0 ? space.leaves : space.nodes;
                best.offer(number, {margins[c], margins[c], child < 0 ? ~child : child});
                bars[child < 0] = best.bar(number);
            }
        };
        const BlockColumns block(files_.blocks, trained_.tree.shape, node, trained_.data.n_features(),
                                 trained_.settings.bias != 0);
        const auto read = [&](int64_t n_bytes) { files_.done_with(0, static_cast<size_t>(n_bytes)); };
        space.node.run(node, block, rows, any_trained, cancel_, read, keep_best);
        files_.done_with(static_cast<size_t>(block.feature_bytes()),
                         block.whole() ? static_cast<size_t>(block.weight_bytes()) : 0);
        for (int64_t v = 0; v < std::ssize(numbers); ++v) {
            space.nodes.rank(v);
            space.leaves.rank(v);
            expand(visits_[numbers[v]], space, v);
        }
    }

    // Offers the best children of a visited node to the next beams of the row, and to its labels. The order of visits
    // does not matter: a list keeps the best of all that it is offered.
    void expand(const Visit& visit, Space& space, int64_t v) {
        const std::scoped_lock hold(locks_[visit.row % locks_.size()]);
        for (int64_t s = 0; s < n_scores(); ++s) {
            const int64_t list = visit.row * n_scores() + s;
            for (int64_t k = open_ptr_[list]; k < open_ptr_[list + 1]; ++k) {
                if (open_[k].id != visit.node) continue;
                const float to_score = trial_.paths[s].to_score(depth_), to_sum = trial_.paths[s].to_sum(depth_);
                for (const auto& [children, to, factor] :
                     {std::tuple(&space.leaves, &labels, to_score), std::tuple(&space.nodes, &next_, 1.0f)})
                    // They are ranked: if one is rejected, so are those after it.
                    for (const Candidate* c = children->begin(v); c != children->end(v); ++c) {
                        const float sum = open_[k].log_score + to_sum * log_g(trial_.scores[s], c->margin);
                        if (!to->offer(list, {factor * sum, c->margin, c->id})) break;
                    }
            }
        }
    }

    const TrainedWith& trained_;
    const TrainedFiles& files_;
    const Trial& trial_;
    const int threads_;
    const Cancel& cancel_;
    std::vector<std::unique_ptr<Space>> spaces_;
    std::array<std::mutex, 64> locks_;  // of the lists of rows
    std::vector<std::vector<int32_t>> own_labels_;
    BestLists beams_, next_;         // of each row and score function, by the sums of PathWeights
    int64_t depth_ = 0;              // of the nodes in the beams
    std::vector<int64_t> open_ptr_;  // of each row and score function, the nodes to visit in this stage
    std::vector<Candidate> open_;
    std::vector<Visit> visits_;  // the same of each row with any function, every node once
};

}  // namespace

void bind_held_out(nb::module_& m) {
    m.def(
        "held_out_rankings",
        [](const TrainingHandle& handle, const BlockFiles& written, In<float> scales, In<float> biases,
           In<int32_t> rows, const std::vector<std::tuple<std::string, float, float>>& functions, int64_t beam,
           int64_t top, int64_t max_instances, int threads) {
            require(beam >= 1 && top >= 1 && max_instances >= 1 && threads >= 1,
                    "beam, top, max_instances and threads must be at least 1");
            const Training& training = handle.view();
            const TreeShape& shape = training.tree.shape;
            require(training.settings.loss != Loss::hinge, "loss must have a second derivative");
            DataPages pages(training.data.x, handle.mapped());
            const TrainedWith trained{training,
                                      training.settings.loss == Loss::logistic
                                          ? HeldOutKernels::of<Loss::logistic>()
                                          : HeldOutKernels::of<Loss::squared_hinge>(),
                                      max_instances, pages};
            Blocks blocks;
            blocks.codec = written.codec;
            blocks.feature_ptr = written.feature_ptr();
            blocks.weight_ptr = written.weight_ptr();
            blocks.scales = span_of(scales);
            blocks.biases = span_of(biases);
            Trial trial{span_of(rows), {}, {}, std::min(beam, shape.n_nodes()), std::min(top, shape.n_labels())};
            for (const auto& [name, scale, path_weight] : functions) {
                require(scale > 0 && std::isfinite(scale), "scale must be positive and finite");
                require(path_weight > 0 && path_weight <= 1, "path_weight must be above 0, and at most 1");
                trial.scores.push_back({choose(score_names, name, "score"), scale, path_weight});
                trial.paths.emplace_back(path_weight, shape.n_levels());
            }
            std::vector<int32_t> labels;
            std::vector<float> label_scores;
            {
                nb::gil_scoped_release no_gil;
                check_range(trial.rows, training.data.n_instances(), "rows");
                for (size_t q = 1; q < trial.rows.size(); ++q)
                    require(trial.rows[q - 1] < trial.rows[q], "rows must increase");
                const TrainedFiles files(std::move(blocks), written.features, written.weights, training.data, shape);
                int64_t size;
                require(!__builtin_mul_overflow(std::ssize(functions) * std::ssize(trial.rows), top, &size),
                        "top is too large");
                labels.assign(size, -1);
                label_scores.assign(labels.size(), 0);
                run_interruptible([&](const Cancel& cancel) {
                    HeldOutSearch search(trained, files, trial, threads, cancel);
                    search.run();
                    const int64_t n_scores = std::ssize(trial.scores), n_rows = std::ssize(trial.rows);
                    for (int64_t list = 0; list < n_scores * n_rows; ++list) {
                        search.labels.rank(list);
                        int64_t at = (list % n_scores * n_rows + list / n_scores) * top;
                        for (const Candidate* c = search.labels.begin(list); c != search.labels.end(list); ++c, ++at) {
                            labels[at] = c->id;
                            label_scores[at] = score_of(c->log_score);
                        }
                    }
                });
                return_free_memory();
            }
            return nb::make_tuple(to_numpy(std::move(labels)), to_numpy(std::move(label_scores)));
        },
        "training"_a, "files"_a, nb::kw_only(), "scales"_a.noconvert(), "biases"_a.noconvert(), "rows"_a.noconvert(),
        "functions"_a, "beam"_a, "top"_a, "max_instances"_a, "threads"_a,
        "Rank the labels of training rows by a tree, as if it had been trained without them, with every score function.\n"
        "Return the labels and their scores: flat arrays, functions x rows x top, padded with -1 and 0.");
}

}  // namespace labeltree
