// The length of a row, and rows of length 1.
#pragma once

#include <array>
#include <cmath>
#include <span>

namespace labeltree {

// A squared length that differs from 1 by no more than this is one of rounded values.
constexpr double unit_tolerance = 0.002;

// Squares of floats are exact as doubles, and can neither overflow nor become 0. They are added in the same order on
// every CPU, so that a row has the same length everywhere.
inline double squared_length(std::span<const float> values) {
    std::array<double, 8> sums{};
    size_t at = 0;
    for (; at + sums.size() <= values.size(); at += sums.size())
        for (size_t k = 0; k < sums.size(); ++k) sums[k] += static_cast<double>(values[at + k]) * values[at + k];
    for (size_t k = 0; at + k < values.size(); ++k) sums[k] += static_cast<double>(values[at + k]) * values[at + k];
    return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

// True if a row of this squared length is left as it is.
inline bool is_unit(double square) { return std::abs(square - 1) <= unit_tolerance || square == 0; }

// Divides as double, and rounds once.
inline void scale_to_unit(std::span<const float> values, double square, std::span<float> scaled) {
    const double length = std::sqrt(square);
    for (size_t i = 0; i < values.size(); ++i) scaled[i] = static_cast<float>(values[i] / length);
}

}  // namespace labeltree
