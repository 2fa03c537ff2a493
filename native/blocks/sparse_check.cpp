// Reads sparse blocks completely, and finds those that no encoder would have written.
#include <atomic>

#include "blocks/stored.h"

namespace labeltree {
namespace {

// Whether the size of a row fits its form, whichever of the possible forms the writer chose.
bool is_possible(std::span<const uint8_t> row, int64_t n_children) {
    const int64_t size = std::ssize(row), n_bit_bytes = bit_bytes(n_children);
    if (size > n_children) return false;
    switch (form_of(size, n_children)) {
        case RowForm::full: return true;
        case RowForm::pairs: return size % 2 == 0;
        case RowForm::bits: break;
    }
    int64_t n_set = 0;
    for (const uint8_t byte : row.first(static_cast<size_t>(n_bit_bytes))) n_set += std::popcount(byte);
    return size == n_bit_bytes + n_set;
}

// What is wrong with a block; empty if nothing is.
std::string_view fault_of(const Blocks& blocks, int64_t number, int64_t n_children, int64_t n_features) {
    const ShortFeatureList list = blocks.short_features_of(number);
    const SparseBlock block = blocks.sparse_block(number);
    int64_t last = -1, end = 0, n_nonzeros = 0;
    bool sorted = true;
    list.for_each([&](uint32_t feature, int32_t) {
        sorted &= feature > last && feature < n_features;
        last = feature;
    });
    if (!sorted) return "features are out of order or out of range";
    for (int64_t f = 0; f < list.size(); ++f) {
        const int64_t size = block.size(f);
        if (block.start(f) != end || size > block.row_bytes() - end) return "the sizes of its rows do not add up";
        end += size;
        const auto row = block.row(f);
        if (!is_possible(row, n_children)) return "a row has an impossible size";
        bool valid = true;
        int64_t child = -1;
        for_each_weight(row, n_children, [&](int64_t c, int8_t weight) {
            valid &= c > child && c < n_children;
            child = c;
            n_nonzeros += weight != 0;
        });
        if (!valid) return "a child is out of order or out of range";
    }
    if (end != block.row_bytes()) return "the sizes of its rows do not add up";
    const std::array expected{list.size(), n_children, n_nonzeros, end};
    const auto header = block.header();
    return std::equal(header.begin(), header.end(), expected.begin()) ? "" : "its header is wrong";
}

}  // namespace

void bind_sparse_check(nb::module_& m) {
    m.def(
        "sparse_fault",
        [](const TreeBlocks& given, int64_t n_features,
           int threads) -> std::optional<std::tuple<int64_t, std::string_view>> {
            require(threads >= 1 && given.blocks.codec == Codec::sparse, "expected threads, and sparse blocks");
            const TreeShape& tree = given.shape;
            Blocks blocks = given.blocks;
            std::vector<std::string_view> faults(tree.n_nodes());
            {
                nb::gil_scoped_release no_gil;
                check_ptr(tree.child_ptr, tree.children.size(), "child_ptr");
                blocks.check(tree, n_features);
                run_interruptible([&](const Cancel& cancel) {
                    parallel_for(tree.n_nodes(), threads, [&](int64_t u, int) {
                        for (int64_t p = blocks.block_ptr[u]; p < blocks.block_ptr[u + 1] && !cancel; ++p) {
                            const int64_t first = (p - blocks.block_ptr[u]) * block_children;
                            const int64_t width = std::min(block_children, tree.n_children(u) - first);
                            if (faults[u].empty()) faults[u] = fault_of(blocks, p, width, n_features);
                        }
                    });
                });
            }
            for (int64_t u = 0; u < tree.n_nodes(); ++u)
                if (!faults[u].empty()) return std::tuple(u, faults[u]);
            return {};
        },
        "tree"_a, "n_features"_a, "threads"_a,
        "Return the first node with a damaged sparse block, and what is wrong; or None.");
}

}  // namespace labeltree
