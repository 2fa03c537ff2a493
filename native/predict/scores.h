// Scores of margins: the functions g that a child's margin is passed through, exact and for many siblings at once.
#pragma once

#include <algorithm>
#include <limits>

#include "common/simd.h"

namespace labeltree {

enum class ScoreName {
    sigmoid,  // 1 / (1 + exp(-scale * s))
    hinge2,   // exp(-max(0, 1 - s)^2)
    hinge3,   // exp(-max(0, 1 - s)^3)
};

struct Score {
    ScoreName name;
    float scale;  // of the sigmoid
};

// log g of a margin: at most 0, and never lower for a larger margin.
inline float log_g(Score score, float margin) {
    if (score.name == ScoreName::sigmoid) {
        const float t = score.scale * margin;
        return t < -80 ? t : -std::log1p(std::exp(-t));  // not a difference: rounding could reverse the order
    }
    const float missing = std::max(0.0f, 1 - margin);
    return -missing * missing * (score.name == ScoreName::hinge2 ? 1.0f : missing);
}

inline float score_of(float log_score) {
    return std::clamp(std::exp(log_score), std::numeric_limits<float>::min(), 1.0f);
}

// The scores exp(log_score + log g(margin)) of `n_siblings` under a parent, all positive.
// Works on whole vectors: both arrays must have space for a multiple of eight.
LABELTREE_INLINE void score_siblings(const float* margins, int n_siblings, float log_score, Score score,
                                     float* scores) {
    const Eight zero{}, one = zero + 1.0f, lowest = zero - 87.34f, tiny = zero + std::numeric_limits<float>::min();
    const Eight parent = exp_eight(larger(zero + log_score, lowest));
    for (int c = 0; c < n_siblings; c += 8) {
        const Eight margin = *reinterpret_cast<const UnalignedEight*>(margins + c);
        Eight out;
        if (score.name == ScoreName::sigmoid) {
            out = parent / (1.0f + exp_eight(smaller(larger(-score.scale * margin, lowest), -lowest)));
        } else {
            const Eight missing = larger(1.0f - margin, zero);
            const Eight power = missing * missing * (score.name == ScoreName::hinge3 ? missing : one);
            out = exp_eight(larger(log_score - power, lowest));
        }
        *reinterpret_cast<UnalignedEight*>(scores + c) = smaller(larger(out, tiny), one);
    }
}

}  // namespace labeltree
