// A small random generator that gives the same numbers on every machine (SplitMix64).
#pragma once

#include <cstdint>
#include <span>
#include <utility>

namespace labeltree {

class Random {
  public:
    // A separate stream for every pair (seed, stream). Streams belong to nodes, never to threads.
    Random(uint64_t seed, uint64_t stream) : state_(mix(seed) ^ mix(stream + 0x632BE59BD9B4E019u)) {}

    uint64_t next() { return mix(state_ += 0x9E3779B97F4A7C15u); }

    // Uniform in [0, bound), for bound < 2^32: the bias of multiply-and-shift is below bound / 2^32.
    uint32_t below(uint32_t bound) { return static_cast<uint32_t>(((next() >> 32) * bound) >> 32); }

    // Uniform in [0, 1).
    double fraction() { return static_cast<double>(next() >> 11) * 0x1p-53; }

    template <class T>
    void shuffle(std::span<T> values) {
        for (int64_t i = std::ssize(values) - 1; i > 0; --i)
            std::swap(values[i], values[below(static_cast<uint32_t>(i + 1))]);
    }

  private:
    static uint64_t mix(uint64_t z) {
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
        return z ^ (z >> 31);
    }
    uint64_t state_;
};

}  // namespace labeltree
