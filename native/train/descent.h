// Dual coordinate descent for up to 32 sibling problems at once, on the instances of one node (Hsieh et al. 2008).
//
// The siblings share instances, norms and the random order of visits; each runs its own descent.
#pragma once

#include <vector>

#include "train/losses.h"
#include "train/problem.h"

namespace labeltree {

// The lanes of a group of W siblings are vectors of 32 bytes, or of 64 where the CPU has them.
template <class Group, class Real = typename Group::Number>
LABELTREE_INLINE Group products(const SparseRows& x, int64_t i, const Real* weights, Real bias) {
    // Several sums at a time, or each addition would wait for the previous one. Their number does not depend on the
    // CPU, so that the result does not, either; they fit into eight registers of AVX2.
    constexpr int W = Group::size, ways = std::clamp<int>(256 / (W * sizeof(Real)), 1, sizeof(Real) == 4 ? 4 : 2);
    Group sum[ways];
#pragma GCC unroll 4
    for (int way = 0; way < ways; ++way) sum[way] = Group::fill(0);
    int64_t k = x.ptr[i];
    const int64_t end = x.ptr[i + 1];
    for (; k + ways <= end; k += ways)
#pragma GCC unroll 4
        for (int way = 0; way < ways; ++way)
            sum[way].add(x.value[k + way], Group::load(weights + static_cast<int64_t>(x.index[k + way]) * W));
    for (; k < end; ++k) sum[0].add(x.value[k], Group::load(weights + static_cast<int64_t>(x.index[k]) * W));
    if (bias != 0) sum[0].add(bias, Group::load(weights + x.n_columns * W));
#pragma GCC unroll 4
    for (int way = 1; way < ways; ++way) sum[0].add(1, sum[way]);
    return sum[0];
}

template <class Group, class Real = typename Group::Number>
LABELTREE_INLINE void move_weights(const SparseRows& x, int64_t i, Real* weights, Real bias, const Group& step) {
    constexpr int W = Group::size;
    auto move = [&](Real* row, Real value) __attribute__((always_inline)) {
        Group w = Group::load(row);
        w.add(value, step);
        w.store(row);
    };
    const int64_t end = x.ptr[i + 1];
    for (int64_t k = x.ptr[i]; k < end; ++k) move(weights + static_cast<int64_t>(x.index[k]) * W, x.value[k]);
    if (bias != 0) move(weights + x.n_columns * W, bias);
}

// Prefetches the data of a later visit: the order is random, so the CPU cannot predict it.
template <class Real, int W>
LABELTREE_INLINE void prefetch_visit(const Problem& problem, const int32_t* order, int64_t visit, int64_t n_active,
                                     const Real* alpha) {
    const SparseRows& x = problem.x;
    if (visit + 8 < n_active) {
        const int64_t i = order[visit + 8];
        __builtin_prefetch(x.ptr.data() + i);
        __builtin_prefetch(problem.norms.data() + i);
        __builtin_prefetch(problem.positive.data() + i);
        if (!problem.own_squares.empty()) __builtin_prefetch(problem.own_squares.data() + i);
    }
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
    Siblings live;  // those that still move
};

// The objective of each sibling and its duality gap, summed over the instances of one pass. They are exact if nothing
// moves during the pass and it visits all instances.
template <int W>
struct Seen {
    double objective[W] = {}, gap[W] = {};

    template <class Group>
    LABELTREE_INLINE void add(Group& more_objective, Group& more_gap) {
        typename Group::Number values[W];
        more_objective.store(values);
        for (int s = 0; s < W; ++s) objective[s] += values[s];
        more_gap.store(values);
        for (int s = 0; s < W; ++s) gap[s] += values[s];
        more_objective = more_gap = Group::fill(0);
    }
};

// What an instance costs where it is negative and where it is positive, and the diagonal of the dual that follows.
template <class Real, Loss loss>
struct InstanceCosts {
    Real cost[2], diagonal[2];
    LABELTREE_INLINE InstanceCosts(double negative, double positive)
        : cost{static_cast<Real>(negative), static_cast<Real>(positive)}, diagonal{} {
        if constexpr (loss == Loss::squared_hinge)
            for (int sign = 0; sign < 2; ++sign) diagonal[sign] = Real(0.5) / cost[sign];
    }
};

// One pass over the active instances for the live siblings; if not `moves`, it only measures. An instance that adds at
// most quiet_gaps[s] to the gap of every live sibling s is left unchanged and moved behind the active ones.
//
// Vectors are not passed by value: code for AVX2 and for any CPU would expect them in different places.
template <class Real, int W, Loss loss, bool moves, int vector_bytes>
LABELTREE_INLINE void sweep(const Problem& problem, const SolverSettings& settings, Descent<Real>& descent,
                            const Real* quiet_gaps, Seen<W>& seen) {
    using Group = Lanes<Real, W, vector_bytes>;
    using Vector = typename Group::Vector;
    constexpr int n_vectors = Group::n_vectors;
    constexpr int64_t few = 256;  // sums of more floats than this would lose digits
    const SparseRows x = problem.x;
    Real *const weights = descent.weights, *const alpha = descent.alpha;
    int32_t* const order = descent.order.data();
    int64_t n_active = descent.n_active;
    const Real bias = static_cast<Real>(settings.bias);
    constexpr Real infinity = std::numeric_limits<Real>::infinity();
    const Group moving = Group::choose(descent.live, 0, 1), zero = Group::fill(0);
    // No finite gap is above the limit of a sibling that no longer moves.
    const Group quiet = Group::load(quiet_gaps).larger(Group::choose(descent.live, infinity, -infinity));
    Group objective = zero, gap = zero;
    InstanceCosts<Real, loss> costs(settings.cost, settings.cost * settings.positive_cost);
    int64_t n_summed = 0;
    for (int64_t visit = 0; visit < n_active; ++visit) {
        const int64_t i = order[visit];
        prefetch_visit<Real, W>(problem, order, visit, n_active, alpha);
        if (++n_summed % few == 0) seen.add(objective, gap);
        if (!problem.costs.empty()) {
            const double cost = settings.cost * problem.costs[i];
            costs = InstanceCosts<Real, loss>(cost, cost * settings.positive_cost);
        }
        const Real norm = problem.norms[i], own = problem.own_squares.empty() ? Real(0) : Real(problem.own_squares[i]);
        Real rate[2];
        // Without bias, the step of an empty row has no scale: any step goes straight to a bound.
        for (int sign = 0; sign < 2; ++sign)
            rate[sign] = 1 / std::max(norm + costs.diagonal[sign], std::numeric_limits<Real>::min());
        const Group y = Group::choose(problem.positive[i], -1, 1), before = Group::load(alpha + i * W);
        const Group product = products<Group>(x, i, weights, bias);
        Group after, room;  // room: how much more an instance may add to the gap and be set aside
#pragma GCC unroll 4
        for (int k = 0; k < n_vectors; ++k) {
            const auto up = y.v[k] > 0;
            const Vector none{};
            auto of_sign = [&](const Real(&pair)[2])
                               __attribute__((always_inline)) { return up ? pair[1] + none : pair[0] + none; };
            const Visit<Vector> at{y.v[k] * product.v[k] + own * before.v[k],
                                   before.v[k],
                                   of_sign(costs.cost),
                                   of_sign(costs.diagonal),
                                   of_sign(rate),
                                   norm + none};
            const Terms<Vector> added = terms<loss>(at);
            objective.v[k] += added.loss + before.v[k] * at.margin / 2;  // the second sums to w'w / 2
            gap.v[k] += added.gap;
            room.v[k] = quiet.v[k] - added.gap;
            if constexpr (moves) after.v[k] = next_alpha<loss>(at);
        }
        if (!room.any_negative()) {
            std::swap(order[visit--], order[--n_active]);
            continue;
        }
        if constexpr (moves) {
            Group step;
#pragma GCC unroll 4
            for (int k = 0; k < n_vectors; ++k) {
                const auto change = (after.v[k] - before.v[k]) * moving.v[k];
                after.v[k] = before.v[k] + change;
                step.v[k] = change * y.v[k];
            }
            after.store(alpha + i * W);
            move_weights<Group>(x, i, weights, bias, step);
        }
    }
    seen.add(objective, gap);
    descent.n_active = n_active;
}

// The sweep for this CPU. With vectors of AVX-512, it makes the same sums with half the instructions.
template <class Real, int W, Loss loss, bool moves>
auto sweep_for_this_cpu() {
    if constexpr (W * sizeof(Real) >= 64 && loss != Loss::logistic)
        return for_this_cpu<sweep<Real, W, loss, moves, 32>, sweep<Real, W, loss, moves, 64>>();
    else
        return for_this_cpu<sweep<Real, W, loss, moves, 32>>();
}

}  // namespace labeltree
