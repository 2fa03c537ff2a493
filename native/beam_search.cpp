// Beam search through label trees: batches of queries cut into chunks, and the binding.
#include <memory>

#include "search.h"

namespace labeltree {
namespace {

// The most children that one query can meet.
double reach(const Forest& forest, int64_t beam) {
    double sum = 0;
    for (const Tree& tree : forest.trees)
        sum += std::min(static_cast<double>(std::get<1>(tree.arrays).size()),
                        static_cast<double>(beam) * tree.most_children * tree.levels);
    return sum;
}

int64_t rows_at_once(const Forest& forest, const SearchSettings& settings, int64_t rows, int threads) {
    constexpr double most_bytes = 64 << 20;
    double widest = 0;
    for (const Tree& tree : forest.trees) widest = std::max(widest, static_cast<double>(tree.widest));
    const double bytes = 48 * std::min<double>(widest, settings.beam) + 12 * std::min(settings.top, forest.n_labels) +
                         (forest.trees.size() > 1 ? 8 * reach(forest, settings.beam) : 0);
    const auto fitting = static_cast<int64_t>(most_bytes / (bytes + 1));
    return std::max<int64_t>(1, std::min({rows / (int64_t{4} * threads), fitting, int64_t{2048}}));
}

using Labels = nb::ndarray<nb::numpy, int32_t, nb::ndim<1>>;
using Scores = nb::ndarray<nb::numpy, float, nb::ndim<1>>;

class BeamSearch {
   public:
    BeamSearch(const BeamSearch&) = delete;
    BeamSearch(nb::list trees, int64_t n_features, int64_t n_labels, float bias) {
        constexpr int64_t most = std::numeric_limits<int32_t>::max() - 1;
        require(n_features >= 0 && n_features <= most, "n_features out of range");
        require(n_labels >= 1 && n_labels <= most, "n_labels out of range");
        require(std::isfinite(bias), "bias must be finite");
        require(trees.size() > 0, "at least one tree is needed");
        forest_.n_features = n_features, forest_.n_labels = n_labels, forest_.bias = bias;
        for (nb::handle given : trees) {
            TreeArrays arrays;
            if (!nb::try_cast(given, arrays, false))  // no conversion: that would read and copy a mapped file
                throw nb::type_error(
                    "a tree is (child_ptr int64, children int32, feature_ptr int64, features int32, weight_ptr int64, "
                    "weights float32), all one-dimensional and contiguous");
            forest_.trees.emplace_back(std::move(arrays), n_features, n_labels);
        }
    }

    std::tuple<Labels, Scores> search(In<int64_t> indptr, In<int32_t> indices, In<float> data, int64_t beam,
                                      int64_t top, int score, int threads) const {
        require(indices.size() == data.size(), "indices and data must be equally long");
        check_indptr(indptr, indices.size(), "indptr");
        check_range(indices, std::numeric_limits<int64_t>::max(), "indices");
        require(beam >= 1, "beam must be at least 1");
        require(top >= 1, "top must be at least 1");
        require(score >= sigmoid && score <= cubed, "score must be 0, 1 or 2");
        require(threads >= 1, "threads must be at least 1");
        const Queries queries{indptr.data(), indices.data(), data.data(), static_cast<int64_t>(indptr.size()) - 1};
        int64_t size;
        require(!__builtin_mul_overflow(queries.rows, top, &size), "top is too large");
        std::vector<int32_t> labels(size, -1);
        std::vector<float> scores(size, 0);
        run(queries, {beam, top, score}, {labels.data(), scores.data()}, threads);
        return {to_numpy(std::move(labels)), to_numpy(std::move(scores))};
    }

   private:
    // Starting a thread costs as much as answering a query: only work worth milliseconds gets several, and only
    // work worth a tenth of a second is watched for Ctrl-C.
    void run(const Queries& queries, const SearchSettings& settings, const Result& result, int threads) const {
        const double work = static_cast<double>(queries.indptr[queries.rows] + queries.rows) *
                            std::max(1.0, reach(forest_, settings.beam));
        threads = work < 1e7 ? 1 : static_cast<int>(std::min<int64_t>(threads, queries.rows));
        const int64_t step = rows_at_once(forest_, settings, queries.rows, threads);
        const int64_t chunks = (queries.rows + step - 1) / step;
        std::atomic<double> unused{0};
        Cancel cancel{false};
        const auto watch = python_watch(nb::none(), unused);
        nb::gil_scoped_release free;
        const auto body = [&] {
            std::vector<std::unique_ptr<Search>> workers(threads);
            parallel_for(chunks, threads, [&](int64_t chunk, int worker) {
                if (cancel) return;
                if (!workers[worker]) workers[worker] = std::make_unique<Search>(forest_, settings, cancel);
                const int64_t first = chunk * step;
                workers[worker]->run(queries, first, std::min(first + step, queries.rows), result);
            });
        };
        if (work < 2e8)
            body();
        else
            run_watched(body, watch, cancel);
    }

    Forest forest_;
};

}  // namespace

void bind_beam_search(nb::module_& m) {
    nb::class_<BeamSearch>(m, "BeamSearch", "Beam search through label trees whose blocks may lie in mapped files.")
        .def(nb::init<nb::list, int64_t, int64_t, float>(), "trees"_a, "n_features"_a, "n_labels"_a, "bias"_a,
             "Keeps the arrays of the trees; raises ValueError if they do not fit together.")
        .def("search", &BeamSearch::search, "indptr"_a.noconvert(), "indices"_a.noconvert(), "data"_a.noconvert(),
             "beam"_a, "top"_a, "score"_a, "threads"_a,
             "The `top` best labels of each row, best first, and their scores: two flat arrays, padded with -1 and 0.\n"
             "Features from n_features on are ignored.");
}

}  // namespace labeltree
