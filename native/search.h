// One worker's beam search: for a chunk of queries, the best labels and their scores.
//
// A chunk goes level by level, and within a level node by node, so that a node's block is read once for all the queries
// that reach it; a chunk of one query goes best node first. The order of visits does not matter: the labels kept are
// the best of those that the beam reaches, and a score depends on its path alone. So neither batches nor threads change
// a bit of a result.
#pragma once

#include <algorithm>
#include <vector>

#include "best_lists.h"
#include "forest.h"

namespace labeltree {

struct Queries {
    const int64_t* indptr;
    const int32_t* indices;
    const float* data;
    int64_t rows;
};

struct SearchSettings {
    int64_t beam, top;
    int score;
};

struct Result {
    int32_t* labels;
    float* scores;
};

// One worker's search: its buffers serve chunk after chunk.
class Search {
   public:
    Search(const Forest& forest, const SearchSettings& settings, const Cancel& cancel)
        : forest_(forest), settings_(settings), cancel_(cancel), kernels_(margin_kernels()) {}

    // Answers queries [first, last).
    void run(const Queries& queries, int64_t first, int64_t last, const Result& result) {
        take(queries, first, last);
        const int64_t top = std::min(settings_.top, forest_.n_labels);
        labels_.reset(count_, several() ? 0 : top);
        if (several() && static_cast<int64_t>(pools_.size()) < count_) pools_.resize(count_);
        for (const Tree& tree : forest_.trees) goes_best_first(tree) ? search_best_first(tree) : search(tree);
        if (cancel_) return;
        for (int64_t q = 0; q < count_; ++q) {
            if (several()) merge(q, top);
            labels_.rank(several() ? 0 : q);
            write(several() ? 0 : q, first + q, result);
        }
    }

   private:
    // A query at a node, sorted by stage, node, query.
    struct Visit {
        uint64_t key;
        float log_score;
        int64_t node() const { return key >> 32 & 0x7fffffff; }
        int64_t query() const { return key & 0xffffffff; }
    };
    // A node that best-first search has yet to visit.
    struct Open {
        Candidate at;
        int32_t depth;
    };
    static bool comes_later(const Open& a, const Open& b) {
        if (a.at.log_score == b.at.log_score && a.depth != b.depth) return a.depth > b.depth;
        return ranks_before(b.at, a.at);
    }
    struct Scored {
        int32_t label;
        float score;
    };

    // A level's visits go in two stages, each query's best nodes first: the labels found there often show that its
    // other nodes are not worth a visit.
    static constexpr int64_t first_stage = 3;

    bool several() const { return forest_.trees.size() > 1; }

    // Copies the queries, without the features that no node knows and with the bias behind the others.
    void take(const Queries& queries, int64_t first, int64_t last) {
        count_ = last - first;
        query_ptr_.assign(1, 0);
        indices_.clear();
        values_.clear();
        for (int64_t q = first; q < last; ++q) {
            for (int64_t i = queries.indptr[q]; i < queries.indptr[q + 1]; ++i) {
                if (queries.indices[i] >= forest_.n_features) continue;
                indices_.push_back(queries.indices[i]);
                values_.push_back(queries.data[i]);
            }
            if (forest_.bias != 0) {
                indices_.push_back(static_cast<int32_t>(forest_.n_features));
                values_.push_back(forest_.bias);
            }
            query_ptr_.push_back(static_cast<int64_t>(indices_.size()));
        }
    }

    void search(const Tree& tree) {
        const int64_t beam = std::min(settings_.beam, tree.widest);
        next_.reset(count_, beam);
        for (int64_t q = 0; q < count_; ++q) next_.offer(q, {0, 0, 0});
        for (;;) {
            visits_.clear();
            for (int64_t q = 0; q < count_; ++q) {
                next_.rank(q);
                for (const Candidate* c = next_.begin(q); c != next_.end(q); ++c) {
                    const uint64_t stage = c - next_.begin(q) >= first_stage;
                    visits_.push_back({stage << 63 | static_cast<uint64_t>(c->id) << 32 | static_cast<uint64_t>(q),
                                       c->log_score});
                }
            }
            if (visits_.empty() || cancel_) return;
            std::sort(visits_.begin(), visits_.end(), [](const Visit& a, const Visit& b) { return a.key < b.key; });
            next_.reset(count_, beam);
            const Visit* end = visits_.data() + visits_.size();
            for (const Visit* from = visits_.data(); from != end;) {
                const Visit* to = from;
                while (to != end && to->key >> 32 == from->key >> 32) ++to;
                expand(tree, from->node(), from, to);
                from = to;
            }
        }
    }

    // It keeps a list of the beam for each depth: a deep tree and a huge beam go level by level, with one.
    bool goes_best_first(const Tree& tree) const {
        return count_ == 1 && !several() && std::min(settings_.beam, tree.widest) * tree.levels <= 1 << 16;
    }

    // One query, one tree: always the best open node next, until no label below it can be among the best.
    // No descendant is better than its ancestor, so when a node's turn comes every better node of its depth is known:
    // it is in the beam if it is in its depth's list now. Same labels as level by level, with the fewest visits.
    void search_best_first(const Tree& tree) {
        const int64_t beam = std::min(settings_.beam, tree.widest);
        next_.reset(tree.levels, beam);
        open_.assign(1, {{0, 0, 0}, 0});
        while (!open_.empty() && !cancel_.load(std::memory_order_relaxed)) {
            std::pop_heap(open_.begin(), open_.end(), comes_later);
            const auto [node, depth] = open_.back();
            open_.pop_back();
            if (node.log_score < labels_.bar(0)) break;
            if (next_.sizes[depth] == beam && ranks_before(*next_.begin(depth), node)) continue;  // no more
            below_ = depth + 1;
            const Visit visit{static_cast<uint64_t>(node.id) << 32, node.log_score};
            expand(tree, node.id, &visit, &visit + 1);
        }
        below_ = 0;
    }

    // Offers the children of a node to the queries that visit it.
    void expand(const Tree& tree, int64_t node, const Visit* from, const Visit* to) {
        worth_.clear();
        for (; from != to; ++from)
            // No descendant can have a better log-score than the node.
            if (several() || from->log_score >= labels_.bar(from->query())) worth_.push_back(*from);
        const int64_t children = tree.child_count(node);
        if (worth_.empty() || children == 0) return;
        find_rows(tree.features + tree.feature_ptr[node], tree.feature_count(node), tree.guides[node]);

        const int64_t step = kernels_.step(children);
        for (int64_t c = 0; c < children && !cancel_.load(std::memory_order_relaxed); c += step) {
            const int columns = static_cast<int>(std::min(step, children - c));
            const float* block = tree.weights + tree.weight_ptr[node] + c;
            const int32_t* ids = tree.children + tree.child_ptr[node] + c;
            const MarginTile tile = kernels_.tile(columns);
            for (size_t v = 0; v < worth_.size(); ++v) {
                const int64_t begin = match_ptr_[v], count = match_ptr_[v + 1] - begin;
                const float most = tile(block, children, matches_.data() + begin, count, columns, margins_);
                if (tree.kinds[node] & Tree::has_nodes) offer<false>(next_, worth_[v], most, ids, columns);
                if (!(tree.kinds[node] & Tree::has_leaves)) continue;
                if (several())
                    pool(worth_[v], ids, columns);
                else
                    offer<true>(labels_, worth_[v], most, ids, columns);
            }
        }
    }

    // Offers the leaves, or the nodes, among the children whose margins were just computed, the largest being `most`.
    template <bool leaves>
    void offer(BestLists& best, const Visit& visit, float most, const int32_t* ids, int columns) {
        const int64_t list = leaves || below_ == 0 ? visit.query() : below_;
        const float bar = leaves || several() ? best.bar(list) : std::max(best.bar(list), labels_.bar(visit.query()));
        if (visit.log_score + log_g(settings_.score, most) < bar) return;
        float cut = minus_infinity;  // a sibling was turned down with this margin
        for (int c = 0; c < columns; ++c) {
            if (margins_[c] < cut || (ids[c] < 0) != leaves) continue;
            const float log_score = visit.log_score + log_g(settings_.score, margins_[c]);
            const Candidate candidate{log_score, margins_[c], leaves ? ~ids[c] : ids[c]};
            if (log_score < bar || !best.offer(list, candidate)) {
                cut = margins_[c];
            } else if (!leaves && below_ > 0) {
                open_.push_back({candidate, static_cast<int32_t>(below_)});
                std::push_heap(open_.begin(), open_.end(), comes_later);
            }
        }
    }

    // With several trees every leaf counts, however low: its mean over the trees decides.
    void pool(const Visit& visit, const int32_t* ids, int columns) {
        float scores[MarginKernels::most_vectors * 8];
        kernels_.score_all(margins_, columns, visit.log_score, settings_.score, scores);
        auto& into = pools_[visit.query()];
        const size_t size = into.size();
        into.resize(size + columns);
        Scored* out = into.data() + size;
        for (int c = 0; c < columns; ++c) {
            *out = {~ids[c], scores[c]};
            out += ids[c] < 0;
        }
        into.resize(out - into.data());
    }

    // Finds the features of the visiting queries in a node's sorted list: matches_, match_ptr_.
    void find_rows(const int32_t* features, int64_t count, Guide& guide) {
        int64_t wanted = 0;
        for (const Visit& visit : worth_) wanted += query_ptr_[visit.query() + 1] - query_ptr_[visit.query()];
        matches_.resize(wanted + prefetch_ahead);
        match_ptr_.assign(1, 0);
        // A sorted list of `count` ids that ends with count - 1 is 0, 1, 2, ...: often so at the root.
        const bool identity = count > 0 && features[count - 1] == count - 1;
        const bool by_cells = !identity && Guide::has_cells(count, forest_.n_features);
        const Guide::Cell* cells = by_cells ? guide.cells(features, count, forest_.n_features) : nullptr;
        // Many queries at a node of few features: all of its list is put into a map, and taken out again.
        const int64_t first_map = row_of_.empty() ? forest_.n_features / 4 : 0;  // which must be made
        const bool by_map = !identity && !by_cells && wanted * 8 > 2 * count + first_map;
        if (by_map) map_features(features, count, true);
        Match* out = matches_.data();
        for (const Visit& visit : worth_) {
            const int64_t begin = query_ptr_[visit.query()], end = query_ptr_[visit.query() + 1];
            if (count == 0) {
                // an empty list holds none of them
            } else if (identity) {
                for (int64_t i = begin; i < end; ++i) {
                    *out = {indices_[i], values_[i]};
                    out += indices_[i] < count;
                }
            } else if (cells) {
                out = find_by_cells(cells, begin, end, out);
            } else if (by_map) {
                for (int64_t i = begin; i < end; ++i) {
                    const int32_t row = row_of_[indices_[i]];
                    *out = {row, values_[i]};
                    out += row >= 0;
                }
            } else {
                out = find_by_starts(features, count, guide, begin, end, out);
            }
            match_ptr_.push_back(out - matches_.data());
        }
        std::fill_n(out, prefetch_ahead, Match{0, 0});
        if (by_map) map_features(features, count, false);
    }

    // Sets, or clears again, the map from features to rows. The list comes from a file: trust no id in it.
    void map_features(const int32_t* features, int64_t count, bool set) {
        if (row_of_.empty()) row_of_.assign(forest_.n_features + 1, -1);
        const uint32_t last = static_cast<uint32_t>(forest_.n_features);
        for (int64_t k = 0; k < count; ++k)
            if (static_cast<uint32_t>(features[k]) <= last) row_of_[features[k]] = set ? static_cast<int32_t>(k) : -1;
    }

    // In a node that uses many features.
    Match* find_by_cells(const Guide::Cell* cells, int64_t begin, int64_t end, Match* out) const {
        for (; begin < end; ++begin) {
            const Guide::Cell cell = cells[indices_[begin] >> 5];
            *out = {cell.row(indices_[begin]), values_[begin]};
            out += cell.has(indices_[begin]);
        }
        return out;
    }

    // In any other: counts the smaller ids from where the guide says, several features side by side so that their cache
    // misses overlap. Eight ids at a time are counted without branches: nobody could predict them.
    Match* find_by_starts(const int32_t* features, int64_t count, Guide& guide, int64_t begin, int64_t end,
                          Match* out) const {
        constexpr int64_t group = 16;
        const int shift = Guide::shift(count, forest_.n_features);
        const int32_t* starts = guide.starts(features, count, forest_.n_features, shift);
        const int64_t last_eight = std::max<int64_t>(0, count - 8);
        for (; begin < end; begin += group) {
            const int64_t width = std::min(group, end - begin);
            int64_t rows[group];
            for (int64_t j = 0; j < width; ++j) {
                rows[j] = std::min<int64_t>(starts[indices_[begin + j] >> shift], last_eight);
                __builtin_prefetch(features + rows[j]);
                __builtin_prefetch(features + rows[j] + 7);
            }
            for (int64_t j = 0; j < width; ++j) {
                const int32_t wanted = indices_[begin + j];
                int64_t row = rows[j];
                for (int smaller = 8; smaller == 8 && row + 8 <= count; row += smaller) {
                    smaller = 0;
                    for (int k = 0; k < 8; ++k) smaller += features[row + k] < wanted;
                }
                while (row < count - 1 && features[row] < wanted) ++row;  // fewer than eight are left
                row = std::min(row, count - 1);
                *out = {static_cast<int32_t>(row), values_[begin + j]};
                out += features[row] == wanted;
            }
        }
        return out;
    }

    // The mean over trees of each label a query reached; the best of them become list 0 of labels_.
    void merge(int64_t query, int64_t top) {
        if (sums_.empty()) sums_.assign(forest_.n_labels, 0);
        labels_.reset(1, top);
        for (const Scored& s : pools_[query]) sums_[s.label] += s.score;
        for (const Scored& s : pools_[query]) {
            if (sums_[s.label] == 0) continue;  // offered already
            labels_.offer(0, {sums_[s.label] / static_cast<float>(forest_.trees.size()), 0, s.label});
            sums_[s.label] = 0;
        }
        pools_[query].clear();
    }

    void write(int64_t list, int64_t row, const Result& result) {
        int64_t at = row * settings_.top;
        for (const Candidate* c = labels_.begin(list); c != labels_.end(list); ++c, ++at) {
            result.labels[at] = c->id;
            result.scores[at] = several() ? c->log_score : score_of(c->log_score);
        }
    }

    const Forest& forest_;
    const SearchSettings& settings_;
    const Cancel& cancel_;
    const MarginKernels& kernels_;
    int64_t count_ = 0;  // queries of the chunk
    std::vector<int64_t> query_ptr_;
    std::vector<int32_t> indices_;
    std::vector<float> values_;
    BestLists next_, labels_;
    std::vector<std::vector<Scored>> pools_;  // with several trees: every leaf a query reached
    std::vector<float> sums_;                 // by label; all zero between queries
    std::vector<Visit> visits_, worth_;
    std::vector<Open> open_;      // a heap, the next node in front
    int64_t below_ = 0;           // depth of the children, in best-first search
    std::vector<int32_t> row_of_;  // by feature; all -1 between nodes
    std::vector<Match> matches_;
    std::vector<int64_t> match_ptr_;
    float margins_[MarginKernels::most_vectors * 8] = {};
};

}  // namespace labeltree
