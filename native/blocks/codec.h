// How weights are stored: as floats, or as half floats or bytes with one scale per child.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>

#include "common/simd.h"

namespace labeltree {

enum class Codec {
    float32,  // dense blocks, the bias is the last row
    float16,  // dense blocks, scaled
    int8,     // dense blocks, scaled
    sparse,   // int8 in lists per row (sparse_block.h), scaled
};

inline int64_t weight_bytes(Codec codec) { return codec == Codec::float32 ? 4 : codec == Codec::float16 ? 2 : 1; }

// Scaled weights are the stored value times the scale of the child. Their bias is a float32 outside the block: it is
// often much larger than the other weights, and would make the scale coarse.
inline bool is_scaled(Codec codec) { return codec != Codec::float32; }

// A child's position in a sparse block is one byte: wider nodes are stored in blocks of this many children.
constexpr int64_t block_children = 256;
inline int64_t n_sparse_blocks(int64_t n_children) { return (n_children + block_children - 1) / block_children; }

// Sparse blocks store the lower 16 bits of a feature. The features of a block are in one segment for each value of the
// other bits.
constexpr int64_t n_segments(int64_t n_features) { return std::max<int64_t>(1, (n_features + 0xffff) >> 16); }

// IEEE half precision.
struct Half {
    uint16_t bits;
};

// Exact for all that to_half returns: the exponent is corrected by a multiplication.
LABELTREE_INLINE float to_float(Half half) {
    const auto magnitude = std::bit_cast<float>(static_cast<uint32_t>(half.bits & 0x7fff) << 13) * 0x1p112f;
    return half.bits & 0x8000 ? -magnitude : magnitude;
}
LABELTREE_INLINE float to_float(int8_t value) { return value; }
LABELTREE_INLINE float to_float(float value) { return value; }

// Rounds to the nearest half, ties to even, for magnitudes up to 2^15. What would be a subnormal number becomes 0: it
// is at most 2^-28 of the child's largest weight, and CPUs are slow with subnormal numbers.
LABELTREE_INLINE Half to_half(float value) {
    const float magnitude = std::abs(value);
    const auto sign = std::bit_cast<uint32_t>(value) >> 16 & 0x8000;
    const auto bits = std::bit_cast<uint32_t>(magnitude);
    const uint32_t rounded = sign | (bits + 0xfff + (bits >> 13 & 1) - (112u << 23)) >> 13;
    return {static_cast<uint16_t>(magnitude < 0x1p-14f ? 0 : rounded)};
}

// The scale by which weights of a child are divided before they are rounded, if its largest magnitude is `largest`; 0
// if all its weights are 0.
inline float scale_of(Codec codec, float largest) {
    if (codec == Codec::int8 || codec == Codec::sparse) return largest / 127;
    int exponent;
    std::frexp(largest, &exponent);
    // A power of two, so that scaling is exact. The largest weight becomes 2^14 or more, up to 2^15.
    return largest > 0 ? std::ldexp(1.0f, std::max(exponent - 15, -126)) : 0;
}

// A weight divided by its scale, which is not 0, as it is stored.
LABELTREE_INLINE Half to_stored(float steps, Half) { return to_half(steps); }
LABELTREE_INLINE int8_t to_stored(float steps, int8_t) {
    constexpr float rounder = 12582912;  // 1.5 * 2^23: adding it rounds to an integer, ties to even
    const float above = steps > -127 ? steps : -127.0f, limited = above < 127 ? above : 127.0f;
    return static_cast<int8_t>(static_cast<int32_t>(limited + rounder - rounder));
}

// Weights below the threshold are stored as 0.
LABELTREE_INLINE float pruned(float weight, float threshold) { return std::abs(weight) < threshold ? 0 : weight; }

}  // namespace labeltree
