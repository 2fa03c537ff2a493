// Dual coordinate descent for up to sixteen sibling problems at once, on the instances of one node.
//
// Objective of each sibling: w'w / 2 + sum_i C_i loss(y_i w'x_i). The siblings share instances, norms and the random
// order of visits. Each runs its own, unchanged descent (Hsieh et al. 2008) and stops once it has converged.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "memory.h"
#include "parallel.h"
#include "random.h"
#include "simd.h"
#include "views.h"

namespace labeltree {

constexpr int siblings = 16;     // solved at once: the weights of one feature are a cache line
constexpr int few_siblings = 8;  // where there are no more, half a line

// After the first pass, an instance whose gradients are all below quiet_share * tolerance is set aside until the others
// have converged; then all are visited again. In single precision a sibling skips that visit if its duality gap at the
// last one was below near_share * tolerance * objective. The two halve the work, and the objective ends about 0.5%
// above its optimum instead of 0.1%, which does not change rankings. In double precision, only instances at a bound
// are set aside, and all must converge.
constexpr double quiet_share = 0.5;
constexpr double near_share = 0.3;

enum class Loss { squared_hinge, hinge, logistic };

struct SolverSettings {
    Loss loss;
    double cost;
    double tolerance;
    int max_iterations;
    double bias;
    uint64_t seed;
};

// The instances of one node, features numbered from 0. The bias is the row of weights after the last feature.
struct Problem {
    SparseRows x;
    std::span<const float> norms;        // x'x + bias^2
    std::span<const float> costs;        // of each instance, multiplied by settings.cost; empty: all 1
    std::span<const uint16_t> positive;  // bit s: positive for sibling s
    uint16_t used;                       // bit s: there is a sibling s
};

// The weights and dual variables of the siblings, feature-major and instance-major: one cache line each for floats.
template <class Real>
struct SolverSpace {
    Buffer<Real> weights;  // (features + 1) x siblings
    Buffer<Real> alpha;    // instances x siblings
    std::vector<int32_t> order;
};

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

typedef double Four __attribute__((vector_size(32)));

LABELTREE_INLINE Eight exponential(Eight t) { return exp_eight(smaller(larger(t, -87.0f - Eight{}), 87.0f - Eight{})); }
LABELTREE_INLINE Four exponential(Four t) {
    return Four{std::exp(t[0]), std::exp(t[1]), std::exp(t[2]), std::exp(t[3])};
}

// The minimiser of the logistic dual in one coordinate: alpha = C / (1 + e^m), where m = base + norm * alpha is the
// margin after the step and base the margin without this instance. Newton's method on m, with m bracketed by alpha in
// [0, C].
template <class Real, int W>
LABELTREE_INLINE Group<Real, W> logistic_step(const Group<Real, W>& margin, const Group<Real, W>& before, Real norm,
                                              Real cost) {
    constexpr Real enough = sizeof(Real) == 4 ? Real(1e-6) : Real(1e-13);
    const Real reach = norm * cost;
    Group<Real, W> alpha;
    for (int k = 0; k < Group<Real, W>::n_vectors; ++k) {
        auto m = margin.v[k];
        const auto base = m - norm * before.v[k];
        auto low = base, high = base + reach;
        for (int round = 0; round < 60; ++round) {
            const auto share = 1 / (1 + exponential(m));
            alpha.v[k] = cost * share;
            const auto excess = m - base - reach * share;
            const auto size = excess > 0 ? excess : -excess, scale = 1 + (m > 0 ? m : -m);
            const auto far = size > enough * scale;
            bool done = true;
            for (int lane = 0; lane < Group<Real, W>::per_vector; ++lane) done &= far[lane] == 0;
            if (done) break;
            low = excess > 0 ? low : m;
            high = excess > 0 ? m : high;
            const auto newton = m - excess / (1 + reach * share * (1 - share));
            m = ((newton >= low) & (newton <= high)) ? newton : (low + high) / 2;
        }
    }
    return alpha;
}

template <class Real, int W>
LABELTREE_INLINE Group<Real, W> margins(const SparseRows& x, int64_t i, const Real* weights, Real bias) {
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
    Real* weights;
    Real* alpha;
    std::span<int32_t> order;  // the first n_active instances are visited
    int64_t n_active;
    uint16_t live;  // bit s: sibling s has not converged
};

// The extremes of the projected gradients of each sibling in one pass. After a pass over all instances also its
// objective and duality gap, except with the logistic loss, where they would take logarithms.
template <class Real, int W>
struct Seen {
    Group<Real, W> most, least, objective, gap;
};

// One pass over the active instances for the live siblings. An instance whose projected gradient is at most `quiet`
// for all of them is left unchanged and moved behind the active ones.
template <class Real, int W, Loss loss>
LABELTREE_INLINE Seen<Real, W> sweep(const Problem& problem, const SolverSettings& settings, Descent<Real>& descent,
                                     Real quiet) {
    constexpr int n_vectors = Group<Real, W>::n_vectors;
    static const BitTable<Real> signs(-1, 1), ones(0, 1);
    const SparseRows x = problem.x;
    Real *const weights = descent.weights, *const alpha = descent.alpha;
    int32_t* const order = descent.order.data();
    int64_t n_active = descent.n_active;
    const Real bias = static_cast<Real>(settings.bias), infinity = std::numeric_limits<Real>::infinity();
    const Group<Real, W> moving = ones.template lanes<W>(descent.live), zero = Group<Real, W>::fill(0);
    Seen<Real, W> seen{Group<Real, W>::fill(-infinity), Group<Real, W>::fill(infinity), zero, zero};
    const bool whole = n_active == x.n_rows();
    for (int64_t visit = 0; visit < n_active; ++visit) {
        const int64_t i = order[visit];
        prefetch_visit<Real, W>(x, order, visit, n_active, alpha);
        const Real cost = static_cast<Real>(settings.cost) * (problem.costs.empty() ? 1 : problem.costs[i]);
        const Real norm = problem.norms[i];
        const Group<Real, W> y = signs.template lanes<W>(problem.positive[i]);
        const Group<Real, W> before = Group<Real, W>::load(alpha + i * W);
        const Group<Real, W> product = margins<Real, W>(x, i, weights, bias);
        Group<Real, W> after, gradient, step, loud;
        if constexpr (loss == Loss::logistic) {
            Group<Real, W> margin;
#pragma GCC unroll 4
            for (int k = 0; k < n_vectors; ++k) margin.v[k] = y.v[k] * product.v[k];
            after = logistic_step<Real, W>(margin, before, norm, cost);
#pragma GCC unroll 4
            for (int k = 0; k < n_vectors; ++k) gradient.v[k] = norm * (before.v[k] - after.v[k]);
        } else {
            const Real diagonal = loss == Loss::squared_hinge ? Real(0.5) / cost : Real(0);
            // Without bias, the step of an empty row has no scale: any step goes straight to a bound.
            const Real rate = 1 / std::max(norm + diagonal, std::numeric_limits<Real>::min());
#pragma GCC unroll 4
            for (int k = 0; k < n_vectors; ++k) {
                const auto slope = y.v[k] * product.v[k] - 1 + diagonal * before.v[k];
                auto next = before.v[k] - slope * rate;
                next = next > 0 ? next : zero.v[k];
                // Projected: at a bound, a slope that leads out of the box does not count.
                gradient.v[k] = before.v[k] <= 0 ? (slope < 0 ? slope : zero.v[k]) : slope;
                if (loss == Loss::hinge) {
                    next = next < cost ? next : zero.v[k] + cost;
                    gradient.v[k] = before.v[k] >= cost ? (slope > 0 ? slope : zero.v[k]) : gradient.v[k];
                }
                after.v[k] = next;
                if (whole) {  // what this instance contributes to the objective and to the duality gap
                    const auto lack = 1 - y.v[k] * product.v[k], missing = lack > 0 ? lack : zero.v[k];
                    const auto lost = cost * (loss == Loss::hinge ? missing : missing * missing);
                    seen.objective.v[k] += lost + before.v[k] * (1 - lack) / 2;
                    seen.gap.v[k] += lost - before.v[k] * (lack - diagonal * before.v[k] / 2);
                }
            }
        }
#pragma GCC unroll 4
        for (int k = 0; k < n_vectors; ++k) {
            seen.most.v[k] = seen.most.v[k] > gradient.v[k] ? seen.most.v[k] : gradient.v[k];
            seen.least.v[k] = seen.least.v[k] < gradient.v[k] ? seen.least.v[k] : gradient.v[k];
            loud.v[k] = ((gradient.v[k] > quiet) | (gradient.v[k] < -quiet)) ? moving.v[k] : zero.v[k];
        }
        if (!loud.any()) {
            std::swap(order[visit--], order[--n_active]);
            continue;
        }
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
    descent.n_active = n_active;
    return seen;
}

// Leaves the solution in space.weights, W per feature.
template <class Real, int W, Loss loss>
void solve(const Problem& problem, const SolverSettings& settings, Random random, SolverSpace<Real>& space,
           const Cancel& cancel) {
    const int64_t n_instances = problem.x.n_rows();
    space.order.resize(n_instances);
    std::iota(space.order.begin(), space.order.end(), 0);
    Descent<Real> descent{space.weights.zeros((problem.x.n_columns + 1) * W), space.alpha.zeros(n_instances * W),
                          space.order, n_instances, problem.used};
    const auto sweep_fast = for_this_cpu<sweep<Real, W, loss>>();
    constexpr bool single = sizeof(Real) == sizeof(float);
    const double tolerance = settings.tolerance;
    uint16_t near = 0, unsure = 0;  // unsure: converged, but not yet on all instances
    for (int pass = 1; pass <= settings.max_iterations && descent.live && !cancel; ++pass) {
        random.shuffle(descent.order.first(descent.n_active));
        const bool whole = descent.n_active == n_instances;
        const Real quiet = pass == 1 ? Real(-1) : static_cast<Real>(tolerance * (single ? quiet_share : 0));
        const Seen<Real, W> seen = sweep_fast(problem, settings, descent, quiet);
        Real most[W], least[W], objective[W], gap[W];
        seen.most.store(most);
        seen.least.store(least);
        seen.objective.store(objective);
        seen.gap.store(gap);
        for (int s = 0; s < W; ++s) {
            const auto bit = static_cast<uint16_t>(1 << s);
            if (whole && single && loss != Loss::logistic)
                near = gap[s] <= near_share * tolerance * objective[s] ? near | bit : near & ~bit;
            // If no instance was visited, most is -infinity, which has converged.
            if ((descent.live & bit) && most[s] <= tolerance && least[s] >= -tolerance &&
                most[s] - least[s] <= tolerance) {
                descent.live &= ~bit;
                if (!whole && !(near & bit)) unsure |= bit;
            }
        }
        if (!descent.live && unsure) {
            descent.live = std::exchange(unsure, 0);
            descent.n_active = n_instances;
        }
    }
}

}  // namespace labeltree
