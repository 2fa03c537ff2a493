// Scores of margins, candidates ranked by them, and for each query the best candidates so far.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "margins.h"

namespace labeltree {

// log g of a margin: never above 0, never falling as the margin rises.
inline float log_g(int score, float margin) {
    if (score == sigmoid) {
        const float t = 3 * margin;
        return t < -80 ? t : -std::log1p(std::exp(-t));  // no difference: rounded, it could fall
    }
    const float short_of = std::max(0.0f, 1 - margin);
    return -short_of * short_of * (score == squared ? 1.0f : short_of);
}

inline float score_of(float log_score) {
    return std::clamp(std::exp(log_score), std::numeric_limits<float>::min(), 1.0f);
}

struct Candidate {
    float log_score;
    float margin;
    int32_t id;  // of a node or a label
};

inline bool ranks_before(const Candidate& a, const Candidate& b) {
    if (a.log_score != b.log_score) return a.log_score > b.log_score;
    if (a.margin != b.margin) return a.margin > b.margin;  // still tells apart what a saturated g does not
    return a.id < b.id;
}

// For each query of a chunk the best `limit` candidates offered so far: a heap whose front is the worst of them.
struct BestLists {
    int64_t limit = 0;
    std::vector<Candidate> slots;
    std::vector<int32_t> sizes;

    void reset(int64_t queries, int64_t most) {
        limit = most;
        slots.resize(queries * limit);
        sizes.assign(queries, 0);
    }
    Candidate* begin(int64_t query) { return slots.data() + query * limit; }
    Candidate* end(int64_t query) { return begin(query) + sizes[query]; }

    // What a candidate's log-score must at least be to have a chance.
    float bar(int64_t query) { return sizes[query] < limit ? minus_infinity : begin(query)->log_score; }

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
