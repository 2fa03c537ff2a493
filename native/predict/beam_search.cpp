// Beam search through label trees: batches of queries are split into chunks for the workers.
#include <array>
#include <atomic>
#include <memory>

#include <nanobind/stl/vector.h>

#include "common/choices.h"
#include "predict/search.h"
#include "predict/unit_length.h"

namespace labeltree {
namespace {

// One-dimensional and of any type, and rows of results.
using AnyVector = nb::ndarray<nb::ro, nb::ndim<1>, nb::device::cpu>;
template <class T>
using NumpyRows = nb::ndarray<nb::numpy, T, nb::ndim<2>>;

bool is_contiguous(const AnyVector& array) { return array.size() < 2 || array.stride(0) == 1; }

// True if no column is negative or smaller than the one before it, and every value is finite.
bool is_sorted_and_finite(const SparseRows& row) {
    int32_t before = 0;
    bool wrong = false;
    for (const int32_t column : row.index) wrong |= column < std::exchange(before, column);
    for (const float value : row.value) wrong |= !std::isfinite(value);
    return !wrong;
}

// True if a sorted row has only features of the model, and none twice: the length of its values is that of the row.
bool has_length(const SparseRows& row, int64_t n_features) {
    bool twice = false;
    for (size_t i = 1; i < row.index.size(); ++i) twice |= row.index[i] == row.index[i - 1];
    return !twice && (row.index.empty() || row.index.back() < n_features);
}

// The most children that one query can meet.
double reach(const Forest& forest, int64_t beam) {
    double sum = 0;
    for (const SearchTree& tree : forest.trees)
        sum += std::min(static_cast<double>(tree.shape.children.size()),
                        static_cast<double>(beam) * static_cast<double>(tree.max_children * tree.n_levels));
    return sum;
}

int64_t rows_at_once(const Forest& forest, const SearchSettings& settings, int64_t n_rows, int threads) {
    constexpr double most_bytes = 64 << 20;
    int64_t widest = 0;
    for (const SearchTree& tree : forest.trees) widest = std::max(widest, tree.max_width);
    const double bytes = 48 * static_cast<double>(std::min(widest, settings.beam)) +
                         12 * static_cast<double>(std::min(settings.top, forest.n_labels)) +
                         (forest.trees.size() > 1 ? 8 * reach(forest, settings.beam) : 0);
    const auto fitting = static_cast<int64_t>(most_bytes / (bytes + 1));
    return std::max<int64_t>(1, std::min({n_rows / (int64_t{4} * threads), fitting, int64_t{2048}}));
}

// Searches that were used for single queries: allocating their buffers would take as long as an easy query. Without a
// lock, which could stay locked forever in a process that is forked.
class SearchPool {
  public:
    SearchPool() = default;
    SearchPool(const SearchPool&) = delete;
    SearchPool& operator=(const SearchPool&) = delete;
    ~SearchPool() {
        for (auto& slot : slots_) delete slot.load();
    }

    std::unique_ptr<Search> take(const Forest& forest) {
        for (auto& slot : slots_)
            if (Search* const kept = slot.exchange(nullptr, std::memory_order_acquire))
                return std::unique_ptr<Search>(kept);
        return std::make_unique<Search>(forest);
    }
    void give_back(std::unique_ptr<Search> search) {
        for (auto& slot : slots_) {
            Search* empty = nullptr;
            if (slot.compare_exchange_strong(empty, search.get(), std::memory_order_release)) {
                (void)search.release();  // NOLINT(bugprone-unused-return-value): the slot owns it
                return;
            }
        }
    }

  private:
    std::array<std::atomic<Search*>, 8> slots_{};
};

class BeamSearch {
  public:
    BeamSearch(const BeamSearch&) = delete;
    BeamSearch(const std::vector<const TreeBlocks*>& trees, int64_t n_features, int64_t n_labels, float bias) {
        require(n_features >= 0 && n_features <= max_count, "n_features is out of range");
        require(n_labels >= 1 && n_labels <= max_count, "n_labels is out of range");
        require(std::isfinite(bias), "bias must be finite");
        require(!trees.empty(), "trees must hold at least one tree");
        forest_.n_features = n_features, forest_.n_labels = n_labels, forest_.bias = bias;
        for (const TreeBlocks* tree : trees) forest_.trees.emplace_back(*tree, n_features, n_labels);
    }

    std::tuple<Numpy<int32_t>, Numpy<float>> search(In<int64_t> indptr, In<int32_t> indices, In<float> data,
                                                    int64_t beam, int64_t top, std::string_view score, float scale,
                                                    float path_weight, int threads) {
        // Features that the model does not know are ignored, so any column is valid.
        const SparseRows queries{span_of(indptr), span_of(indices), span_of(data), std::numeric_limits<int64_t>::max()};
        const SearchSettings settings = checked_settings(beam, top, score, scale, path_weight);
        require(threads >= 1, "threads must be at least 1");
        std::vector<int32_t> labels;
        std::vector<float> label_scores;
        {
            nb::gil_scoped_release no_gil;
            require(queries.index.size() == queries.value.size(), "data must have as many entries as indices");
            check_ptr(queries.ptr, queries.index.size(), "indptr");
            check_range(queries.index, queries.n_columns, "indices");
            int64_t size;
            require(!__builtin_mul_overflow(queries.n_rows(), top, &size), "top is too large");
            labels.assign(size, -1);
            label_scores.assign(size, 0);
            run(queries, settings, {labels, label_scores}, threads);
        }
        return {to_numpy(std::move(labels)), to_numpy(std::move(label_scores))};
    }

    // A batch takes its time to be checked and arranged in Python; a single row is taken as it is, or not at all.
    std::optional<std::tuple<NumpyRows<int32_t>, NumpyRows<float>>> search_row(AnyVector indices, AnyVector data,
                                                                               int64_t beam, int64_t top,
                                                                               std::string_view score, float scale,
                                                                               float path_weight, bool normalized) {
        if (indices.dtype() != nb::dtype<int32_t>() || data.dtype() != nb::dtype<float>() ||
            indices.size() != data.size() || !is_contiguous(indices) || !is_contiguous(data))
            return std::nullopt;
        const int64_t ptr[] = {0, static_cast<int64_t>(data.size())};
        SparseRows row{ptr,
                       {static_cast<const int32_t*>(indices.data()), indices.size()},
                       {static_cast<const float*>(data.data()), data.size()},
                       std::numeric_limits<int64_t>::max()};
        const SearchSettings settings = checked_settings(beam, top, score, scale, path_weight);
        if (!is_sorted_and_finite(row) || (normalized && !has_length(row, forest_.n_features))) return std::nullopt;
        std::vector<float> scaled;
        if (const double square = normalized ? squared_length(row.value) : 1; !is_unit(square)) {
            scaled.resize(row.value.size());
            scale_to_unit(row.value, square, scaled);
            row.value = scaled;
        }
        // Both arrays in one allocation.
        std::unique_ptr<char[]> memory(new char[top * (sizeof(int32_t) + sizeof(float))]);
        const Ranking ranking{{reinterpret_cast<int32_t*>(memory.get()), static_cast<size_t>(top)},
                              {reinterpret_cast<float*>(memory.get()) + top, static_cast<size_t>(top)}};
        std::fill(ranking.labels.begin(), ranking.labels.end(), -1);
        std::fill(ranking.scores.begin(), ranking.scores.end(), 0.0f);
        {
            nb::gil_scoped_release no_gil;
            run(row, settings, ranking, 1);
        }
        const nb::capsule owner(memory.release(), [](void* p) noexcept { delete[] static_cast<char*>(p); });
        const size_t shape[] = {1, static_cast<size_t>(top)};
        return std::tuple(NumpyRows<int32_t>(ranking.labels.data(), 2, shape, owner),
                          NumpyRows<float>(ranking.scores.data(), 2, shape, owner));
    }

  private:
    static SearchSettings checked_settings(int64_t beam, int64_t top, std::string_view score, float scale,
                                           float path_weight) {
        require(beam >= 1, "beam must be at least 1");
        require(top >= 1, "top must be at least 1");
        require(scale > 0 && std::isfinite(scale), "scale must be positive and finite");
        require(path_weight > 0 && path_weight <= 1, "path_weight must be above 0, and at most 1");
        return {beam, top, {choose(score_names, score, "score"), scale, path_weight}};
    }

    // Starting a thread takes as long as answering a query: only work of several milliseconds is split among threads,
    // and only work of more than a tenth of a second can be interrupted.
    void run(const SparseRows& queries, const SearchSettings& settings, const Ranking& ranking, int threads) {
        const int64_t n_rows = queries.n_rows();
        const double work =
            static_cast<double>(std::ssize(queries.index) + n_rows) * std::max(1.0, reach(forest_, settings.beam));
        threads = work < 1e7 ? 1 : static_cast<int>(std::min<int64_t>(threads, n_rows));
        const int64_t step = rows_at_once(forest_, settings, n_rows, threads);
        const auto body = [&](const Cancel& cancel) {
            if (n_rows == 1) {
                auto search = pool_.take(forest_);
                search->run(queries, 0, 1, settings, ranking, cancel);
                return pool_.give_back(std::move(search));
            }
            std::vector<std::unique_ptr<Search>> workers(threads);
            parallel_for((n_rows + step - 1) / step, threads, [&](int64_t chunk, int worker) {
                if (cancel) return;
                if (!workers[worker]) workers[worker] = std::make_unique<Search>(forest_);
                const int64_t first = chunk * step, last = std::min(first + step, n_rows);
                workers[worker]->run(queries, first, last, settings, ranking, cancel);
            });
        };
        if (work < 2e8)
            body(Cancel{false});
        else
            run_interruptible(body);
    }

    Forest forest_;
    SearchPool pool_;
};

}  // namespace

void bind_beam_search(nb::module_& m) {
    m.attr("SCORES") = names_of(score_names);
    nb::class_<BeamSearch>(m, "BeamSearch", "Beam search through label trees whose blocks may be mapped files.")
        .def(nb::init<const std::vector<const TreeBlocks*>&, int64_t, int64_t, float>(), "trees"_a, "n_features"_a,
             "n_labels"_a, "bias"_a,
             "Check the trees and keep their arrays. Raises ValueError if they do not fit together.")
        .def("search", &BeamSearch::search, "indptr"_a.noconvert(), "indices"_a.noconvert(), "data"_a.noconvert(),
             "beam"_a, "top"_a, "score"_a, "scale"_a, "path_weight"_a, "threads"_a,
             "Return the `top` labels of each row, best first, and their scores: flat arrays, padded with -1 and 0.\n"
             "Features from n_features on are ignored.")
        .def("search_row", &BeamSearch::search_row, "indices"_a, "data"_a, "beam"_a, "top"_a, "score"_a, "scale"_a,
             "path_weight"_a, "normalized"_a,
             "The same for a single row, as arrays of shape (1, top). If normalized, it is scaled as by unit_rows.\n"
             "Returns None if the arrays are not contiguous int32 and float32, sorted, in range and finite; if\n"
             "normalized, also if a feature occurs twice or is not below n_features.");
}

}  // namespace labeltree
