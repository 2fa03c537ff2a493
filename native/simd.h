// Sixteen siblings in registers, and the choice of the instruction set at run time.
//
// A kernel writes its loop once, as an always-inlined function over Lanes, and wraps it twice: once plain, once with
// LABELTREE_AVX2 before it. use_avx2() says which of the two to call. LABELTREE_SIMD=portable forces the plain one.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>

#define LABELTREE_INLINE inline __attribute__((always_inline))
#if defined(__x86_64__)
#define LABELTREE_AVX2 __attribute__((target("avx2,fma")))
#else
#define LABELTREE_AVX2
#endif

namespace labeltree {

inline bool use_avx2() {
#if defined(__x86_64__)
    static const bool chosen = [] {
        const char* wish = std::getenv("LABELTREE_SIMD");
        if (wish && std::strcmp(wish, "portable") == 0) return false;
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    }();
    return chosen;
#else
    return false;
#endif
}

// N numbers of one type in 32-byte vectors: two AVX2 registers for 16 floats, four for 16 doubles.
template <class Real, int N>
struct Lanes {
    static constexpr int per_vector = 32 / static_cast<int>(sizeof(Real));
    static constexpr int vectors = N / per_vector;
    static_assert(N % per_vector == 0);
    typedef Real Vector __attribute__((vector_size(32)));
    Vector v[vectors];

    static LABELTREE_INLINE Lanes fill(Real value) {
        Lanes out;
        for (int k = 0; k < vectors; ++k) out.v[k] = value - Vector{};
        return out;
    }
    static LABELTREE_INLINE Lanes load(const Real* from) {
        Lanes out;
        std::memcpy(out.v, from, sizeof(out.v));
        return out;
    }
    LABELTREE_INLINE void store(Real* to) const { std::memcpy(to, v, sizeof(v)); }
    // this += scale * other
    LABELTREE_INLINE void add(Real scale, const Lanes& other) {
        for (int k = 0; k < vectors; ++k) v[k] += scale * other.v[k];
    }
};

}  // namespace labeltree
