// Turns counts of terms into TF-IDF features, in place.
//
// Compiled without fused multiply-adds, so that the result is the same to the last bit as that of scikit-learn.
#include <bit>
#include <cmath>

#include "common/binding.h"

namespace labeltree {
namespace {

constexpr int64_t rows_at_once = 256;
constexpr int64_t small = 1 << 20;  // entries that are weighted so quickly that Ctrl-C can wait

// The weight of a count: counts are sorted, and mostly 1, 2, 3, ...
double frequency_weight(std::span<const int32_t> counts, std::span<const double> weights, int32_t count) {
    if (count >= 1 && count <= std::ssize(counts) && counts[count - 1] == count) return weights[count - 1];
    const auto place = std::lower_bound(counts.begin(), counts.end(), count);
    require(place != counts.end() && *place == count, "levels must hold every count");
    return weights[place - counts.begin()];
}

struct Weighting {
    std::span<const int32_t> target;  // the column of each term, or -1; empty if terms are columns
    std::span<const double> idf;
    std::span<const int32_t> levels;  // the counts that occur, sorted
    std::span<const double> frequency;

    struct Scratch {
        std::vector<int32_t> columns;
        std::vector<double> weights;
        std::vector<uint64_t> entries;  // column and bits of the value, in one number to sort by
    };

    // Weights a row and sorts it by column; returns how many entries are left.
    int64_t apply(std::span<int32_t> terms, std::span<int32_t> counts, Scratch& scratch) const {
        auto& [columns, weights, entries] = scratch;
        columns.clear(), weights.clear(), entries.clear();
        double squares = 0;
        // One after the other in the order of the terms, and sorted only then, as scikit-learn does.
        for (size_t i = 0; i < terms.size(); ++i) {
            const int32_t column = target.empty() ? terms[i] : target[terms[i]];
            if (column < 0) continue;
            const double weight = frequency_weight(levels, frequency, counts[i]) * idf[column];
            squares += weight * weight;
            columns.push_back(column);
            weights.push_back(weight);
        }
        const double length = squares == 0 ? 1.0 : std::sqrt(squares);
        for (size_t i = 0; i < columns.size(); ++i) {
            const auto value = static_cast<float>(weights[i] / length);
            entries.push_back(static_cast<uint64_t>(columns[i]) << 32 | std::bit_cast<uint32_t>(value));
        }
        std::sort(entries.begin(), entries.end());
        for (size_t i = 0; i < entries.size(); ++i) {
            terms[i] = static_cast<int32_t>(entries[i] >> 32);
            counts[i] = static_cast<int32_t>(entries[i]);
        }
        return std::ssize(entries);
    }
};

void weight_rows(std::span<int64_t> ptr, std::span<int32_t> terms, std::span<int32_t> counts,
                 const Weighting& weighting, int threads, const Cancel& cancel) {
    const int64_t n_rows = std::ssize(ptr) - 1;
    std::vector<int64_t> n_kept(n_rows);
    parallel_ranges(n_rows, rows_at_once, threads, [&](int64_t first, int64_t last) {
        Weighting::Scratch scratch;
        for (int64_t row = first; row < last && !cancel; ++row)
            n_kept[row] =
                weighting.apply(slice(terms, ptr[row], ptr[row + 1]), slice(counts, ptr[row], ptr[row + 1]), scratch);
    });
    int64_t size = 0;
    for (int64_t row = 0, from = 0; row < n_rows && !cancel; ++row) {
        const int64_t next = ptr[row + 1];
        if (size != from) {
            std::copy_n(terms.begin() + from, n_kept[row], terms.begin() + size);
            std::copy_n(counts.begin() + from, n_kept[row], counts.begin() + size);
        }
        ptr[row + 1] = size += n_kept[row];
        from = next;
    }
}

void weight_terms(Out<int64_t> ptr, Out<int32_t> terms, Out<int32_t> counts, std::optional<In<int32_t>> target,
                  In<double> idf, In<int32_t> levels, In<double> frequency, int threads) {
    const std::span<const int32_t> targets = target ? span_of(*target) : std::span<const int32_t>();
    const Weighting weighting{targets, span_of(idf), span_of(levels), span_of(frequency)};
    const nb::gil_scoped_release no_gil;
    require(threads >= 1, "threads must be at least 1");
    require(terms.size() == counts.size(), "counts must have as many entries as terms");
    require(levels.size() == frequency.size(), "frequency must have as many entries as levels");
    check_ptr(span_of(ptr), terms.size(), "ptr");
    check_range(span_of(terms), targets.empty() ? std::ssize(weighting.idf) : std::ssize(targets), "terms");
    for (const int32_t column : targets)
        require(column >= -1 && column < std::ssize(weighting.idf), "target holds a column out of range");
    const auto run = [&](const Cancel& cancel) {
        weight_rows(span_of(ptr), span_of(terms), span_of(counts), weighting, threads, cancel);
    };
    if (std::ssize(span_of(terms)) < small)
        run(Cancel{false});
    else
        run_interruptible(run);
}

}  // namespace

void bind_term_weights(nb::module_& m) {
    m.def(
        "weight_terms", weight_terms, "ptr"_a.noconvert(), "terms"_a.noconvert(), "counts"_a.noconvert(),
        "target"_a.noconvert().none(), "idf"_a.noconvert(), "levels"_a.noconvert(), "frequency"_a.noconvert(),
        "threads"_a,
        "Turn rows of counts into rows of features of length 1, in place: ptr says what is left, terms become columns, "
        "and counts become the bits of float32 values.");
}

}  // namespace labeltree
