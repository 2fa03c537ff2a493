// Solves the sibling problems of one node, and proves each solution: its duality gap is at most the tolerance.
//
// Dual coordinate descent runs for all siblings at once. Instances that add next to nothing to the gap are set aside.
// When the gap of the others is small, all instances are measured with the weights fixed: this is the proof. A sibling
// that fails it goes on. A smooth problem that is still open after many passes is finished by Newton's method.
#pragma once

#include <bit>
#include <limits>
#include <numeric>
#include <vector>

#include "common/memory.h"
#include "common/random.h"
#include "train/descent.h"
#include "train/newton.h"
#include "train/start.h"

namespace labeltree {

// An instance is set aside if it adds at most quiet_share * tolerance * objective / instances to the gap: then those
// set aside add at most quiet_share of what is allowed. Any value from 0.1 to 0.8 takes about the same time.
constexpr double quiet_share = 0.5;

// Problems that need more visits per instance than this converge so slowly that Newton's method is faster.
constexpr int64_t max_visits = 300;

// Memory of one thread for the weights and dual variables of the siblings: one cache line each for floats.
template <class Real>
struct SolverSpace {
    Buffer<Real> weights, alpha;
    std::vector<int32_t> order;
    NewtonSpace newton;
};

// Finishes the open siblings one by one; returns those that remain open.
template <class Real, int W, Loss loss>
Siblings finish_by_newton(const Problem& problem, const SolverSettings& settings, SolverSpace<Real>& space,
                          Siblings open, const Cancel& cancel) {
    const int64_t n_columns = problem.x.n_columns, n_weights = number_own_weights(problem, space.newton.own);
    Real *const weights = space.weights.data(), *const alpha = space.alpha.data();
    for (Siblings left = open; left; left &= left - 1) {
        const int s = std::countr_zero(left);
        auto& w = space.newton.weights;
        w.resize(n_weights);
        for (int64_t f = 0; f < n_columns; ++f) w[f] = weights[f * W + s];
        w.back() = weights[n_columns * W + s];
        // An own weight is y alpha times the root of the squares.
        auto for_own = [&](auto&& copy) {
            for (size_t i = 0; i < problem.own_squares.size(); ++i)
                if (space.newton.own[i] >= 0)
                    copy(w[space.newton.own[i]], alpha[i * W + s],
                         (problem.positive[i] >> s & 1 ? 1 : -1) * std::sqrt(double{problem.own_squares[i]}));
        };
        for_own([](double& own, const Real& a, double root) { own = root * a; });
        if (Newton(problem, settings, s, space.newton).template solve<loss>(cancel)) open &= ~(Siblings{1} << s);
        for (int64_t f = 0; f < n_columns; ++f) weights[f * W + s] = static_cast<Real>(w[f]);
        weights[n_columns * W + s] = static_cast<Real>(w.back());
        for_own([](const double& own, Real& a, double root) { a = static_cast<Real>(own / root); });
    }
    return open;
}

// Leaves the solution in space.weights, W per feature of x, and in space.alpha, W per instance. Returns the siblings
// without proof.
template <class Real, int W, Loss loss>
Siblings solve(const Problem& problem, const SolverSettings& settings, Random random, SolverSpace<Real>& space,
               const Cancel& cancel) {
    const int64_t n_instances = problem.x.n_rows();
    space.order.resize(n_instances);
    std::iota(space.order.begin(), space.order.end(), 0);
    constexpr bool starts_at_zero = loss != Loss::squared_hinge;
    Descent<Real> descent{space.weights.zeros((problem.x.n_columns + 1) * W),
                          starts_at_zero ? space.alpha.zeros(n_instances * W) : space.alpha.reserve(n_instances * W),
                          space.order, n_instances, problem.used};
    if constexpr (!starts_at_zero) for_this_cpu<start_descent<W, Real>>()(problem, settings, descent);
    const auto descend = sweep_for_this_cpu<Real, W, loss, true>();
    const auto measure = sweep_for_this_cpu<Real, W, loss, false>();
    double allowed[W] = {};  // the gap that each sibling may have, by its last known objective
    Real quiet[W];
    std::fill_n(quiet, W, -std::numeric_limits<Real>::infinity());  // the first pass sets nothing aside
    auto allow = [&](const double* objective, double share) {
        for (int s = 0; s < W; ++s) {
            allowed[s] = settings.tolerance * objective[s];
            quiet[s] = static_cast<Real>(share * allowed[s] / static_cast<double>(std::max<int64_t>(1, n_instances)));
        }
    };
    Siblings open = problem.used;  // those whose solution is not proven
    int64_t visits_left = loss == Loss::hinge ? std::numeric_limits<int64_t>::max() : max_visits * n_instances;
    for (int pass = 1; pass <= settings.max_iterations && open && visits_left >= 0 && !cancel; ++pass) {
        random.shuffle(descent.order.first(descent.n_active));
        visits_left -= descent.n_active;
        const bool whole = descent.n_active == n_instances;
        Seen<W> seen;
        descend(problem, settings, descent, quiet, seen);
        // An objective that begins at w = 0 means little: then, the first pass only sets idle instances aside.
        if (whole) allow(seen.objective, pass == 1 && starts_at_zero ? 0 : quiet_share);
        if (pass > 1)
            for (int s = 0; s < W; ++s)
                if (seen.gap[s] <= allowed[s]) descent.live &= ~(Siblings{1} << s);
        if (descent.live && pass < settings.max_iterations && visits_left >= 0) continue;
        descent.live = open;
        descent.n_active = n_instances;
        std::iota(space.order.begin(), space.order.end(), 0);  // instances next to each other are read fastest
        Seen<W> proof;
        visits_left -= n_instances;
        measure(problem, settings, descent, quiet, proof);
        allow(proof.objective, quiet_share);
        for (int s = 0; s < W; ++s)
            // The optimum is at least objective - gap. Infinity proves nothing.
            if (std::isfinite(proof.objective[s]) &&
                proof.gap[s] <= settings.tolerance * (proof.objective[s] - proof.gap[s]))
                open &= ~(Siblings{1} << s);
        descent.live = open;
    }
    if constexpr (loss != Loss::hinge)
        if (open && settings.max_iterations >= max_visits && !cancel)
            open = finish_by_newton<Real, W, loss>(problem, settings, space, open, cancel);
    return open;
}

}  // namespace labeltree
