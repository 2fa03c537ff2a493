// Margins of training rows as if the node had been trained without them.
//
// The margins that a classifier gives its own training rows are too good. With w the minimum of
// w'w / 2 + sum_k C_k loss(m_k), m_k = y_k w'x_k, one step of Newton's method with the diagonal of the Hessian goes
// from w to the minimum without row i, whose margin becomes
//
//     m_i + C_i loss'(m_i) sum_j x_ij^2 / (1 + sum_{k != i} C_k loss''(m_k) x_kj^2).
#pragma once

#include <algorithm>
#include <limits>
#include <vector>

#include "predict/margins.h"
#include "train/losses.h"

namespace labeltree {

// The costs of an instance, as a negative and as a positive.
struct Costs {
    float negative, positive;
};

// Minus the first and the second derivative of the loss, times the cost.
template <Loss loss>
LABELTREE_INLINE void derivatives(Eight margin, Eight cost, Eight& slope, Eight& curvature) {
    static_assert(loss != Loss::hinge, "its second derivative is zero");
    const Eight zero{};
    if constexpr (loss == Loss::squared_hinge) {
        const Eight lack = 1 - margin;
        slope = 2 * cost * larger(lack, zero);
        curvature = lack > 0 ? 2 * cost : zero;
    } else {
        const Eight share = 1 / (1 + exponential(margin));
        slope = cost * share;
        curvature = slope * (1 - share);
    }
}

LABELTREE_INLINE Eight& eight(float* at) { return *reinterpret_cast<Eight*>(at); }

// Arrays of one number per sibling are aligned, and as long as a multiple of eight.
constexpr int max_siblings = max_tile_vectors * 8;
struct alignas(32) SiblingArray {
    float at[max_siblings] = {};
};

// The sum of x^2 of a feature over all instances of a node, and over those whose curvatures were summed up.
struct Squares {
    float all, summed;
};

// A tile of siblings: the sums of curvature * x^2 of some features, and for one instance its margins and signs.
struct HeldOutTile {
    int width;               // columns, a multiple of eight
    float* sums;             // of each feature in question, `width` columns
    const Squares* squares;  // of each feature in question
    bool sampled;            // whether the curvatures of only some instances were summed up
    SiblingArray mean_curvature;
    SiblingArray margins, signs, curvature;  // of the instance; a sign is 1 if it is positive, otherwise -1
};

// Writes the curvatures of an instance, and returns whether any is positive.
template <Loss loss>
LABELTREE_INLINE bool find_curvature(HeldOutTile& tile, Costs costs) {
    Eight any{};
    for (int c = 0; c < tile.width; c += 8) {
        const Eight sign = eight(tile.signs.at + c),
                    cost = sign > 0 ? costs.positive - Eight{} : costs.negative - Eight{};
        Eight slope, curvature;
        derivatives<loss>(sign * eight(tile.margins.at + c), cost, slope, curvature);
        eight(tile.curvature.at + c) = curvature;
        any = larger(any, curvature);
    }
    for (int k = 0; k < 8; ++k)
        if (any[k] > 0) return true;
    return false;
}

// Adds the curvatures of an instance to the sums of its features. A match has the place of the feature in the sums.
LABELTREE_INLINE void add_curvature(HeldOutTile& tile, std::span<const Match> matches) {
    for (const Match& match : matches) {
        float* sums = tile.sums + static_cast<int64_t>(match.row) * tile.width;
        const float square = match.x * match.x;
        for (int c = 0; c < tile.width; c += 8) eight(sums + c) += square * eight(tile.curvature.at + c);
    }
}

// Replaces the margins of an instance. `own` is 1 if the sums contain the instance itself, otherwise 0.
// If the curvatures of some of the instances were summed up, a feature has the mean curvature of those, weighted by
// x^2, in all instances. One more with the mean curvature of all siblings' instances counts as well, since there may be
// none.
template <Loss loss>
LABELTREE_INLINE void hold_out(HeldOutTile& tile, std::span<const Match> matches, Costs costs, float own) {
    const Eight zero{}, least = minus_infinity - zero;
    SiblingArray slopes, leverage;
    for (int c = 0; c < tile.width; c += 8) {
        const Eight sign = eight(tile.signs.at + c), cost = sign > 0 ? costs.positive - zero : costs.negative - zero;
        derivatives<loss>(sign * eight(tile.margins.at + c), cost, eight(slopes.at + c), eight(tile.curvature.at + c));
    }
    for (const Match& match : matches) {
        const float square = match.x * match.x, own_square = own * square;
        if (square == 0) continue;  // too small for a float
        const Squares& squares = tile.squares[match.row];
        const float prior = tile.sampled ? square : 0;
        const float ratio =
            std::max(0.0f, squares.all - square) / (std::max(0.0f, squares.summed - own_square) + prior);
        const float factor = tile.sampled ? std::min(ratio, std::numeric_limits<float>::max()) : 1;
        float* sums = tile.sums + static_cast<int64_t>(match.row) * tile.width;
        for (int c = 0; c < tile.width; c += 8) {
            const Eight others = larger(eight(sums + c) - own_square * eight(tile.curvature.at + c), zero);
            eight(leverage.at + c) += square / (1 + factor * (others + prior * eight(tile.mean_curvature.at + c)));
        }
    }
    for (int c = 0; c < tile.width; c += 8) {
        const Eight change = eight(slopes.at + c) * eight(leverage.at + c);
        const Eight held_out = eight(tile.margins.at + c) - eight(tile.signs.at + c) * change;
        eight(tile.margins.at + c) = held_out >= least ? held_out : least;  // not NaN, so that they can be ordered
    }
}

// The functions above for one loss and this CPU.
struct HeldOutKernels {
    bool (*find_curvature)(HeldOutTile&, Costs);
    void (*add_curvature)(HeldOutTile&, std::span<const Match>);
    void (*hold_out)(HeldOutTile&, std::span<const Match>, Costs, float);

    template <Loss loss>
    static HeldOutKernels of() {
        return {for_this_cpu<labeltree::find_curvature<loss>>(), for_this_cpu<labeltree::add_curvature>(),
                for_this_cpu<labeltree::hold_out<loss>>()};
    }
};

}  // namespace labeltree
