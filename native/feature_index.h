// Where features are in a node's sorted list, found with one or two cache misses each.
#pragma once

#include <atomic>
#include <bit>
#include <cstdint>
#include <span>

namespace labeltree {

// Built when a node is first searched, so opening a model does not read the lists. A list comes from a file: whatever
// it holds, no row is outside it.
class FeatureIndex {
  public:
    // A node that uses many features has a bit for every feature, and for every 32 of them the number of used features
    // before these: the row of a feature without reading the list.
    struct Cell {
        uint32_t n_before, used;

        bool has(int32_t feature) const { return used >> (feature & 31) & 1; }
        int32_t row(int32_t feature) const {
            return static_cast<int32_t>(n_before + std::popcount(used & ((1u << (feature & 31)) - 1)));
        }
    };
    // If so, the cells take at most twice the memory of the list.
    static bool has_cells(int64_t n_used, int64_t n_features) { return n_used * 32 >= n_features; }

    const Cell* cells(std::span<const int32_t> features, int64_t n_features) {
        return once(cells_, n_features / 32 + 1, [=](Cell* cells, int64_t n_cells) {
            size_t at = 0;
            for (int64_t c = 0; c < n_cells; ++c) {
                cells[c] = {static_cast<uint32_t>(at), 0};
                for (; at < features.size() && features[at] >> 5 == c; ++at) cells[c].used |= 1u << (features[at] & 31);
                // A list that is not sorted or repeats a feature is damaged. Rows must still stay within it.
                at = cells[c].n_before + static_cast<size_t>(std::popcount(cells[c].used));
            }
        });
    }

    // Any other node has the start of every range of `1 << shift` features in the list: about eight features each.
    static int shift(int64_t n_used, int64_t n_features) {
        int bits = 3;
        while (n_features >> bits > n_used / 8 + 1) ++bits;
        return bits;
    }
    const int32_t* starts(std::span<const int32_t> features, int64_t n_features, int shift) {
        return once(starts_, (n_features >> shift) + 1, [=](int32_t* starts, int64_t n_ranges) {
            size_t at = 0;
            for (int64_t r = 0; r < n_ranges; ++r) {
                while (at < features.size() && features[at] < r << shift) ++at;
                starts[r] = static_cast<int32_t>(at);
            }
        });
    }

    ~FeatureIndex() {
        delete[] cells_.load();
        delete[] starts_.load();
    }

  private:
    // Several threads may build the same table; the first to finish is kept.
    template <class T, class Fill>
    static const T* once(std::atomic<const T*>& built, int64_t size, Fill&& fill) {
        if (const T* ready = built.load(std::memory_order_acquire)) return ready;
        auto* mine = new T[size];
        fill(mine, size);
        const T* other = nullptr;
        if (built.compare_exchange_strong(other, mine, std::memory_order_acq_rel)) return mine;
        delete[] mine;
        return other;
    }

    std::atomic<const Cell*> cells_{nullptr};
    std::atomic<const int32_t*> starts_{nullptr};
};

}  // namespace labeltree
