// The binary problems of up to 32 siblings, and how to solve them.
//
// Objective of each sibling: w'w / 2 + sum_i C_i loss(y_i w'x_i).
#pragma once

#include <cstdint>
#include <span>

#include "common/views.h"
#include "train/losses.h"

namespace labeltree {

// Siblings that are solved at once: the weights of one feature are two cache lines. With 16, and one line, training
// takes a tenth longer: lines come in pairs from memory, and instances are read twice as often.
constexpr int siblings = 32;

using Siblings = uint32_t;  // a set of them: bit s is sibling s

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
    int64_t n_own;                       // the first instances; those after them are foreign: negative for all siblings
    std::span<const float> sums;         // of each feature over the own instances
    std::span<const float> costs;        // of each instance, multiplied by settings.cost; empty: all 1
    std::span<const Siblings> positive;  // of each instance
    Siblings used;                       // those that there are
};

}  // namespace labeltree
