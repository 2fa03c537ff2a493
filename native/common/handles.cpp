// The checks of the handles, and their bindings. Arrays are scanned with the GIL released.
#include "common/handles.h"

#include "blocks/mapped.h"
#include "blocks/stored.h"
#include "common/choices.h"
#include "train/training.h"

namespace labeltree {
namespace {

constexpr size_t piece = size_t{1} << 18;  // entries that are checked before their pages may be released

void check_count(int64_t count, const char* name) {
    require(count >= 0 && count <= max_count, name, "must be from 0 to 2147483646");
}

template <class T>
std::span<const T> typed(const AnyArray& array, const char* name) {
    require(array.dtype() == nb::dtype<T>(), name, "has the wrong type for the codec");
    return {static_cast<const T*>(array.data()), array.size()};
}

void check_foreign_rows(const Training& training) {
    const auto& [ptr, rows, cost] = training.foreign;
    require(std::ssize(ptr) == training.tree.shape.n_nodes() + 1, "foreign_ptr must have one entry per node");
    check_ptr(ptr, rows.size(), "foreign_ptr");
    check_range(rows, training.data.n_instances(), "foreign_rows");
    for (int64_t node = 0; node + 1 < std::ssize(ptr); ++node)
        for (int64_t k = ptr[node] + 1; k < ptr[node + 1]; ++k)
            require(rows[k - 1] < rows[k], "foreign_rows must increase in each node");
    require(cost > 0, "foreign_cost must be positive");
}

}  // namespace

RowsHandle::RowsHandle(In<int64_t> ptr, In<int32_t> index, In<float> value, int64_t n_columns)
    : ptr_(std::move(ptr)), index_(std::move(index)), value_(std::move(value)),
      view_{span_of(ptr_), span_of(index_), span_of(value_), n_columns} {
    nb::gil_scoped_release no_gil;
    check_count(n_columns, "n_columns");
    require(view_.value.size() == view_.index.size(), "value must have as many entries as index");
    check_ptr(view_.ptr, view_.index.size(), "ptr");
    check_range(view_.index, n_columns, "index");
}

DataHandle::DataHandle(In<int64_t> x_ptr, In<int32_t> x_index, In<float> x_value, int64_t n_features,
                       In<int64_t> label_ptr, In<int32_t> label_instances, bool mapped)
    : x_ptr_(std::move(x_ptr)), label_ptr_(std::move(label_ptr)), x_index_(std::move(x_index)),
      label_instances_(std::move(label_instances)), x_value_(std::move(x_value)),
      view_{{span_of(x_ptr_), span_of(x_index_), span_of(x_value_), n_features},
            {span_of(label_ptr_), span_of(label_instances_), {}, std::ssize(span_of(x_ptr_)) - 1}},
      mapped_(mapped) {
    nb::gil_scoped_release no_gil;
    const auto& [x, instances] = view_;
    check_count(n_features, "n_features");
    require(x.value.size() == x.index.size(), "x_value must have as many entries as x_index");
    check_ptr(x.ptr, x.index.size(), "x_ptr");
    ReadPages pages;
    if (mapped) pages.watch(x.index.data(), x.index.size_bytes());
    for (size_t start = 0; start < x.index.size(); start += piece) {
        const auto part = x.index.subspan(start, std::min(piece, x.index.size() - start));
        check_range(part, n_features, "x_index");
        pages.done_with(part.size_bytes());
    }
    check_count(x.n_rows(), "the number of instances");
    check_ptr(instances.ptr, instances.index.size(), "label_ptr");
    check_range(instances.index, x.n_rows(), "label_instances");
    check_count(instances.n_rows(), "the number of labels");
}

TreeHandle::TreeHandle(In<int64_t> child_ptr, In<int32_t> children, In<int32_t> labels, In<int64_t> first,
                       In<int64_t> last)
    : child_ptr_(std::move(child_ptr)), first_(std::move(first)), last_(std::move(last)),
      children_(std::move(children)), labels_(std::move(labels)),
      view_{{span_of(child_ptr_), span_of(children_)}, span_of(labels_), span_of(first_), span_of(last_)} {
    nb::gil_scoped_release no_gil;
    check_tree(view_);
}

TrainingHandle::TrainingHandle(const DataHandle& data, const TreeHandle& tree, std::optional<In<float>> costs,
                               In<double> node_costs, In<double> positive_costs, std::optional<In<int64_t>> foreign_ptr,
                               std::optional<In<int32_t>> foreign_rows, double foreign_cost, std::string_view loss,
                               double tolerance, int max_iterations, double bias, uint64_t seed, bool precise)
    : costs_(std::move(costs)), foreign_ptr_(std::move(foreign_ptr)), foreign_rows_(std::move(foreign_rows)),
      node_costs_(std::move(node_costs)), positive_costs_(std::move(positive_costs)),
      view_{data.view(),
            tree.view(),
            costs_ ? span_of(*costs_) : std::span<const float>{},
            span_of(node_costs_),
            span_of(positive_costs_),
            {foreign_ptr_ ? span_of(*foreign_ptr_) : std::span<const int64_t>{},
             foreign_rows_ ? span_of(*foreign_rows_) : std::span<const int32_t>{}, foreign_cost},
            {choose(loss_names, loss, "loss"), 1, 1, tolerance, max_iterations, bias, seed},
            precise},
      mapped_(data.mapped()) {
    nb::gil_scoped_release no_gil;
    check_fit(data, tree);
    require(tolerance > 0 && max_iterations >= 1, "tolerance must be positive, max_iterations at least 1");
    require(bias >= 0, "bias must not be negative");
    require(!costs_ || std::ssize(view_.costs) == view_.data.n_instances(), "costs must have one entry per instance");
    for (const float c : view_.costs) require(c > 0, "costs must be positive");
    for (const auto& of_nodes : {view_.node_costs, view_.positive_costs}) {
        require(std::ssize(of_nodes) == view_.tree.shape.n_nodes(),
                "node_costs and positive_costs must have one entry per node");
        for (const double c : of_nodes) require(c > 0, "node_costs and positive_costs must be positive");
    }
    require(foreign_ptr_.has_value() == foreign_rows_.has_value(), "foreign_ptr and foreign_rows belong together");
    if (foreign_ptr_) check_foreign_rows(view_);
}

TreeBlocks::TreeBlocks(std::string_view codec, In<int64_t> child_ptr, In<int32_t> children, In<int64_t> feature_ptr,
                       AnyArray features, In<int64_t> weight_ptr, In<uint8_t> weights, In<float> scales,
                       In<float> biases)
    : child_ptr_(std::move(child_ptr)), feature_ptr_(std::move(feature_ptr)), weight_ptr_(std::move(weight_ptr)),
      children_(std::move(children)), features_(std::move(features)), weights_(std::move(weights)),
      scales_(std::move(scales)), biases_(std::move(biases)) {
    shape = {span_of(child_ptr_), span_of(children_)};
    blocks.codec = choose(codecs, codec, "codec");
    blocks.feature_ptr = span_of(feature_ptr_);
    if (blocks.codec == Codec::sparse)
        blocks.short_features = typed<uint16_t>(features_, "features");
    else
        blocks.features = typed<int32_t>(features_, "features");
    blocks.weight_ptr = span_of(weight_ptr_);
    blocks.bytes = span_of(weights_);
    blocks.scales = span_of(scales_);
    blocks.biases = span_of(biases_);
}

void bind_handles(nb::module_& m) {
    nb::class_<RowsHandle>(m, "SparseRows", "A sparse matrix by rows, checked once. Its arrays must not change.")
        .def(nb::init<In<int64_t>, In<int32_t>, In<float>, int64_t>(), "ptr"_a.noconvert(), "index"_a.noconvert(),
             "value"_a.noconvert(), "n_columns"_a);
    nb::class_<DataHandle>(
        m, "TrainingData",
        "Rows of features, and the instances of each label, checked once. The arrays must not change.\n"
        "mapped: whether x_index and x_value are maps of files, read-only; some kernels then release their pages.")
        .def(nb::init<In<int64_t>, In<int32_t>, In<float>, int64_t, In<int64_t>, In<int32_t>, bool>(),
             "x_ptr"_a.noconvert(), "x_index"_a.noconvert(), "x_value"_a.noconvert(), "n_features"_a,
             "label_ptr"_a.noconvert(), "label_instances"_a.noconvert(), "mapped"_a = false);
    nb::class_<TreeHandle>(m, "Tree", "A label tree and its nodes' labels, checked once. The arrays must not change.")
        .def(nb::init<In<int64_t>, In<int32_t>, In<int32_t>, In<int64_t>, In<int64_t>>(), "child_ptr"_a.noconvert(),
             "children"_a.noconvert(), "labels"_a.noconvert(), "first"_a.noconvert(), "last"_a.noconvert());
    nb::class_<TrainingHandle>(
        m, "Training", "Data, a tree, and how its classifiers are trained, checked once. The arrays must not change.")
        .def(nb::init<const DataHandle&, const TreeHandle&, std::optional<In<float>>, In<double>, In<double>,
                      std::optional<In<int64_t>>, std::optional<In<int32_t>>, double, std::string_view, double, int,
                      double, uint64_t, bool>(),
             nb::keep_alive<1, 2>(), nb::keep_alive<1, 3>(), "data"_a, "tree"_a, nb::kw_only(),
             "costs"_a.noconvert().none(), "node_costs"_a.noconvert(), "positive_costs"_a.noconvert(),
             "foreign_ptr"_a.noconvert().none() = nb::none(), "foreign_rows"_a.noconvert().none() = nb::none(),
             "foreign_cost"_a = 1.0, "loss"_a, "tolerance"_a, "max_iterations"_a, "bias"_a, "seed"_a, "precise"_a);
    nb::class_<TreeBlocks>(m, "TreeBlocks", "A tree and its blocks, as they are stored.")
        // No conversion: that would read and copy a mapped file.
        .def(nb::init<std::string_view, In<int64_t>, In<int32_t>, In<int64_t>, AnyArray, In<int64_t>, In<uint8_t>,
                      In<float>, In<float>>(),
             "codec"_a, nb::kw_only(), "child_ptr"_a.noconvert(), "children"_a.noconvert(), "feature_ptr"_a.noconvert(),
             "features"_a.noconvert(), "weight_ptr"_a.noconvert(), "weights"_a.noconvert(), "scales"_a.noconvert(),
             "biases"_a.noconvert());
    nb::class_<BlockFiles>(m, "BlockFiles", "Where the blocks of a tree are in its two large files, in elements.")
        .def(nb::init<std::string_view, In<int64_t>, In<int64_t>, int, int64_t, int, int64_t>(), "codec"_a,
             nb::kw_only(), "feature_ptr"_a.noconvert(), "weight_ptr"_a.noconvert(), "feature_file"_a,
             "feature_start"_a, "weight_file"_a, "weight_start"_a);
}

}  // namespace labeltree
