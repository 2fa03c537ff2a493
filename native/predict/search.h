// The beam search of one worker: for a chunk of queries, the best labels and their scores.
//
// A chunk is searched level by level, and each level node by node, so that a node's block is read once for all queries
// that reach it. A chunk of one query is searched best node first. The order of visits does not matter: the labels
// returned are the best of those that the beam reaches, and a score depends only on its path. So neither batches nor
// threads change a single bit of a result.
#pragma once

#include <algorithm>
#include <vector>

#include "predict/best_lists.h"
#include "predict/forest.h"
#include "predict/margins.h"
#include "predict/row_finder.h"
#include "predict/scores.h"
#include "predict/sparse_margins.h"

namespace labeltree {

struct SearchSettings {
    int64_t beam, top;
    Score score;
};

// `top` labels per query, best first, and their scores.
struct Ranking {
    std::span<int32_t> labels;
    std::span<float> scores;
};

// Its buffers are reused from chunk to chunk.
class Search {
  public:
    explicit Search(const Forest& forest) : forest_(forest), rows_(forest.n_features) {}

    // Answers the queries [first, last).
    void run(const SparseRows& queries, int64_t first, int64_t last, const SearchSettings& settings,
             const Ranking& ranking, const Cancel& cancel) {
        settings_ = settings;
        cancel_ = &cancel;
        copy_queries(queries, first, last);
        const int64_t top = std::min(settings_.top, forest_.n_labels);
        labels_.reset(n_queries_, several() ? 0 : top);
        if (several() && std::ssize(pools_) < n_queries_) pools_.resize(n_queries_);
        for (const SearchTree& tree : forest_.trees) {
            path_ = PathWeights(settings.score.path_weight, tree.n_levels);
            if (is_best_first(tree))
                search_best_first(tree);
            else
                search(tree);
        }
        if (is_cancelled()) return;
        for (int64_t q = 0; q < n_queries_; ++q) {
            if (several()) merge(q, top);
            labels_.rank(several() ? 0 : q);
            write(several() ? 0 : q, first + q, ranking);
        }
    }

  private:
    // A query at a node, sorted by stage, node, query. The scores of nodes are sums, see PathWeights.
    struct Visit {
        uint64_t key;
        float sum;
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

    // A level is visited in two stages, the best nodes of each query first: the labels found there often rule out its
    // other nodes.
    static constexpr int64_t first_stage = 3;

    bool several() const { return forest_.trees.size() > 1; }
    bool is_cancelled() const { return cancel_->load(std::memory_order_relaxed); }

    // Copies the queries without features that the model does not know, and with the bias as the last feature.
    void copy_queries(const SparseRows& queries, int64_t first, int64_t last) {
        n_queries_ = last - first;
        query_rows_.clear();
        for (int64_t q = first; q < last; ++q) {
            for (int64_t i = queries.ptr[q]; i < queries.ptr[q + 1]; ++i) {
                if (queries.index[i] >= forest_.n_features) continue;
                query_rows_.index.push_back(queries.index[i]);
                query_rows_.value.push_back(queries.value[i]);
            }
            if (forest_.bias != 0) {
                query_rows_.index.push_back(static_cast<int32_t>(forest_.n_features));
                query_rows_.value.push_back(forest_.bias);
            }
            query_rows_.end_row();
        }
        queries_ = query_rows_.view(forest_.n_features + 1);
    }

    void search(const SearchTree& tree) {
        const int64_t beam = std::min(settings_.beam, tree.max_width);
        next_.reset(n_queries_, beam);
        for (int64_t q = 0; q < n_queries_; ++q) next_.offer(q, {0, 0, 0});
        is_best_first_ = false;
        for (depth_ = 0;; ++depth_) {
            visits_.clear();
            for (int64_t q = 0; q < n_queries_; ++q) {
                next_.rank(q);
                for (const Candidate* c = next_.begin(q); c != next_.end(q); ++c) {
                    const uint64_t stage = c - next_.begin(q) >= first_stage;
                    visits_.push_back(
                        {stage << 63 | static_cast<uint64_t>(c->id) << 32 | static_cast<uint64_t>(q), c->log_score});
                }
            }
            if (visits_.empty() || is_cancelled()) return;
            std::sort(visits_.begin(), visits_.end(), [](const Visit& a, const Visit& b) { return a.key < b.key; });
            next_.reset(n_queries_, beam);
            for (auto from = visits_.begin(); from != visits_.end();) {
                const auto to =
                    std::find_if(from, visits_.end(), [&](const Visit& v) { return v.key >> 32 != from->key >> 32; });
                expand(tree, from->node(), {from, to});
                from = to;
            }
        }
    }

    // It keeps a list of the beam for each depth, so a deep tree with a huge beam is searched level by level instead.
    bool is_best_first(const SearchTree& tree) const {
        return n_queries_ == 1 && !several() && std::min(settings_.beam, tree.max_width) * tree.n_levels <= 1 << 16;
    }

    // One query, one tree: always the best open node next, until no label below it can be among the best.
    // No descendant has a better sum than its ancestor, so when a node is visited every better node of its depth is
    // known: it is in the beam if it is in its depth's list now. Same labels as level by level, with the fewest visits.
    void search_best_first(const SearchTree& tree) {
        const int64_t beam = std::min(settings_.beam, tree.max_width);
        next_.reset(tree.n_levels, beam);
        open_.assign(1, {{0, 0, 0}, 0});
        is_best_first_ = true;
        while (!open_.empty() && !is_cancelled()) {
            std::pop_heap(open_.begin(), open_.end(), comes_later);
            const auto [node, depth] = open_.back();
            open_.pop_back();
            if (path_.to_bound() * node.log_score < labels_.bar(0)) break;
            if (next_.sizes[depth] == beam && ranks_before(*next_.begin(depth), node)) continue;  // no longer in it
            depth_ = depth;
            const Visit visit{static_cast<uint64_t>(node.id) << 32, node.log_score};
            expand(tree, node.id, {&visit, 1});
        }
    }

    // Offers the children of a node to the queries that visit it.
    void expand(const SearchTree& tree, int64_t node, std::span<const Visit> visits) {
        promising_.clear();
        for (const Visit& visit : visits)
            if (several() || path_.to_bound() * visit.sum >= labels_.bar(visit.query())) promising_.push_back(visit);
        if (promising_.empty() || tree.shape.n_children(node) == 0) return;
        switch (tree.blocks.codec) {
            case Codec::float32: expand_dense<float>(tree, node); break;
            case Codec::float16: expand_dense<Half>(tree, node); break;
            case Codec::int8: expand_dense<int8_t>(tree, node); break;
            case Codec::sparse: expand_sparse(tree, node); break;
        }
    }

    template <class T>
    void expand_dense(const SearchTree& tree, int64_t node) {
        constexpr bool scaled = !std::is_same_v<T, float>;
        rows_.find(tree.blocks.features_of(node), tree.indexes[node], queries_, promising_);
        const T* const weights = tree.blocks.weights_of<T>(node);
        const auto children = tree.shape.children_of(node);
        const int64_t n_children = std::ssize(children), first = tree.shape.child_ptr[node];
        const MarginTiles<T>& tiles = margin_tiles<T>();
        const int64_t step = tiles.step(n_children);
        for (int64_t c = 0; c < n_children && !is_cancelled(); c += step) {
            const int n_columns = static_cast<int>(std::min(step, n_children - c));
            const MarginTile<T> tile = tiles.tile(n_columns);
            for (size_t v = 0; v < promising_.size(); ++v) {
                float most =
                    tile(weights + c, n_children, rows_.matches(v), n_columns, scaled ? child_sums_ : margins_);
                if constexpr (scaled) most = scale(tree, first + c, n_columns);
                offer_children(tree, node, promising_[v], most, slice(children, c, c + n_columns));
            }
        }
    }

    void expand_sparse(const SearchTree& tree, int64_t node) {
        const auto children = tree.shape.children_of(node);
        const int64_t first_block = tree.blocks.block_ptr[node];
        for (int64_t number = first_block; number < tree.blocks.block_ptr[node + 1]; ++number) {
            if (is_cancelled()) return;
            const int64_t c = (number - first_block) * block_children;
            const int n_columns = static_cast<int>(std::min(block_children, std::ssize(children) - c));
            const SparseBlock block = tree.blocks.sparse_block(number);
            rows_.find(tree.blocks.short_features_of(number), tree.indexes[number], queries_, promising_);
            sparse_sums_.begin(block, tree.blocks.n_features(number), n_columns, rows_.n_matches());
            for (size_t v = 0; v < promising_.size(); ++v) {
                sparse_sums_.run(rows_.matches(v), child_sums_);
                const float most = scale(tree, tree.shape.child_ptr[node] + c, n_columns);
                offer_children(tree, node, promising_[v], most, slice(children, c, c + n_columns));
            }
        }
    }

    float scale(const SearchTree& tree, int64_t first, int n_columns) {
        return scaled_margins_(child_sums_, tree.blocks.scales.data() + first, tree.blocks.biases.data() + first,
                               forest_.bias, n_columns, margins_);
    }

    // Offers the children whose margins were just computed, `most` being the largest.
    void offer_children(const SearchTree& tree, int64_t node, const Visit& visit, float most,
                        std::span<const int32_t> ids) {
        const uint8_t kinds = tree.kinds[node];
        const bool mixed = kinds == (SearchTree::has_nodes | SearchTree::has_leaves);
        if (kinds & SearchTree::has_nodes) offer<false>(next_, visit, most, ids, mixed);
        if (!(kinds & SearchTree::has_leaves)) return;
        if (several())
            pool(visit, ids);
        else
            offer<true>(labels_, visit, most, ids, mixed);
    }

    // Offers the leaves, or the nodes, among these children.
    template <bool leaves>
    void offer(BestLists& best, const Visit& visit, float most, std::span<const int32_t> ids, bool mixed) {
        const int64_t below = depth_ + 1, list = leaves || !is_best_first_ ? visit.query() : below;
        const float bar = best.bar(list), label_bar = leaves || several() ? minus_infinity : labels_.bar(visit.query());
        const float to_sum = path_.to_sum(depth_), to_score = leaves ? path_.to_score(depth_) : 1;
        const auto score_at = [&](float margin) {
            return to_score * (visit.sum + to_sum * log_g(settings_.score, margin));
        };
        const auto is_too_low = [&](float score) { return score < bar || path_.to_bound() * score < label_bar; };
        if (is_too_low(score_at(most))) return;
        const auto is_accepted = [&](size_t c) {
            const float score = score_at(margins_[c]);
            const Candidate candidate{score, margins_[c], leaves ? ~ids[c] : ids[c]};
            if (is_too_low(score) || !best.offer(list, candidate)) return false;
            if (!leaves && is_best_first_) {
                open_.push_back({candidate, static_cast<int32_t>(below)});
                std::push_heap(open_.begin(), open_.end(), comes_later);
            }
            return true;
        };
        float cut = minus_infinity;  // a sibling with this margin was rejected
        if (!mixed && 4 * best.limit <= std::ssize(ids)) {
            // Few can be accepted: in the order of their margins, the first to be rejected is nearly the last.
            const int n_ids = static_cast<int>(ids.size());
            std::copy_n(margins_, n_ids, left_);
            std::fill_n(left_ + n_ids, -n_ids & 7, minus_infinity);
            for (;;) {
                const int c = index_of_largest_(left_, n_ids);
                const float margin = std::exchange(left_[c], minus_infinity);
                if (margin < cut) return;
                if (margin == minus_infinity) break;  // so are all that are left
                if (!is_accepted(static_cast<size_t>(c))) cut = margin;
            }
            for (size_t c = 0; c < ids.size(); ++c)
                if (margins_[c] == minus_infinity) is_accepted(c);
            return;
        }
        for (size_t c = 0; c < ids.size(); ++c)
            if (margins_[c] >= cut && (ids[c] < 0) == leaves && !is_accepted(c)) cut = margins_[c];
    }

    // With several trees every leaf counts, even with a low score: the mean over the trees decides.
    void pool(const Visit& visit, std::span<const int32_t> ids) {
        float scores[block_children];
        const float parent = path_.to_score(depth_) * visit.sum;
        score_siblings_(margins_, static_cast<int>(ids.size()), parent, settings_.score, scores);
        auto& into = pools_[visit.query()];
        const size_t size = into.size();
        into.resize(size + ids.size());
        Scored* out = into.data() + size;
        for (size_t c = 0; c < ids.size(); ++c) {
            *out = {~ids[c], scores[c]};
            out += ids[c] < 0;
        }
        into.resize(out - into.data());
    }

    // The mean over trees of each label that a query reached; the best of them become list 0 of labels_.
    void merge(int64_t query, int64_t top) {
        if (sums_.empty()) sums_.assign(forest_.n_labels, 0);
        labels_.reset(1, top);
        for (const Scored& s : pools_[query]) sums_[s.label] += s.score;
        for (const Scored& s : pools_[query]) {
            if (sums_[s.label] == 0) continue;  // already offered
            labels_.offer(0, {sums_[s.label] / static_cast<float>(forest_.trees.size()), 0, s.label});
            sums_[s.label] = 0;
        }
        pools_[query].clear();
    }

    void write(int64_t list, int64_t row, const Ranking& ranking) {
        int64_t at = row * settings_.top;
        for (const Candidate* c = labels_.begin(list); c != labels_.end(list); ++c, ++at) {
            ranking.labels[at] = c->id;
            ranking.scores[at] = several() ? c->log_score : score_of(c->log_score);
        }
    }

    const Forest& forest_;
    SearchSettings settings_{};
    const Cancel* cancel_ = nullptr;
    decltype(&score_siblings) const score_siblings_ = for_this_cpu<score_siblings>();
    decltype(&index_of_largest) const index_of_largest_ = for_this_cpu<index_of_largest>();
    decltype(&scaled_margins) const scaled_margins_ = for_this_cpu<scaled_margins>();
    RowFinder rows_;
    SparseSums sparse_sums_;
    int64_t n_queries_ = 0;  // of the chunk
    RowBuffer query_rows_;
    SparseRows queries_;
    BestLists next_, labels_;
    std::vector<std::vector<Scored>> pools_;  // with several trees: every leaf that a query reached
    std::vector<float> sums_;                 // by label; all zero between queries
    std::vector<Visit> visits_, promising_;
    std::vector<Open> open_;  // a heap, the next node in front
    PathWeights path_;        // of the tree that is searched
    bool is_best_first_ = false;
    int64_t depth_ = 0;  // of the node that is visited
    static_assert(max_tile_vectors * 8 <= block_children);
    float child_sums_[block_children] = {}, margins_[block_children] = {};
    float left_[block_children];  // margins of children that are yet to be offered
};

}  // namespace labeltree
