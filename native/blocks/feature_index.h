// Where features are in a node's sorted list, found with one or two cache misses each.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>
#include <span>

#include "common/simd.h"

namespace labeltree {

// The sorted features of a node. Like every list it comes from a file, so ids in it may be wrong.
struct FeatureList {
    std::span<const int32_t> ids;

    static constexpr int64_t cell_share = 32;  // with more used features than one in this many, cells are used
    static constexpr int max_shift = 30;
    int64_t size() const { return std::ssize(ids); }

    // Calls use(feature, row) for every entry.
    template <class Use>
    void for_each(Use&& use) const {
        for (size_t row = 0; row < ids.size(); ++row) use(static_cast<uint32_t>(ids[row]), static_cast<int32_t>(row));
    }
};

// The same in half the space: the lower 16 bits of each feature, in one segment for each value of the upper bits.
struct ShortFeatureList {
    std::span<const uint16_t> ids;
    std::span<const int64_t> segment_ptr;  // the first is the start of the list, wherever that is

    static constexpr int64_t cell_share = 32;
    static constexpr int max_shift = 16;  // ranges of features do not cross segments
    int64_t size() const { return std::ssize(ids); }

    template <class Use>
    void for_each(Use&& use) const {
        for (size_t s = 0; s + 1 < segment_ptr.size(); ++s)
            for (int64_t k = segment_ptr[s]; k < segment_ptr[s + 1]; ++k) {
                const auto row = static_cast<int32_t>(k - segment_ptr[0]);
                use(static_cast<uint32_t>(s << 16 | ids[row]), row);
            }
    }
};

// Built when a node is first searched, so opening a model does not read the lists. A list comes from a file: whatever
// it holds, no row is outside it.
class FeatureIndex {
  public:
    // A node that uses many features has a bit for every feature, and for every 32 of them the number of used features
    // before these: the row of a feature without reading the list.
    struct Cell {
        uint32_t n_before, used;

        LABELTREE_INLINE bool has(int32_t feature) const { return used >> (feature & 31) & 1; }
        LABELTREE_INLINE int32_t row(int32_t feature) const {
            return static_cast<int32_t>(n_before + std::popcount(used & ((1u << (feature & 31)) - 1)));
        }
    };
    // If so, the cells take at most eight bytes per feature of the list.
    template <class List>
    static bool has_cells(const List& features, int64_t n_features) {
        return features.size() * List::cell_share >= n_features;
    }

    // A list that is not sorted or repeats a feature is damaged. Rows must still stay within it.
    template <class List>
    const Cell* cells(const List& features, int64_t n_features) {
        return once(cells_, n_features / 32 + 1, [=](Cell* cells, int64_t n_cells) {
            std::fill_n(cells, n_cells, Cell{0, 0});
            features.for_each([=](uint32_t feature, int32_t) {
                if (feature <= n_features) cells[feature >> 5].used |= 1u << (feature & 31);
            });
            for (int64_t c = 1; c < n_cells; ++c)
                cells[c].n_before = cells[c - 1].n_before + static_cast<uint32_t>(std::popcount(cells[c - 1].used));
        });
    }

    // Any other node has the start of every range of `1 << shift` features in the list: about eight features each.
    template <class List>
    static int shift(const List& features, int64_t n_features) {
        int bits = 3;
        while (n_features >> bits > features.size() / 8 + 1 && bits < List::max_shift) ++bits;
        return bits;
    }
    // One more than there are ranges: the last is the end.
    template <class List>
    const int32_t* starts(const List& features, int64_t n_features, int shift) {
        return once(starts_, (n_features >> shift) + 2, [=](int32_t* starts, int64_t n_starts) {
            std::fill_n(starts, n_starts, 0);
            features.for_each([=](uint32_t feature, int32_t) {
                if (feature <= n_features) ++starts[(feature >> shift) + 1];
            });
            for (int64_t r = 1; r < n_starts; ++r) starts[r] += starts[r - 1];
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
