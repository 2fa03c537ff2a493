// Rough label vectors: short approximations of label vectors, for the approximate size of a model.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <numeric>
#include <vector>

#include "memory.h"
#include "parallel.h"
#include "random.h"
#include "tiles.h"
#include "views.h"

namespace labeltree {

// Features are hashed to slots, with random signs: then products of vectors are right on average, and centroids fit
// into the cache.
constexpr int slot_bits = 15;
constexpr int64_t n_slots = int64_t{1} << slot_bits;

struct RoughSettings {
    int64_t n_instances;    // that describe a label, at most
    int64_t n_row_entries;  // of an instance, see MainEntries
    int64_t n_entries;      // of a vector, not fewer
    float scale;            // of the values, so that their squares can be added up
    uint64_t seed;
};

template <class Value>
inline float sum_of_squares(int64_t n, Value&& value) {
    std::array<float, 4> squares{};  // that do not wait for each other
    int64_t k = 0;
    for (; k + 4 <= n; k += 4)
        for (int64_t l = 0; l < 4; ++l) squares[l] += value(k + l) * value(k + l);
    for (; k < n; ++k) squares[0] += value(k) * value(k);
    return squares[0] + squares[1] + squares[2] + squares[3];
}

// Finds the entries of a vector that matter: those whose square is at least a quarter of what it would be if `most`
// were equal. If these are more than twice as many, or have too little of the sum of squares, the `most` largest ones.
class MainEntries {
  public:
    // Returns their places, in order; `square` is the sum of all squares.
    template <class Value>
    std::span<const int32_t> find(int64_t size, int64_t most, float square, Value&& value) {
        if (std::ssize(places_) <= size) places_.resize(2 * size + 1);
        int32_t* const places = places_.data();
        const float least = square / static_cast<float>(4 * most);
        int64_t n_found = 0;
        for (int64_t k = 0; k < size; ++k) {  // branches would be mispredicted
            const float own = value(k);
            places[n_found] = static_cast<int32_t>(k);
            n_found += own * own >= least;
        }
        const auto found = [&](int64_t k) { return value(places[k]); };
        if (n_found <= 2 * most && (n_found == size || 2 * sum_of_squares(n_found, found) >= square))
            return {places, static_cast<size_t>(n_found)};
        if (size > 2 * most) return find_largest(size, 2 * most, value);
        std::iota(places, places + size, 0);  // rounding, or infinity, hides which ones matter
        return {places, static_cast<size_t>(size)};
    }

  private:
    // By exponent and three bits of the significand; of equal ones, the first.
    template <class Value>
    std::span<const int32_t> find_largest(int64_t size, int64_t most, Value&& value) {
        const auto bin_of = [&](int64_t k) { return std::bit_cast<uint32_t>(std::abs(value(k))) >> 20; };
        uint32_t bin = 0;
        for (int64_t k = 0; k < size; ++k) {
            ++n_in_[bin_of(k)];
            bin = std::max(bin, bin_of(k));
        }
        const uint32_t end = bin + 1;
        int64_t n_left = most;  // of the last bin that is used
        while (n_in_[bin] < n_left) n_left -= n_in_[bin--];
        std::fill_n(n_in_.begin(), end, 0);
        int32_t* const places = places_.data();
        int64_t n_found = 0;
        for (int64_t k = 0; k < size; ++k) {
            const uint32_t own = bin_of(k);
            places[n_found] = static_cast<int32_t>(k);
            n_found += (own > bin) | ((own == bin) & (n_left > 0));
            n_left -= own == bin;
        }
        return {places, static_cast<size_t>(n_found)};
    }

    std::vector<int32_t> n_in_ = std::vector<int32_t>(1 << 11), places_;
};

// A label is described by a few of its instances, evenly spaced from a random start. Only the main entries of instances
// are used, and only those of their sum are kept. Vectors are made when they are needed: to keep those of all labels
// would take more memory, and as much time.
class RoughVectors {
  public:
    struct Workspace {
        std::vector<float> sum = std::vector<float>(n_slots);  // zero before and after a label
        std::vector<int32_t> instances;
        std::vector<size_t> ends;  // of the instances of each label
        std::vector<Match> entries, vector;
        MainEntries main;
    };

    RoughVectors(const TrainingData& data, const RoughSettings& settings, int threads, const Cancel& cancel)
        : data_(data), settings_(settings), end_(data.n_instances()), parts_((data.n_instances() + part - 1) / part) {
        copy_rows(threads, cancel);
    }

    int64_t n_labels() const { return data_.n_labels(); }
    int64_t n_instances() const { return data_.n_instances(); }
    std::span<const int32_t> instances_of(int32_t label) const { return data_.label_instances.columns(label); }
    int64_t max_entries() const { return 2 * settings_.n_entries; }

    // Makes the vectors of labels[places[k]], or of labels[k] without places, for k in [first, last), and calls
    // visit(k, vector) for each, in order. A vector has at most max_entries(), and prefetch_ahead others after it.
    template <class Visit>
    void each(std::span<const int32_t> labels, std::span<const int32_t> places, int64_t first, int64_t last,
              Workspace& space, Visit&& visit) const {
        auto& instances = space.instances;
        auto& ends = space.ends;
        instances.clear();
        ends.clear();
        for (int64_t k = first; k < last; ++k) {
            each_instance(labels[places.empty() ? k : places[k]], [&](int32_t i) {
                instances.push_back(i);
                __builtin_prefetch(end_.data() + i);
            });
            ends.push_back(instances.size());
        }
        size_t begin = 0, ahead = 0;
        for (int64_t k = first; k < last; ++k) {
            const size_t end = ends[k - first];
            for (; ahead < std::min(instances.size(), end + rows_ahead); ++ahead) {
                const auto row = row_of(instances[ahead]);
                for (size_t e = 0; e < row.size(); e += 16) __builtin_prefetch(row.data() + e);
            }
            visit(k, make(std::span(instances).subspan(begin, end - begin), space));
            begin = end;
        }
    }

  private:
    static constexpr uint32_t part = 1024;   // instances whose copies are next to each other
    static constexpr size_t rows_ahead = 8;  // that are prefetched

    std::span<Match> make(std::span<const int32_t> instances, Workspace& space) const {
        auto& vector = space.vector;
        vector.resize(max_entries() + prefetch_ahead);
        const int64_t n =
            instances.size() == 1 ? copy(row_of(instances[0]), vector.data()) : add(instances, space, vector.data());
        const float square = sum_of_squares(n, [&](int64_t k) { return vector[k].x; });
        const float rate = square > 0 ? 1 / std::sqrt(square) : 0.0f;
        for (int64_t k = 0; k < n; ++k) vector[k].x *= rate;
        std::fill_n(vector.begin() + n, prefetch_ahead, Match{0, 0});
        return {vector.data(), static_cast<size_t>(n)};
    }

    // Features of an instance that have the same slot stay separate.
    static int64_t copy(std::span<const uint32_t> row, Match* vector) {
        for (const uint32_t entry : row)
            *vector++ = {static_cast<int32_t>(entry >> 16), std::bit_cast<float>(entry << 16)};
        return std::ssize(row);
    }

    // Writes the main entries of the sum of instances.
    int64_t add(std::span<const int32_t> instances, Workspace& space, Match* vector) const {
        int64_t most = 0;
        for (const int32_t i : instances) most += std::ssize(row_of(i));
        if (std::ssize(space.entries) <= most) space.entries.resize(2 * most + 1);
        Match* const found = space.entries.data();
        float* const sums = space.sum.data();
        int64_t n_found = 0;
        for (const int32_t i : instances)
            for (const uint32_t entry : row_of(i)) {
                const auto slot = static_cast<int32_t>(entry >> 16);
                const float before = sums[slot];
                found[n_found].row = slot;
                n_found += std::bit_cast<uint32_t>(before) << 1 == 0;
                sums[slot] = before + std::bit_cast<float>(entry << 16);
            }
        // A slot whose sum was zero in between is listed again, with zero.
        for (int64_t k = 0; k < n_found; ++k) found[k].x = std::exchange(sums[found[k].row], 0.0f);
        const auto value = [&](int64_t k) { return found[k].x; };
        const auto places = space.main.find(n_found, settings_.n_entries, sum_of_squares(n_found, value), value);
        for (const int32_t k : places) *vector++ = found[k];
        return std::ssize(places);
    }

    // Calls visit(i) for the chosen instances of a label.
    template <class Visit>
    void each_instance(int32_t label, Visit&& visit) const {
        const auto instances = data_.label_instances.columns(label);
        const int64_t n = std::ssize(instances), n_most = settings_.n_instances;
        if (n <= n_most) {
            for (const int32_t i : instances) visit(i);
            return;
        }
        const double start = Random(settings_.seed, label).fraction();
        const double step = static_cast<double>(n) / static_cast<double>(n_most);
        for (int64_t k = 0; k < n_most; ++k)
            visit(instances[std::min(n - 1, static_cast<int64_t>((static_cast<double>(k) + start) * step))]);
    }

    // Copies the main entries of the chosen instances: what is read at random is then small.
    void copy_rows(int threads, const Cancel& cancel) {
        std::vector<uint8_t> is_chosen(data_.n_instances());
        parallel_ranges(data_.n_labels(), part, threads, [&](int64_t first, int64_t last) {
            for (int64_t j = first; j < last && !cancel; ++j)
                each_instance(static_cast<int32_t>(j),
                              [&](int32_t i) { __atomic_store_n(&is_chosen[i], 1, __ATOMIC_RELAXED); });
        });
        struct Space {
            MainEntries main;
            std::vector<uint32_t> rows;
        };
        std::vector<Space> spaces(threads);
        parallel_for(std::ssize(parts_), threads, [&](int64_t p, int worker) {
            auto& [main, rows] = spaces[worker];
            rows.clear();
            for (int64_t i = p * part; i < std::min(data_.n_instances(), (p + 1) * part) && !cancel; ++i) {
                if (is_chosen[i]) copy_row(i, main, rows);
                end_[i] = static_cast<uint32_t>(rows.size());
            }
            parts_[p].assign(rows.begin(), rows.end());
        });
    }

    void copy_row(int64_t i, MainEntries& main, std::vector<uint32_t>& rows) const {
        const int32_t* const columns = data_.x.columns(i).data();
        const float* const values = data_.x.values(i).data();
        const int64_t n = data_.x.n_entries(i);
        const size_t begin = rows.size();
        if (n <= settings_.n_row_entries / 2) {
            rows.resize(begin + n);
            for (int64_t k = 0; k < n; ++k) rows[begin + k] = packed(columns[k], settings_.scale * values[k]);
            return;
        }
        const auto value = [&](int64_t k) { return settings_.scale * values[k]; };
        const auto places = main.find(n, settings_.n_row_entries, sum_of_squares(n, value), value);
        rows.resize(begin + places.size());
        for (size_t k = 0; k < places.size(); ++k) rows[begin + k] = packed(columns[places[k]], value(places[k]));
    }

    // The slot of a feature, and its value as bfloat16, with a sign that depends on the feature.
    static uint32_t packed(int32_t feature, float value) {
        const uint32_t hash = static_cast<uint32_t>(feature) * 0x9E3779B1u;
        return hash >> (32 - slot_bits) << 16 | (to_bfloat16(value) ^ (hash >> (31 - slot_bits) & 1) << 15);
    }

    std::span<const uint32_t> row_of(int32_t i) const {
        const auto at = static_cast<uint32_t>(i);
        const uint32_t begin = at % part == 0 ? 0 : end_[at - 1];
        return {parts_[at / part].data() + begin, end_[at] - begin};
    }

    const TrainingData data_;
    const RoughSettings settings_;
    std::vector<uint32_t> end_;  // of the copy of each instance, in its part; those that are not chosen have no entries
    std::vector<std::vector<uint32_t>> parts_;  // slots, and values as bfloat16
};

}  // namespace labeltree
