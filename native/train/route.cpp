// Routes the training rows that visit the nodes of one level to the nodes of the next: hard negatives.
//
// A row goes to the best inner children of all nodes that it visits, by the score of their paths, and to those of its
// own labels. The margins are those of the weights as they are stored, so a run that is continued routes the same.
#include <array>
#include <memory>
#include <mutex>

#include "common/handles.h"
#include "predict/best_lists.h"
#include "predict/scores.h"
#include "train/held_out_node.h"
#include "train/trained_files.h"

namespace labeltree {
namespace {

constexpr Score route_score{ScoreName::sigmoid, 3, 1};

// The rows that visit each node of a level, in increasing order: row if it has a label of the node, otherwise ~row.
// The scores are logarithms, of the path to the node.
struct Visits {
    std::span<const int64_t> ptr;
    std::span<const int32_t> rows;
    std::span<const float> log_scores;
};

struct Routes {
    std::vector<int64_t> ptr;
    std::vector<int32_t> rows;
    std::vector<float> log_scores;
};

// The places of each row's labels among the leaves of the tree, increasing.
struct LabelPlaces {
    std::vector<int64_t> ptr;
    std::vector<int32_t> places;

    LabelPlaces(const TrainingData& data, const TreeView& tree) : ptr(data.n_instances() + 2, 0) {
        for (const int32_t i : data.label_instances.index) ++ptr[i + 2];
        std::partial_sum(ptr.begin(), ptr.end(), ptr.begin());
        places.resize(ptr.back());
        for (int64_t place = 0; place < std::ssize(tree.labels); ++place)
            for (const int32_t i : data.label_instances.columns(tree.labels[place]))
                places[ptr[i + 1]++] = static_cast<int32_t>(place);
    }

    std::span<const int32_t> of(int32_t row) const {
        return slice(std::span<const int32_t>(places), ptr[row], ptr[row + 1]);
    }
    // Those in a range.
    std::span<const int32_t> of(int32_t row, int64_t first, int64_t last) const {
        const auto all = of(row);
        const auto begin = std::lower_bound(all.begin(), all.end(), first);
        return {begin, std::lower_bound(begin, all.end(), last)};
    }
};

class Router {
  public:
    Router(const TrainedWith& trained, const TrainedFiles& files, const Visits& visits, int64_t first_node,
           int64_t n_best, int threads, const Cancel& cancel)
        : trained_(trained), files_(files), visits_(visits), first_node_(first_node), threads_(threads),
          cancel_(cancel), places_(trained.data, trained.tree), spaces_(threads) {
        best_.reset(trained.data.n_instances(), n_best);
    }

    Routes run() {
        // Large nodes are divided, so that threads share the root.
        std::vector<Part> parts;
        for (int64_t n = 0; n + 1 < std::ssize(visits_.ptr); ++n)
            for (int64_t v = visits_.ptr[n]; v < visits_.ptr[n + 1]; v += part_rows)
                parts.push_back({first_node_ + n, v, std::min(v + part_rows, visits_.ptr[n + 1])});
        own_.resize(parts.size());
        // What rows find in their own nodes rules out most of the others.
        for (const bool is_own : {true, false})
            parallel_for(std::ssize(parts), threads_, [&](int64_t p, int worker) {
                if (cancel_) return;
                if (!spaces_[worker]) spaces_[worker] = std::make_unique<Space>(trained_);
                visit(*spaces_[worker], parts[p], is_own, own_[p]);
            });
        return cancel_ ? Routes{} : collect();
    }

  private:
    static constexpr int64_t part_rows = 1 << 14;

    struct Part {
        int64_t node, first, last;  // a range of the visits
    };
    struct Own {
        int32_t node, row;
        float log_score;
    };
    // Of one thread, kept from part to part.
    struct Space {
        explicit Space(const TrainedWith& trained) : node(trained) {}
        HeldOutNode node;
        std::vector<int64_t> visits;
        std::vector<int32_t> rows;  // of the visits
        std::vector<int32_t> own;   // of each visit, the inner children with labels of the row
        std::vector<size_t> own_ptr;
        float left[max_siblings];  // margins of children that are yet to be offered
    };

    void visit(Space& space, const Part& part, bool is_own, std::vector<Own>& own) {
        const auto children = trained_.tree.shape.children_of(part.node);
        if (std::ranges::none_of(children, [](int32_t child) { return child >= 0; })) return;
        space.visits.clear();
        space.rows.clear();
        for (int64_t v = part.first; v < part.last; ++v) {
            const int32_t row = row_of(visits_.rows[v]);
            // No child has a better score than its parent.
            if ((visits_.rows[v] >= 0) != is_own || (!is_own && visits_.log_scores[v] < bar(row))) continue;
            space.visits.push_back(v);
            space.rows.push_back(row);
        }
        if (space.visits.empty()) return;
        find_own_children(space, part.node, children);
        const auto found = [&](size_t v, int64_t first, std::span<const float> margins) {
            const int32_t row = space.rows[v];
            for (size_t o = space.own_ptr[v]; o < space.own_ptr[v + 1]; ++o) {
                const int64_t c = space.own[o] - first;
                if (c >= 0 && c < std::ssize(margins))
                    own.push_back({children[space.own[o]], row, score(space.visits[v], margins[c])});
            }
            // In the order of their margins, the first to be rejected is nearly the last.
            float* const left = space.left;
            std::fill(std::copy(margins.begin(), margins.end(), left), space.left + max_siblings, minus_infinity);
            for (size_t c = 0; c < margins.size(); ++c)
                if (children[first + c] < 0) left[c] = minus_infinity;
            const std::scoped_lock hold(lock(row));
            float cut = minus_infinity;  // a child with this margin was rejected
            while (best_.limit > 0) {
                const int c = index_of_largest_(left, static_cast<int>(margins.size()));
                const float margin = std::exchange(left[c], minus_infinity);
                if (margin < cut || margin == minus_infinity) break;
                if (!best_.offer(row, {score(space.visits[v], margin), margin, children[first + c]})) cut = margin;
            }
        };
        const BlockColumns block(files_.blocks, trained_.tree.shape, part.node, trained_.data.n_features(),
                                 trained_.settings.bias != 0);
        const auto read = [&](int64_t n_bytes) { files_.done_with(0, static_cast<size_t>(n_bytes)); };
        space.node.run(part.node, block, space.rows, false, cancel_, read, found);
        files_.done_with(static_cast<size_t>(block.feature_bytes()),
                         block.whole() ? static_cast<size_t>(block.weight_bytes()) : 0);
    }

    std::mutex& lock(int32_t row) { return locks_[row % locks_.size()]; }

    float bar(int32_t row) {
        const std::scoped_lock hold(lock(row));
        return best_.limit > 0 ? best_.bar(row) : minus_infinity;
    }

    static int32_t row_of(int32_t visitor) { return visitor < 0 ? ~visitor : visitor; }

    // The log-score of a child with this margin, for a visit of its parent.
    float score(int64_t visit, float margin) const { return visits_.log_scores[visit] + log_g(route_score, margin); }

    void find_own_children(Space& space, int64_t node, std::span<const int32_t> children) const {
        std::vector<int64_t> ends;
        int64_t end = trained_.tree.first[node];
        for (const int32_t child : children) ends.push_back(end += trained_.tree.n_leaves(child));
        space.own.clear();
        space.own_ptr.assign(1, 0);
        for (const int32_t row : space.rows) {
            int64_t before = -1;
            for (const int32_t place : places_.of(row, trained_.tree.first[node], trained_.tree.last[node])) {
                const int64_t c = std::upper_bound(ends.begin(), ends.end(), place) - ends.begin();
                if (std::exchange(before, c) != c && children[c] >= 0) space.own.push_back(static_cast<int32_t>(c));
            }
            space.own_ptr.push_back(space.own.size());
        }
    }

    bool has_label_of(int32_t row, int64_t node) const {
        return !places_.of(row, trained_.tree.first[node], trained_.tree.last[node]).empty();
    }

    // Sorts what was found by node, then row.
    Routes collect() {
        const int64_t first = first_node_ + std::ssize(visits_.ptr) - 1;  // the nodes of a level follow each other
        int64_t last = first;
        for (int64_t u = first_node_; u < first; ++u)
            for (const int32_t child : trained_.tree.shape.children_of(u)) last += child >= 0;
        Routes out;
        out.ptr.assign(last - first + 2, 0);
        const auto for_each = [&](auto&& take) {
            for (const auto& part : own_)
                for (const Own& own : part) take(own.node - first, own.row, own.log_score);
            for (int64_t row = 0; row < trained_.data.n_instances(); ++row)
                for (const Candidate* c = best_.begin(row); c != best_.end(row); ++c)
                    if (!has_label_of(static_cast<int32_t>(row), c->id))
                        take(c->id - first, ~static_cast<int32_t>(row), c->log_score);
        };
        for_each([&](int64_t n, int32_t, float) { ++out.ptr[n + 2]; });
        std::partial_sum(out.ptr.begin(), out.ptr.end(), out.ptr.begin());
        std::vector<std::pair<int32_t, float>> found(out.ptr.back());
        for_each([&](int64_t n, int32_t row, float log_score) { found[out.ptr[n + 1]++] = {row, log_score}; });
        out.ptr.pop_back();
        parallel_for(last - first, threads_, [&](int64_t n, int) {
            std::sort(found.begin() + out.ptr[n], found.begin() + out.ptr[n + 1],
                      [](const auto& a, const auto& b) { return row_of(a.first) < row_of(b.first); });
        });
        for (const auto& [row, log_score] : found) {
            out.rows.push_back(row);
            out.log_scores.push_back(log_score);
        }
        return out;
    }

    const TrainedWith& trained_;
    const TrainedFiles& files_;
    const Visits& visits_;
    const int64_t first_node_;
    const int threads_;
    const Cancel& cancel_;
    const LabelPlaces places_;
    std::vector<std::unique_ptr<Space>> spaces_;
    BestLists best_;  // of each row
    decltype(&index_of_largest) const index_of_largest_ = for_this_cpu<index_of_largest>();
    std::array<std::mutex, 64> locks_;   // of the lists of rows
    std::vector<std::vector<Own>> own_;  // of each part
};

void check_visits(const Visits& visits, const Training& training, int64_t first_node) {
    check_ptr(visits.ptr, visits.rows.size(), "ptr");
    const TreeShape& tree = training.tree.shape;
    const int64_t last_node = first_node + std::ssize(visits.ptr) - 1;
    require(first_node >= 0 && first_node <= tree.n_nodes() && last_node <= tree.n_nodes(),
            "first_node is out of range");
    for (int64_t u = first_node, next = last_node; u < last_node; ++u)
        for (const int32_t child : tree.children_of(u))
            require(child < 0 || child == next++, "the nodes must be those of a level");
    require(visits.rows.size() == visits.log_scores.size(), "log_scores must have one entry per row");
    for (const int32_t row : visits.rows)
        require((row < 0 ? ~row : row) < training.data.n_instances(), "rows has an entry out of range");
    for (const float log_score : visits.log_scores) require(log_score <= 0, "log_scores must not be positive");
}

}  // namespace

void bind_route(nb::module_& m) {
    m.def(
        "route_rows",
        [](const TrainingHandle& handle, const BlockFiles& written, In<float> scales, In<float> biases,
           int64_t first_node, In<int64_t> ptr, In<int32_t> rows, In<float> log_scores, int64_t n_best, int threads) {
            require(n_best >= 0 && threads >= 1, "n_best must not be negative, threads at least 1");
            const Training& training = handle.view();
            const Visits visits{span_of(ptr), span_of(rows), span_of(log_scores)};
            Blocks blocks;
            blocks.codec = written.codec;
            blocks.feature_ptr = written.feature_ptr();
            blocks.weight_ptr = written.weight_ptr();
            blocks.scales = span_of(scales);
            blocks.biases = span_of(biases);
            Routes routes;
            {
                nb::gil_scoped_release no_gil;
                check_visits(visits, training, first_node);
                DataPages pages(training.data.x, handle.mapped());
                const TrainedWith trained{training, {}, 1, pages};
                const TrainedFiles files(std::move(blocks), written.features, written.weights, training.data,
                                         training.tree.shape, first_node, first_node + std::ssize(visits.ptr) - 1);
                run_interruptible([&](const Cancel& cancel) {
                    routes = Router(trained, files, visits, first_node, n_best, threads, cancel).run();
                });
                return_free_memory();
            }
            return nb::make_tuple(to_numpy(std::move(routes.ptr)), to_numpy(std::move(routes.rows)),
                                  to_numpy(std::move(routes.log_scores)));
        },
        "training"_a, "files"_a, nb::kw_only(), "scales"_a.noconvert(), "biases"_a.noconvert(), "first_node"_a,
        "ptr"_a.noconvert(), "rows"_a.noconvert(), "log_scores"_a.noconvert(), "n_best"_a, "threads"_a,
        "Route the rows that visit the nodes of a level, which is trained, to those of the next, in the same form:\n"
        "the rows of each node, ~row without a label of the node, and the logarithm of the path's score.");
}

}  // namespace labeltree
