// Rows of trained weights as they are stored, with one scale per child.
//
// The loops over the children of a row have no branches or calls, so that compilers make vector instructions of them.
#pragma once

#include <span>
#include <type_traits>
#include <vector>

#include "blocks/codec.h"

namespace labeltree {

// Raises the largest magnitude of each child to that of a weight which is not pruned.
template <class Real>
LABELTREE_INLINE void raise_largest(const Real* __restrict row, float threshold, int64_t n_children,
                                    float* __restrict largest) {
    for (int64_t c = 0; c < n_children; ++c) {
        const float magnitude = std::abs(static_cast<float>(row[c]));
        largest[c] = magnitude >= threshold && magnitude > largest[c] ? magnitude : largest[c];
    }
}

// Sums of the squares of each child's weights, as trained and as stored in a sparse block.
class SquareSums {
  public:
    explicit SquareSums(int64_t n_children) : trained(n_children), stored(n_children) {}

    // The scale with which the stored weights have the norm of the trained ones: pruning does not shrink margins.
    float scale(int64_t child) const {
        if (stored[child] == 0) return 0;
        const double scale = std::sqrt(trained[child] / static_cast<double>(stored[child]));
        return static_cast<float>(std::min<double>(scale, std::numeric_limits<float>::max()));
    }

    std::vector<double> trained;
    std::vector<int64_t> stored;
};

// Writes a row, and adds bytes to the sums. Each step is a loop of its own: types of one size fill a vector.
template <class T, class Real>
LABELTREE_INLINE void store_row(const Real* __restrict row, float threshold, int64_t n_children,
                                const float* __restrict scales, T* __restrict out, double* __restrict trained,
                                int64_t* __restrict stored) {
    constexpr int64_t at_once = 32;
    for (int64_t first = 0; first < n_children; first += at_once) {
        const int64_t n = std::min(at_once, n_children - first);
        float weights[at_once], steps[at_once];
        for (int64_t k = 0; k < n; ++k) weights[k] = static_cast<float>(row[first + k]);
        for (int64_t k = 0; k < n; ++k) steps[k] = pruned(weights[k], threshold) / scales[first + k];
        for (int64_t k = 0; k < n; ++k) out[first + k] = to_stored(steps[k], T{});
        if constexpr (std::is_same_v<T, int8_t>) {
            // The product is exact, with or without FMA.
            for (int64_t k = 0; k < n; ++k) trained[first + k] += static_cast<double>(weights[k]) * weights[k];
            for (int64_t k = 0; k < n; ++k) stored[first + k] += int32_t{out[first + k]} * out[first + k];
        }
    }
}

// Finds the scale of each child; the scales are 0 before. row_of(f) returns the trained weights of a row, until the
// next call.
template <class Real, class RowOf>
void find_scales(Codec codec, float threshold, int64_t n_rows, RowOf&& row_of, std::span<float> scales) {
    static const auto raise = for_this_cpu<raise_largest<Real>>();
    for (int64_t f = 0; f < n_rows; ++f) raise(row_of(f), threshold, std::ssize(scales), scales.data());
    for (float& scale : scales) scale = scale_of(codec, scale);
}

// Writes the rows one after the other. With a sparse block, also sets the scales with which they are read.
template <class T, class Real, class RowOf>
void store_rows(Codec codec, float threshold, int64_t n_rows, RowOf&& row_of, std::span<float> scales, T* out) {
    static const auto store = for_this_cpu<store_row<T, Real>>();
    const auto n_children = std::ssize(scales);
    SquareSums squares(n_children);
    std::vector<float> divisors(scales.begin(), scales.end());
    for (float& divisor : divisors) divisor = divisor > 0 ? divisor : 1;  // of a child without weights
    for (int64_t f = 0; f < n_rows; ++f, out += n_children)
        store(row_of(f), threshold, n_children, divisors.data(), out, squares.trained.data(), squares.stored.data());
    if (codec == Codec::sparse)
        for (int64_t c = 0; c < n_children; ++c) scales[c] = squares.scale(c);
}

}  // namespace labeltree
