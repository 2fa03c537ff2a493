// Vectors of siblings in registers, and the choice of instructions at run time.
//
// A kernel is written once, as a LABELTREE_INLINE function. for_this_cpu<kernel>() compiles it twice, for any CPU and
// for AVX2, and returns the faster function that this CPU can run. A kernel whose vectors may be 64 bytes long is also
// compiled for AVX-512. LABELTREE_SIMD=portable or avx2 forces one of the others.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <type_traits>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define LABELTREE_INLINE inline __attribute__((always_inline))
#if defined(__x86_64__)
#define LABELTREE_AVX2 __attribute__((target("avx2,fma,popcnt")))
#define LABELTREE_AVX512 __attribute__((target("avx2,fma,popcnt,avx512f,avx512dq,avx512vl")))
#define LABELTREE_EXPAND __attribute__((target("avx2,fma,popcnt,avx512f,avx512dq,avx512vl,avx512bw,avx512vbmi2")))
#else
#define LABELTREE_AVX2
#define LABELTREE_AVX512
#endif

namespace labeltree {

enum class Simd { portable, avx2, avx512 };

inline Simd best_simd() {
#if defined(__x86_64__)
    static const Simd best = [] {
        const char* wanted = std::getenv("LABELTREE_SIMD");
        auto is_wanted = [&](const char* name) { return wanted && std::strcmp(wanted, name) == 0; };
        // Every CPU with AVX2 has popcnt.
        if (is_wanted("portable") || !__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))
            return Simd::portable;
        const bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                          __builtin_cpu_supports("avx512vl");
        return wide && !is_wanted("avx2") ? Simd::avx512 : Simd::avx2;
    }();
    return best;
#else
    return Simd::portable;
#endif
}

// Whether bytes can be spread by the bits of a mask (AVX-512 VBMI2).
inline bool use_expand() {
#if defined(__x86_64__)
    static const bool supported = __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vbmi2");
    return supported && best_simd() == Simd::avx512;
#else
    return false;
#endif
}

inline bool use_avx2() { return best_simd() != Simd::portable; }

template <auto kernel, class Function = std::decay_t<decltype(kernel)>>
struct Builds;

// The kernel is inlined into both, and so compiled with the instructions of each.
template <auto kernel, class Result, class... Arguments>
struct Builds<kernel, Result (*)(Arguments...)> {
    static Result portable(Arguments... arguments) { return kernel(arguments...); }
    LABELTREE_AVX2 static Result avx2(Arguments... arguments) { return kernel(arguments...); }
    LABELTREE_AVX512 static Result avx512(Arguments... arguments) { return kernel(arguments...); }
};

template <auto kernel>
decltype(kernel) for_this_cpu() {
    return use_avx2() ? &Builds<kernel>::avx2 : &Builds<kernel>::portable;
}

// The same for a kernel that exists with vectors of 64 bytes, too.
template <auto kernel, auto wide_kernel>
decltype(kernel) for_this_cpu() {
    return best_simd() == Simd::avx512 ? &Builds<wide_kernel>::avx512 : for_this_cpu<kernel>();
}

// A 32-byte vector, and one that may begin anywhere. Values are read and written through the second: a copy through
// memcpy would go through the stack.
typedef float Eight __attribute__((vector_size(32)));
typedef float UnalignedEight __attribute__((vector_size(32), aligned(4), may_alias));

#if defined(__x86_64__)
// Eight int8 at any address, and as floats.
LABELTREE_AVX2 LABELTREE_INLINE __m128i load_bytes(const void* bytes) {
    return _mm_loadl_epi64(static_cast<const __m128i*>(bytes));
}
LABELTREE_AVX2 LABELTREE_INLINE __m256 bytes_to_floats(__m128i bytes) {
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes));
}
#endif

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

// N numbers of one type in vectors of `bytes`: 32 floats are four AVX2 registers or two of AVX-512.
template <class Real, int N, int bytes = 32>
struct Lanes {
    static constexpr int per_vector = bytes / static_cast<int>(sizeof(Real));
    static constexpr int n_vectors = N / per_vector;
    static_assert(N % per_vector == 0);
    typedef Real Vector __attribute__((vector_size(bytes)));
    typedef Real Unaligned __attribute__((vector_size(bytes), aligned(sizeof(Real)), may_alias));
    using Integer = std::conditional_t<sizeof(Real) == 4, int32_t, int64_t>;
    using Number = Real;
    static constexpr int size = N;
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
    // `set` where the lane's bit is 1, and `clear` elsewhere.
    static LABELTREE_INLINE Lanes choose(uint32_t bits, Real clear, Real set) {
        typedef Integer Integers __attribute__((vector_size(bytes), may_alias));
        alignas(64) static constexpr auto bit = [] {
            std::array<Integer, 32> out{};
            for (int k = 0; k < 32; ++k) out[k] = static_cast<Integer>(uint32_t{1} << k);
            return out;
        }();
        Lanes out;
#pragma GCC unroll 16
        for (int k = 0; k < n_vectors; ++k)
            out.v[k] = (reinterpret_cast<const Integers*>(bit.data())[k] & static_cast<Integer>(bits)) != 0
                           ? set - Vector{}
                           : clear - Vector{};
        return out;
    }
    LABELTREE_INLINE Lanes larger(const Lanes& other) const {
        Lanes out;
#pragma GCC unroll 16
        for (int k = 0; k < n_vectors; ++k) out.v[k] = v[k] > other.v[k] ? v[k] : other.v[k];
        return out;
    }
    // Whether any lane is negative, by its sign.
    LABELTREE_INLINE bool any_negative() const {
        using Word = std::conditional_t<(N > 0), uint64_t, Real>;  // GCC ignores the size unless the type depends on it
        typedef Word Words __attribute__((vector_size(bytes)));
        typedef Integer Integers __attribute__((vector_size(bytes)));
        Words all{};
#pragma GCC unroll 16
        for (int k = 0; k < n_vectors; ++k) all |= reinterpret_cast<Words>(v[k]);
        uint64_t bits = 0;
        if constexpr (bytes > 32) {  // a byte per lane: each word of a long vector takes several instructions to read
            typedef int8_t Bytes __attribute__((vector_size(per_vector)));
            constexpr int last_bit = 8 * static_cast<int>(sizeof(Real)) - 1;
            const Bytes narrow = __builtin_convertvector(reinterpret_cast<Integers>(all) >> last_bit, Bytes);
            for (const uint64_t word : std::bit_cast<std::array<uint64_t, per_vector / 8>>(narrow)) bits |= word;
            return bits != 0;
        }
#pragma GCC unroll 16
        for (int k = 0; k < bytes / 8; ++k) bits |= all[k];
        return bits & (sizeof(Real) == 4 ? 0x8000000080000000u : 0x8000000000000000u);
    }
};

}  // namespace labeltree
