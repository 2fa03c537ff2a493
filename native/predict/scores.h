// Scores of margins: the functions g that a child's margin is passed through, exact and for many siblings at once.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "common/simd.h"

namespace labeltree {

enum class ScoreName {
    sigmoid,  // 1 / (1 + exp(-scale * s))
    hinge2,   // exp(-max(0, 1 - s)^2)
    hinge3,   // exp(-max(0, 1 - s)^3)
};

struct Score {
    ScoreName name;
    float scale;        // of the sigmoid
    float path_weight;  // gamma: how much the score of the parent counts, at most 1
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

// How the scores along a path add up. The log-score of a child is gamma times that of its parent, plus log g of its own
// margin. The sum of gamma^-d log g over the depths d of a path never grows along it, whatever gamma is, so nodes are
// compared by it; gamma^d times the sum is the log-score.
class PathWeights {
  public:
    PathWeights() = default;
    PathWeights(float weight, int64_t n_depths) {
        for (int64_t d = 0; d < n_depths; ++d) {
            // In a very deep tree, ancestors that hardly count must not become infinite.
            const double power = std::max(1e-30, std::pow(static_cast<double>(weight), static_cast<double>(d)));
            up_.push_back(static_cast<float>(power));
            down_.push_back(static_cast<float>(1 / power));
        }
    }

    float to_score(int64_t depth) const { return up_[depth]; }  // gamma^d
    float to_sum(int64_t depth) const { return down_[depth]; }  // gamma^-d
    // Times the sum of a node: no label below it has a better log-score.
    float to_bound() const { return up_.back(); }

  private:
    std::vector<float> up_, down_;
};

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
