// Vectors of siblings in registers, and the choice of instructions at run time.
//
// A kernel is written once, as a LABELTREE_INLINE function. for_this_cpu<kernel>() compiles it twice, for any CPU and
// for AVX2, and returns the faster function that this CPU can run. LABELTREE_SIMD=portable forces the first.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#define LABELTREE_INLINE inline __attribute__((always_inline))
#if defined(__x86_64__)
#define LABELTREE_AVX2 __attribute__((target("avx2,fma,bmi2,popcnt")))
#else
#define LABELTREE_AVX2
#endif

namespace labeltree {

inline bool use_avx2() {
#if defined(__x86_64__)
    static const bool chosen = [] {
        const char* wanted = std::getenv("LABELTREE_SIMD");
        if (wanted && std::strcmp(wanted, "portable") == 0) return false;
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
               __builtin_cpu_supports("bmi2");  // all of these CPUs have popcnt
    }();
    return chosen;
#else
    return false;
#endif
}

template <auto kernel, class Function = decltype(kernel)>
struct Builds;

// The kernel is inlined into both, and so compiled with the instructions of each.
template <auto kernel, class Result, class... Arguments>
struct Builds<kernel, Result (*)(Arguments...)> {
    static Result portable(Arguments... arguments) { return kernel(arguments...); }
    LABELTREE_AVX2 static Result avx2(Arguments... arguments) { return kernel(arguments...); }
};

template <auto kernel>
decltype(kernel) for_this_cpu() {
    return use_avx2() ? &Builds<kernel>::avx2 : &Builds<kernel>::portable;
}

// A 32-byte vector, and one that may begin anywhere. Values are read and written through the second: a copy through
// memcpy would go through the stack.
typedef float Eight __attribute__((vector_size(32)));
typedef float UnalignedEight __attribute__((vector_size(32), aligned(4), may_alias));

LABELTREE_INLINE Eight larger(Eight a, Eight b) { return a > b ? a : b; }
LABELTREE_INLINE Eight smaller(Eight a, Eight b) { return a < b ? a : b; }

// exp(x) for x from -87.34 to 88, with a relative error of about 1e-7.
LABELTREE_INLINE Eight exp_eight(Eight x) {
    typedef int32_t Bits __attribute__((vector_size(32)));
    constexpr float rounder = 12582912;  // 1.5 * 2^23: a float this large has no bits left for a fraction
    const Eight shifted = x * 1.44269504f + rounder;
    const Eight whole = shifted - rounder;
    const Eight r = (x - whole * 0.693359375f) + whole * 2.12194440e-4f;  // x = whole * log(2) + r
    Eight y = 1.9875691500e-4f * r + 1.3981999507e-3f;                    // the polynomial of Cephes' expf
    y = y * r + 8.3334519073e-3f;
    y = y * r + 4.1665795894e-2f;
    y = y * r + 1.6666665459e-1f;
    y = y * r + 5.0000001201e-1f;
    y = y * r * r + r + 1.0f;
    const Bits exponent = reinterpret_cast<Bits>(shifted) - std::bit_cast<int32_t>(rounder) + 127;
    return y * reinterpret_cast<Eight>(exponent << 23);
}

// log(x) for positive, normal x, with a relative error of about 1e-7.
LABELTREE_INLINE Eight log_eight(Eight x) {
    typedef int32_t Bits __attribute__((vector_size(32)));
    Bits exponent = (reinterpret_cast<Bits>(x) >> 23) - 126;
    Eight m = reinterpret_cast<Eight>((reinterpret_cast<Bits>(x) & 0x007fffff) | 0x3f000000);  // x = m * 2^exponent
    const Bits small = m < 0.707106781f;
    exponent += small;  // true is -1
    m = (small ? m + m : m) - 1;
    Eight y = 7.0376836292e-2f * m - 1.1514610310e-1f;  // the polynomial of Cephes' logf
    y = y * m + 1.1676998740e-1f;
    y = y * m - 1.2420140846e-1f;
    y = y * m + 1.4249322787e-1f;
    y = y * m - 1.6668057665e-1f;
    y = y * m + 2.0000714765e-1f;
    y = y * m - 2.4999993993e-1f;
    y = y * m + 3.3333331174e-1f;
    const Eight square = m * m, e = __builtin_convertvector(exponent, Eight);
    y = y * m * square - 2.12194440e-4f * e - 0.5f * square;
    return m + y + 0.693359375f * e;
}

// N numbers of one type in 32-byte vectors: two AVX2 registers for 16 floats, four for 16 doubles.
template <class Real, int N>
struct Lanes {
    static constexpr int per_vector = 32 / static_cast<int>(sizeof(Real));
    static constexpr int n_vectors = N / per_vector;
    static_assert(N % per_vector == 0);
    typedef Real Vector __attribute__((vector_size(32)));
    typedef Real Unaligned __attribute__((vector_size(32), aligned(sizeof(Real)), may_alias));
    Vector v[n_vectors];

    static LABELTREE_INLINE Lanes fill(Real value) {
        Lanes out;
#pragma GCC unroll 16
        for (int k = 0; k < n_vectors; ++k) out.v[k] = value - Vector{};
        return out;
    }
    static LABELTREE_INLINE Lanes load(const Real* from) {
        Lanes out;
#pragma GCC unroll 16
        for (int k = 0; k < n_vectors; ++k) out.v[k] = reinterpret_cast<const Unaligned*>(from)[k];
        return out;
    }
    LABELTREE_INLINE void store(Real* to) const {
#pragma GCC unroll 16
        for (int k = 0; k < n_vectors; ++k) reinterpret_cast<Unaligned*>(to)[k] = v[k];
    }
    // this += scale * other
    LABELTREE_INLINE void add(Real scale, const Lanes& other) {
#pragma GCC unroll 16
        for (int k = 0; k < n_vectors; ++k) v[k] += scale * other.v[k];
    }
    // True if any lane is neither 0 nor -0.
    LABELTREE_INLINE bool any() const {
        typedef uint64_t Words __attribute__((vector_size(32)));
        Words all{};
#pragma GCC unroll 16
        for (int k = 0; k < n_vectors; ++k) all |= reinterpret_cast<Words>(v[k]);
        const uint64_t bits = all[0] | all[1] | all[2] | all[3];
        return bits & (sizeof(Real) == 4 ? 0x7fffffff7fffffffu : 0x7fffffffffffffffu);
    }
};

}  // namespace labeltree
