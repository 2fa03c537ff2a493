// The binary problems of up to sixteen siblings, and how to solve them.
//
// Objective of each sibling: w'w / 2 + sum_i C_i loss(y_i w'x_i).
#pragma once

#include <cstdint>
#include <span>

#include "losses.h"
#include "views.h"

namespace labeltree {

constexpr int siblings = 16;     // solved at once: the weights of one feature are a cache line
constexpr int few_siblings = 8;  // where there are no more, half a line

struct SolverSettings {
    Loss loss;
    double cost;           // of the node
    double positive_cost;  // multiplies the cost of positive instances
    double tolerance;      // largest relative duality gap
    int max_iterations;
    double bias;
    uint64_t seed;
};

// The instances of one node, features numbered from 0. The bias is the row of weights after the last feature.
//
// A feature that only one instance has is left out of x: its weight is y alpha times its value, so all that an instance
// needs to know of such features is the sum of their squares.
struct Problem {
    SparseRows x;
    std::span<const float> own_squares;  // of the features that only this instance has; empty: all are in x
    std::span<const float> norms;        // x'x + bias^2
    std::span<const float> sums;         // of each feature over all instances
    std::span<const float> costs;        // of each instance, multiplied by settings.cost; empty: all 1
    std::span<const uint16_t> positive;  // bit s: positive for sibling s
    uint16_t used;                       // bit s: there is a sibling s
};

}  // namespace labeltree
