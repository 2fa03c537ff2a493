// Stores the blocks of a float32 model with another codec, or computes how large they would be.
#include "blocks/stored.h"
#include "blocks/stored_rows.h"

namespace labeltree {
namespace {

// The dense float32 blocks of a tree; the last row of each belongs to the bias, if there is one.
struct FloatBlocks {
    TreeShape tree;
    Blocks blocks;
    bool has_bias;

    int64_t n_rows(int64_t node) const { return blocks.n_features(node) - has_bias; }
};

// A run of a node's children.
struct Strip {
    int64_t node, first_child, n_children;
};

// Strips of block_children each; or of as many as have about 64 MB of floats, so that a wide node needs little memory.
std::vector<Strip> make_strips(const FloatBlocks& source, bool by_blocks) {
    std::vector<Strip> strips;
    for (int64_t u = 0; u < source.tree.n_nodes(); ++u) {
        const int64_t n_children = source.tree.n_children(u);
        const int64_t fitting = (16 << 20) / std::max<int64_t>(1, source.n_rows(u));
        const int64_t width = by_blocks ? block_children : std::max<int64_t>(16, fitting);
        for (int64_t c = 0; c < n_children; c += width) strips.push_back({u, c, std::min(width, n_children - c)});
    }
    return strips;
}

LABELTREE_INLINE bool all_finite(const float* weights, int64_t n_weights) {
    float sum = 0;  // stays 0 unless a weight is infinite or NaN
    for (int64_t c = 0; c < n_weights; ++c) sum += weights[c] * 0;
    return sum == 0;
}

// The weights of one strip, and the scales of its children.
class StripView {
  public:
    StripView(const FloatBlocks& source, const Strip& strip, Codec codec, float threshold)
        : weights_(source.blocks.weights_of<float>(strip.node) + strip.first_child),
          stride_(source.tree.n_children(strip.node)), n_rows(source.n_rows(strip.node)), n_children(strip.n_children),
          scales(strip.n_children, 0) {
        static const auto finite = for_this_cpu<all_finite>();
        bool valid = true;
        find_scales<float>(
            codec, threshold, n_rows,
            [&](int64_t f) {
                valid &= finite(row(f), n_children);
                return row(f);
            },
            scales);
        if (source.has_bias) valid &= finite(row(n_rows), n_children);
        require(valid, "the model has weights that are not finite");
    }

    const float* row(int64_t f) const { return weights_ + f * stride_; }

    float bias(int64_t child) const { return weights_[n_rows * stride_ + child]; }

  private:
    const float* weights_;
    const int64_t stride_;

  public:
    const int64_t n_rows, n_children;
    std::vector<float> scales;
};

template <class T>
void store_strip(const FloatBlocks& source, const Strip& strip, BlockWriter& writer) {
    StripView view(source, strip, writer.codec(), writer.threshold());
    std::vector<T> rows(view.n_rows * view.n_children);
    const auto row_of = [&](int64_t f) { return view.row(f); };
    store_rows<T, float>(writer.codec(), writer.threshold(), view.n_rows, row_of, view.scales, rows.data());
    const int64_t first = source.tree.child_ptr[strip.node] + strip.first_child;
    std::copy(view.scales.begin(), view.scales.end(), writer.written.scales.begin() + first);
    if (source.has_bias)
        for (int64_t c = 0; c < view.n_children; ++c) writer.written.biases[first + c] = view.bias(c);
    const auto features = source.blocks.features_of(strip.node).ids.first(view.n_rows);
    const auto stored_rows = [&](int64_t from, int64_t) {
        return reinterpret_cast<const uint8_t*>(rows.data() + from * view.n_children);
    };
    if (writer.codec() == Codec::sparse)
        writer.write_sparse(strip.node, features, stored_rows, strip.first_child, strip.n_children);
    else
        writer.write_dense(strip.node, features, stored_rows, strip.first_child, strip.n_children);
}

void compress(const FloatBlocks& source, BlockWriter& writer, int threads, std::atomic<double>& fraction,
              const Cancel& cancel) {
    const auto strips = make_strips(source, writer.codec() == Codec::sparse);
    std::atomic<int64_t> done{0};
    parallel_for(std::ssize(strips), threads, [&](int64_t k, int) {
        if (cancel) return;
        if (writer.codec() == Codec::float16)
            store_strip<Half>(source, strips[k], writer);
        else
            store_strip<int8_t>(source, strips[k], writer);
        fraction = static_cast<double>(++done) / static_cast<double>(strips.size());
    });
}

// Totals of sparse blocks for each threshold.
struct Sizes {
    std::vector<int64_t> n_bytes, n_nonzeros;  // bytes of features and weights
};

// The smallest magnitude that does not round to 0: one half does.
float least_stored(float scale) {
    if (scale == 0) return std::numeric_limits<float>::infinity();
    auto least = static_cast<float>(0.5 * scale);
    while (least <= 0.5 * scale) least = std::nextafter(least, std::numeric_limits<float>::infinity());
    return least;
}

// How many weights have at least the magnitude that their child requires.
LABELTREE_INLINE int32_t count_used(const float* weights, const float* least, int64_t n_children) {
    int32_t n_used = 0;
    for (int64_t c = 0; c < n_children; ++c) n_used += std::abs(weights[c]) >= least[c];
    return n_used;
}

void add_sizes(const FloatBlocks& source, const Strip& strip, std::span<const float> thresholds, Sizes& sizes) {
    static const auto count = for_this_cpu<count_used>();
    const StripView view(source, strip, Codec::sparse, 0);
    std::vector<int64_t> n_rows(thresholds.size());
    std::vector<float> least;  // thresholds x children
    for (const float threshold : thresholds)
        for (const float scale : view.scales) least.push_back(std::max(threshold, least_stored(scale)));
    for (int64_t f = 0; f < view.n_rows; ++f) {
        for (size_t t = 0; t < thresholds.size(); ++t) {
            const int64_t n_used = count(view.row(f), least.data() + t * view.scales.size(), view.n_children);
            n_rows[t] += n_used > 0;
            sizes.n_nonzeros[t] += n_used;
            sizes.n_bytes[t] += sparse_row_bytes(n_used, view.n_children);
        }
    }
    for (size_t t = 0; t < thresholds.size(); ++t)
        sizes.n_bytes[t] += SparseBlock::head_bytes(n_rows[t]) + 2 * n_rows[t];
}

Sizes sparse_sizes(const FloatBlocks& source, std::span<const float> thresholds, int threads, const Cancel& cancel) {
    const auto strips = make_strips(source, true);
    const Sizes none{std::vector<int64_t>(thresholds.size(), 0), std::vector<int64_t>(thresholds.size(), 0)};
    std::vector<Sizes> sums(threads, none);
    parallel_for(std::ssize(strips), threads, [&](int64_t k, int worker) {
        if (!cancel) add_sizes(source, strips[k], thresholds, sums[worker]);
    });
    Sizes total = none;
    for (const Sizes& part : sums)
        for (size_t t = 0; t < thresholds.size(); ++t) {
            total.n_bytes[t] += part.n_bytes[t];
            total.n_nonzeros[t] += part.n_nonzeros[t];
        }
    return total;
}

FloatBlocks check_source(const TreeBlocks& given, int64_t n_features, bool has_bias) {
    FloatBlocks source{given.shape, given.blocks, has_bias};
    require(source.blocks.codec == Codec::float32, "the blocks must be float32");
    check_ptr(source.tree.child_ptr, source.tree.children.size(), "child_ptr");
    source.blocks.check(source.tree, n_features);
    check_range(source.blocks.features, n_features + has_bias, "features");
    for (int64_t u = 0; u < source.tree.n_nodes(); ++u)
        require(source.n_rows(u) >= 0, "a node has no row for its bias");
    return source;
}

}  // namespace

void bind_compress(nb::module_& m) {
    m.attr("CODECS") = names_of(codecs);
    m.attr("BLOCK_CHILDREN") = block_children;
    m.attr("SPARSE_GROUP") = SparseBlock::group;
    m.attr("SPARSE_HEADER_BYTES") = SparseBlock::header_bytes;
    m.def(
        "release_range", [](int file, int64_t first, int64_t last) { ArrayFile{file, 0}.release(first, last); },
        "file"_a, "first"_a, "last"_a, "Free the disk space of a range of bytes of a file, if the file system can.");
    m.def(
        "compress_blocks",
        [](const TreeBlocks& given, const BlockFiles& files, int64_t n_features, bool has_bias, float threshold,
           int threads, nb::handle progress) {
            require(threads >= 1 && threshold >= 0, "threads must be at least 1, threshold not negative");
            require(files.codec != Codec::float32, "codec must be smaller than float32");
            const FloatBlocks source = check_source(given, n_features, has_bias);
            BlockWriter writer = files.writer(source.tree, threshold, n_features);
            {
                nb::gil_scoped_release no_gil;
                run_interruptible(progress, [&](std::atomic<double>& fraction, const Cancel& cancel) {
                    compress(source, writer, threads, fraction, cancel);
                });
            }
            Written& written = writer.written;
            nb::dict named;
            named["checksums"] = to_numpy(std::move(written.checksums));
            named["segment_rows"] = to_numpy(std::move(written.segment_rows));
            named["n_bytes"] = to_numpy(std::move(written.n_bytes));
            named["n_nonzeros"] = to_numpy(std::move(written.n_nonzeros));
            named["scales"] = to_numpy(std::move(written.scales));
            named["biases"] = to_numpy(std::move(written.biases));
            return named;
        },
        "source"_a, "files"_a, nb::kw_only(), "n_features"_a, "has_bias"_a, "threshold"_a, "threads"_a,
        "progress"_a.none(),
        "Write dense float32 blocks with another codec; return what was written. The checksum of a dense block that\n"
        "was written in strips is 0.");
    m.def(
        "sparse_sizes",
        [](const TreeBlocks& given, int64_t n_features, bool has_bias, In<float> thresholds, int threads) {
            require(threads >= 1, "threads must be at least 1");
            const FloatBlocks source = check_source(given, n_features, has_bias);
            Sizes sizes;
            {
                nb::gil_scoped_release no_gil;
                run_interruptible(
                    [&](const Cancel& cancel) { sizes = sparse_sizes(source, span_of(thresholds), threads, cancel); });
            }
            return nb::make_tuple(to_numpy(std::move(sizes.n_bytes)), to_numpy(std::move(sizes.n_nonzeros)));
        },
        "source"_a, "n_features"_a, "has_bias"_a, "thresholds"_a.noconvert(), "threads"_a,
        "Return the bytes of features and weights, and the non-zero weights, that sparse blocks would have.");
}

}  // namespace labeltree
