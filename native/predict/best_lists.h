// The best candidates so far, for each of several queries.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

namespace labeltree {

struct Candidate {
    float log_score;
    float margin;
    int32_t id;  // of a node or a label
};

inline bool ranks_before(const Candidate& a, const Candidate& b) {
    if (a.log_score != b.log_score) return a.log_score > b.log_score;
    if (a.margin != b.margin) return a.margin > b.margin;  // still differs where g is saturated
    return a.id < b.id;
}

// For each query the best `limit` candidates offered so far: a heap with the worst of them in front.
struct BestLists {
    int64_t limit = 0;
    std::vector<Candidate> slots;
    std::vector<int32_t> sizes;

    void reset(int64_t n_queries, int64_t new_limit) {
        limit = new_limit;
        slots.resize(n_queries * limit);
        sizes.assign(n_queries, 0);
    }
    Candidate* begin(int64_t query) { return slots.data() + query * limit; }
    Candidate* end(int64_t query) { return begin(query) + sizes[query]; }

    // A candidate with a lower log-score cannot enter the list.
    float bar(int64_t query) {
        return sizes[query] < limit ? -std::numeric_limits<float>::infinity() : begin(query)->log_score;
    }

    bool offer(int64_t query, const Candidate& candidate) {
        if (sizes[query] == limit) {
            if (!ranks_before(candidate, *begin(query))) return false;
            std::pop_heap(begin(query), end(query), ranks_before);
        } else {
            ++sizes[query];
        }
        *(end(query) - 1) = candidate;
        std::push_heap(begin(query), end(query), ranks_before);
        return true;
    }
    void rank(int64_t query) { std::sort_heap(begin(query), end(query), ranks_before); }
};

}  // namespace labeltree
