// Dual coordinate descent for up to sixteen sibling problems at once, on the instances of one node (Hsieh et al. 2008).
//
// The siblings share instances, norms and the random order of visits; each runs its own descent.
#pragma once

#include <vector>

#include "losses.h"
#include "problem.h"

namespace labeltree {

template <class Real, int W>
using Group = Lanes<Real, W>;

// One of two values for each sibling, chosen by one bit each.
template <class Real>
struct BitTable {
    alignas(64) Real of[256][8];
    BitTable(Real clear, Real set) {
        for (int byte = 0; byte < 256; ++byte)
            for (int s = 0; s < 8; ++s) of[byte][s] = byte >> s & 1 ? set : clear;
    }
    template <int W>
    LABELTREE_INLINE Group<Real, W> lanes(uint16_t bits) const {
        constexpr int eight = Lanes<Real, 8>::n_vectors;
        Group<Real, W> out;
#pragma GCC unroll 4
        for (int k = 0; k < out.n_vectors; ++k)
            out.v[k] = Lanes<Real, 8>::load(of[k < eight ? bits & 255 : bits >> 8]).v[k % eight];
        return out;
    }
};

template <class Real, int W>
LABELTREE_INLINE Group<Real, W> products(const SparseRows& x, int64_t i, const Real* weights, Real bias) {
    // Several sums at a time, or each addition would wait for the previous one.
    constexpr int ways = sizeof(Real) == 4 ? 4 : 2;
    Group<Real, W> sum[ways];
#pragma GCC unroll 4
    for (int way = 0; way < ways; ++way) sum[way] = Group<Real, W>::fill(0);
    int64_t k = x.ptr[i];
    const int64_t end = x.ptr[i + 1];
    for (; k + ways <= end; k += ways)
#pragma GCC unroll 4
        for (int way = 0; way < ways; ++way)
            sum[way].add(x.value[k + way], Group<Real, W>::load(weights + static_cast<int64_t>(x.index[k + way]) * W));
    for (; k < end; ++k) sum[0].add(x.value[k], Group<Real, W>::load(weights + static_cast<int64_t>(x.index[k]) * W));
    if (bias != 0) sum[0].add(bias, Group<Real, W>::load(weights + x.n_columns * W));
#pragma GCC unroll 4
    for (int way = 1; way < ways; ++way) sum[0].add(1, sum[way]);
    return sum[0];
}

template <class Real, int W>
LABELTREE_INLINE void move_weights(const SparseRows& x, int64_t i, Real* weights, Real bias,
                                   const Group<Real, W>& step) {
    auto move = [&](Real* row, Real value) __attribute__((always_inline)) {
        Group<Real, W> w = Group<Real, W>::load(row);
        w.add(value, step);
        w.store(row);
    };
    for (int64_t k = x.ptr[i]; k < x.ptr[i + 1]; ++k) move(weights + static_cast<int64_t>(x.index[k]) * W, x.value[k]);
    if (bias != 0) move(weights + x.n_columns * W, bias);
}

// Prefetches the data of a later visit: the order is random, so the CPU cannot predict it.
template <class Real, int W>
LABELTREE_INLINE void prefetch_visit(const SparseRows& x, const int32_t* order, int64_t visit, int64_t n_active,
                                     const Real* alpha) {
    if (visit + 8 < n_active) __builtin_prefetch(x.ptr.data() + order[visit + 8]);
    if (visit + 4 < n_active) {
        const int64_t i = order[visit + 4];
        for (int64_t byte = 0; byte < 128; byte += 64) {
            __builtin_prefetch(reinterpret_cast<const char*>(x.index.data() + x.ptr[i]) + byte);
            __builtin_prefetch(reinterpret_cast<const char*>(x.value.data() + x.ptr[i]) + byte);
        }
        for (size_t byte = 0; byte < W * sizeof(Real); byte += 64)
            __builtin_prefetch(reinterpret_cast<const char*>(alpha + i * W) + byte);
    }
}

// The state of a descent between passes over the instances.
template <class Real>
struct Descent {
    Real* weights;             // (features + 1) x siblings
    Real* alpha;               // instances x siblings
    std::span<int32_t> order;  // the first n_active instances are visited
    int64_t n_active;
    uint16_t live;  // bit s: sibling s still moves
};

// The objective of each sibling and its duality gap, summed over the instances of one pass. They are exact if nothing
// moves during the pass and it visits all instances.
template <int W>
struct Seen {
    double objective[W] = {}, gap[W] = {};

    template <class Real>
    LABELTREE_INLINE void add(Group<Real, W>& more_objective, Group<Real, W>& more_gap) {
        Real values[W];
        more_objective.store(values);
        for (int s = 0; s < W; ++s) objective[s] += values[s];
        more_gap.store(values);
        for (int s = 0; s < W; ++s) gap[s] += values[s];
        more_objective = more_gap = Group<Real, W>::fill(0);
    }
};

// One pass over the active instances for the live siblings; if not `moves`, it only measures. An instance that adds at
// most quiet_gaps[s] to the gap of every live sibling s is left unchanged and moved behind the active ones.
//
// Vectors are not passed by value: code for AVX2 and for any CPU would expect them in different places.
template <class Real, int W, Loss loss, bool moves>
LABELTREE_INLINE void sweep(const Problem& problem, const SolverSettings& settings, Descent<Real>& descent,
                            const Real* quiet_gaps, Seen<W>& seen) {
    using Vector = typename Group<Real, W>::Vector;
    constexpr int n_vectors = Group<Real, W>::n_vectors;
    constexpr int64_t few = 256;  // sums of more floats than this would lose digits
    static const BitTable<Real> signs(-1, 1), ones(0, 1);
    const SparseRows x = problem.x;
    Real *const weights = descent.weights, *const alpha = descent.alpha;
    int32_t* const order = descent.order.data();
    int64_t n_active = descent.n_active;
    const Real bias = static_cast<Real>(settings.bias);
    const Group<Real, W> moving = ones.template lanes<W>(descent.live), zero = Group<Real, W>::fill(0);
    const Group<Real, W> quiet = Group<Real, W>::load(quiet_gaps);
    Group<Real, W> objective = zero, gap = zero;
    int64_t n_summed = 0;
    for (int64_t visit = 0; visit < n_active; ++visit) {
        const int64_t i = order[visit];
        prefetch_visit<Real, W>(x, order, visit, n_active, alpha);
        if (++n_summed % few == 0) seen.add(objective, gap);
        const Real norm = problem.norms[i];
        const double cost = settings.cost * (problem.costs.empty() ? 1.0 : problem.costs[i]);
        const Real costs[2] = {static_cast<Real>(cost), static_cast<Real>(cost * settings.positive_cost)};
        Real diagonal[2], rate[2];
        for (int sign = 0; sign < 2; ++sign) {
            diagonal[sign] = loss == Loss::squared_hinge ? Real(0.5) / costs[sign] : Real(0);
            // Without bias, the step of an empty row has no scale: any step goes straight to a bound.
            rate[sign] = 1 / std::max(norm + diagonal[sign], std::numeric_limits<Real>::min());
        }
        const Group<Real, W> y = signs.template lanes<W>(problem.positive[i]);
        const Group<Real, W> before = Group<Real, W>::load(alpha + i * W);
        const Group<Real, W> product = products<Real, W>(x, i, weights, bias);
        Group<Real, W> after, loud;
#pragma GCC unroll 4
        for (int k = 0; k < n_vectors; ++k) {
            const auto up = y.v[k] > 0;
            const Vector none{};
            auto of_sign = [&](const Real(&pair)[2])
                               __attribute__((always_inline)) { return up ? pair[1] + none : pair[0] + none; };
            const Visit<Vector> at{y.v[k] * product.v[k], before.v[k],   of_sign(costs),
                                   of_sign(diagonal),     of_sign(rate), norm + none};
            const Terms<Vector> added = terms<loss>(at);
            objective.v[k] += added.loss + before.v[k] * at.margin / 2;  // the second sums to w'w / 2
            gap.v[k] += added.gap;
            loud.v[k] = added.gap > quiet.v[k] ? moving.v[k] : zero.v[k];
            if constexpr (moves) after.v[k] = best_alpha<loss>(at);
        }
        if (!loud.any()) {
            std::swap(order[visit--], order[--n_active]);
            continue;
        }
        if constexpr (moves) {
            Group<Real, W> step;
#pragma GCC unroll 4
            for (int k = 0; k < n_vectors; ++k) {
                const auto change = (after.v[k] - before.v[k]) * moving.v[k];
                after.v[k] = before.v[k] + change;
                step.v[k] = change * y.v[k];
            }
            if (step.any()) {
                after.store(alpha + i * W);
                move_weights<Real, W>(x, i, weights, bias, step);
            }
        }
    }
    seen.add(objective, gap);
    descent.n_active = n_active;
}

}  // namespace labeltree
