// Newton's method for one binary problem with a smooth loss: finishes what dual coordinate descent is slow to solve.
//
// A step solves the Newton system by conjugate gradients, preconditioned by the diagonal of the Hessian, so that badly
// scaled features do no harm, and is shortened until the objective decreases (Hsia et al. 2018; Galli and Lin 2022).
// The objective is 1-strongly convex, so it exceeds its minimum by at most |gradient|^2 / 2.
#pragma once

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "common/parallel.h"
#include "train/problem.h"

namespace labeltree {

// Scratch vectors: one number per feature and for the bias, or per instance.
struct NewtonSpace {
    static constexpr int feature_bytes = 7 * sizeof(double), instance_bytes = 3 * sizeof(double) + 4;
    std::vector<double> weights, gradient, diagonal, step, residual, direction, product;
    std::vector<double> margins, changes, curvature;
    std::vector<int32_t> own;  // the number of an instance's own weight, -1 if it has none
};

// Features that only one instance has act as one: their weights are in proportion to their values. Numbers these after
// the features of x, and returns the number of all weights, the bias included.
inline int64_t number_own_weights(const Problem& problem, std::vector<int32_t>& own) {
    int64_t n_weights = problem.x.n_columns;
    own.assign(problem.x.n_rows(), -1);
    for (size_t i = 0; i < problem.own_squares.size(); ++i)
        if (problem.own_squares[i] > 0) own[i] = static_cast<int32_t>(n_weights++);
    return n_weights + 1;
}

class Newton {
  public:
    Newton(const Problem& problem, const SolverSettings& settings, int sibling, NewtonSpace& space)
        : problem_(problem), settings_(settings), sibling_(sibling), space_(space) {
        const size_t n_weights = space.weights.size(), n_instances = problem.x.n_rows();
        for (auto* v :
             {&space.gradient, &space.diagonal, &space.step, &space.residual, &space.direction, &space.product})
            v->assign(n_weights, 0);
        for (auto* v : {&space.margins, &space.changes, &space.curvature}) v->assign(n_instances, 0);
    }

    // Improves space.weights, numbered as number_own_weights does, until the objective is proven to be close to its
    // minimum; false if that takes too long.
    template <Loss loss>
    bool solve(const Cancel& cancel) {
        static_assert(loss != Loss::hinge, "the hinge loss has no second derivative");
        constexpr int max_steps = 100;
        auto& [w, gradient, diagonal, step, residual, direction, product, margins, changes, curvature, own] = space_;
        for (size_t i = 0; i < margins.size(); ++i) margins[i] = sign(i) * times_row(i, w);
        if (starts_too_far<loss>()) {
            std::fill(w.begin(), w.end(), 0.0);
            std::fill(margins.begin(), margins.end(), 0.0);
        }
        for (int round = 0; round < max_steps && !cancel; ++round) {
            const double objective = derivatives<loss>();
            const double gap = dot(gradient, gradient) / 2;
            if (std::isfinite(objective) && gap <= settings_.tolerance * (objective - gap)) return true;
            solve_newton_system(cancel);
            for (size_t i = 0; i < changes.size(); ++i) changes[i] = sign(i) * times_row(i, step);
            const double length = line_search<loss>(objective);
            if (length == 0) return false;  // rounding hides any further decrease
            for (size_t f = 0; f < w.size(); ++f) w[f] += length * step[f];
            for (size_t i = 0; i < margins.size(); ++i) margins[i] += length * changes[i];
        }
        return false;
    }

  private:
    double sign(size_t i) const { return problem_.positive[i] >> sibling_ & 1 ? 1 : -1; }
    double cost(size_t i) const {
        return settings_.cost * (problem_.costs.empty() ? 1 : problem_.costs[i]) *
               (sign(i) > 0 ? settings_.positive_cost : 1);
    }

    static double dot(const std::vector<double>& a, const std::vector<double>& b) {
        return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
    }

    double times_row(size_t i, const std::vector<double>& v) const {
        const auto columns = problem_.x.columns(i);
        const auto values = problem_.x.values(i);
        double sum = settings_.bias * v.back();
        if (space_.own[i] >= 0) sum += std::sqrt(problem_.own_squares[i]) * v[space_.own[i]];
        for (size_t k = 0; k < columns.size(); ++k) sum += values[k] * v[columns[k]];
        return sum;
    }

    // v += scale * row i, with each value raised to a power: 1 or 2
    template <int power = 1>
    void add_row(size_t i, double scale, std::vector<double>& v) const {
        const auto columns = problem_.x.columns(i);
        const auto values = problem_.x.values(i);
        auto raised = [](double value) { return power == 1 ? value : value * value; };
        for (size_t k = 0; k < columns.size(); ++k) v[columns[k]] += scale * raised(values[k]);
        v.back() += scale * raised(settings_.bias);
        if (space_.own[i] >= 0) v[space_.own[i]] += scale * raised(std::sqrt(problem_.own_squares[i]));
    }

    template <Loss loss>
    static double loss_at(double margin) {
        if constexpr (loss == Loss::logistic) return std::max(-margin, 0.0) + std::log1p(std::exp(-std::abs(margin)));
        const double missing = std::max(1 - margin, 0.0);
        return missing * missing;
    }

    // Whether the weights given are no better than none: badly scaled data may have led the descent far away.
    template <Loss loss>
    bool starts_too_far() const {
        double here = dot(space_.weights, space_.weights) / 2, at_zero = 0;
        for (size_t i = 0; i < space_.margins.size(); ++i) {
            here += cost(i) * loss_at<loss>(space_.margins[i]);
            at_zero += cost(i) * loss_at<loss>(0);
        }
        return !(here < at_zero);  // also if it is not finite
    }

    // Sets the gradient, the curvature of each instance's loss and the diagonal of the Hessian; returns the objective.
    template <Loss loss>
    double derivatives() {
        auto& [w, gradient, diagonal, step, residual, direction, product, margins, changes, curvature, own] = space_;
        gradient = w;
        std::fill(diagonal.begin(), diagonal.end(), 1.0);
        double objective = dot(w, w) / 2;
        for (size_t i = 0; i < margins.size(); ++i) {
            double slope, curve;
            if constexpr (loss == Loss::logistic) {
                const double share = 1 / (1 + std::exp(margins[i]));
                slope = -share;
                curve = share * (1 - share);
            } else {
                slope = -2 * std::max(1 - margins[i], 0.0);
                curve = margins[i] < 1 ? 2 : 0;
            }
            objective += cost(i) * loss_at<loss>(margins[i]);
            curvature[i] = cost(i) * curve;
            if (slope != 0) add_row(i, cost(i) * sign(i) * slope, gradient);
            if (curve != 0) add_row<2>(i, curvature[i], diagonal);
        }
        return objective;
    }

    // Sets step to about -H^-1 gradient.
    void solve_newton_system(const Cancel& cancel) {
        constexpr int max_products = 500;
        constexpr double enough = 0.1;  // of the first residual: a better step would not pay
        auto& [w, gradient, diagonal, step, residual, direction, product, margins, changes, curvature, own] = space_;
        std::fill(step.begin(), step.end(), 0.0);
        for (size_t f = 0; f < w.size(); ++f) {
            residual[f] = -gradient[f];
            direction[f] = residual[f] / diagonal[f];
        }
        double now = dot(residual, direction);
        const double goal = enough * enough * now;
        for (int k = 0; k < max_products && now > goal && !cancel; ++k) {
            product = direction;
            for (size_t i = 0; i < curvature.size(); ++i)
                if (curvature[i] != 0) add_row(i, curvature[i] * times_row(i, direction), product);
            const double length = now / dot(direction, product);
            double next = 0;
            for (size_t f = 0; f < w.size(); ++f) {
                step[f] += length * direction[f];
                residual[f] -= length * product[f];
                next += residual[f] * residual[f] / diagonal[f];
            }
            for (size_t f = 0; f < w.size(); ++f) direction[f] = residual[f] / diagonal[f] + next / now * direction[f];
            now = next;
        }
    }

    // The largest of 1, 1/2, 1/4, ... of the step that decreases the objective enough; 0 if none does.
    template <Loss loss>
    double line_search(double objective) const {
        constexpr double share = 0.01;  // of the decrease that the slope promises
        const auto& [w, gradient, diagonal, step, residual, direction, product, margins, changes, curvature, own] =
            space_;
        const double slope = dot(gradient, step), cross = dot(w, step), square = dot(step, step), before = dot(w, w);
        for (double length = 1; length > 1e-12; length /= 2) {
            double value = (before + length * (2 * cross + length * square)) / 2;
            for (size_t i = 0; i < margins.size(); ++i)
                value += cost(i) * loss_at<loss>(margins[i] + length * changes[i]);
            // Rounding may hide the last decrease: then the gradient decides.
            if (value <= objective + share * length * slope + 1e-14 * std::abs(objective)) return length;
        }
        return 0;
    }

    const Problem& problem_;
    const SolverSettings& settings_;
    const int sibling_;
    NewtonSpace& space_;
};

}  // namespace labeltree
