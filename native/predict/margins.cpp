// Margins of a tile of siblings, one function for each width; compiled once for all kernels that compute margins.
#include "predict/margins.h"

namespace labeltree {
namespace {

template <class T, size_t... K>
LABELTREE_INLINE float write_margins(std::index_sequence<K...>, Eight* sum, int64_t n_columns, float* margins) {
    constexpr size_t last = sizeof...(K) - 1;
    const Eight least = minus_infinity - Eight{};
    Eight most = least;
    ((sum[K] = in_order<T>(sum[K]), sum[K] = sum[K] >= least ? sum[K] : least, most = sum[K] > most ? sum[K] : most,
      *reinterpret_cast<UnalignedEight*>(margins + (K < last ? 8 * static_cast<int64_t>(K) : n_columns - 8)) = sum[K]),
     ...);
    float largest = most[0];
    for (int k = 1; k < 8; ++k) largest = std::max<float>(largest, most[k]);
    return largest;
}

// At least eight columns, in V vectors.
template <class T, int V>
LABELTREE_INLINE float wide_tile(const T* block, int64_t stride, std::span<const Match> matches, int n_columns,
                                 float* margins) {
    constexpr auto vectors = std::make_index_sequence<V>{};
    Eight sum[V] = {};
    add_rows(vectors, block, stride, matches, n_columns, sum);
    return write_margins<T>(vectors, sum, n_columns, margins);
}

#if defined(__x86_64__)
// The same for bytes, with instructions that the compiler does not find.
template <int V>
LABELTREE_AVX2 float byte_tile(const int8_t* block, int64_t stride, std::span<const Match> matches, int n_columns,
                               float* margins) {
    Eight sum[V] = {};
    const Match* match = matches.data();
    for (const Match* const end = match + matches.size(); match != end; ++match) {
        const int8_t* const ahead = block + match[prefetch_ahead].row * stride;
        __builtin_prefetch(ahead);
        if constexpr (V > 8) __builtin_prefetch(ahead + 64);
        const int8_t* const row = block + match->row * stride;
        const __m256 x = _mm256_set1_ps(match->x);
#pragma GCC unroll 16
        for (int k = 0; k < V; ++k)
            sum[k] = _mm256_fmadd_ps(x, bytes_to_floats(load_bytes(row + (k < V - 1 ? 8 * k : n_columns - 8))), sum[k]);
    }
    return write_margins<float>(std::make_index_sequence<V>{}, sum, n_columns, margins);
}
#endif

// Fewer than eight columns: C.
template <class T, int C>
LABELTREE_INLINE float narrow_tile(const T* block, int64_t stride, std::span<const Match> matches, int,
                                   float* margins) {
    float sum[C] = {};
    for (const Match& match : matches) {
        const T* row = block + match.row * stride;
        for (int c = 0; c < C; ++c) sum[c] += match.x * to_float(row[c]);
    }
    float largest = minus_infinity;
    for (int c = 0; c < C; ++c) {
        margins[c] = sum[c] >= minus_infinity ? sum[c] : minus_infinity;
        largest = std::max(largest, margins[c]);
    }
    return largest;
}

template <class T, int V>
MarginTile<T> wide_tile_for_this_cpu() {
#if defined(__x86_64__)
    if constexpr (std::is_same_v<T, int8_t> && V > max_portable_vectors)
        return byte_tile<V>;
    else if constexpr (std::is_same_v<T, int8_t>)
        return use_avx2() ? byte_tile<V> : Builds<wide_tile<T, V>>::portable;
    else
#endif
        return tile_for_this_cpu<wide_tile<T, V>, V>();
}

}  // namespace

template <class T>
const MarginTiles<T>& margin_tiles() {
    static const MarginTiles<T> tiles = []<size_t... V, size_t... C>(std::index_sequence<V...>,
                                                                     std::index_sequence<C...>) {
        return MarginTiles<T>{n_tile_vectors(),
                              {nullptr, wide_tile_for_this_cpu<T, V + 1>()...},
                              {nullptr, for_this_cpu<narrow_tile<T, C + 1>>()...}};
    }(std::make_index_sequence<max_tile_vectors>{}, std::make_index_sequence<7>{});
    return tiles;
}

template const MarginTiles<float>& margin_tiles();
template const MarginTiles<Half>& margin_tiles();
template const MarginTiles<int8_t>& margin_tiles();

}  // namespace labeltree
