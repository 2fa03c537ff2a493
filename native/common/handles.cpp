// The checks of the handles, and their bindings. Arrays are scanned with the GIL released.
#include "common/handles.h"

#include "blocks/mapped.h"

namespace labeltree {
namespace {

constexpr size_t piece = size_t{1} << 18;  // entries that are checked before their pages may be released

void check_count(int64_t count, const char* name) {
    require(count >= 0 && count <= max_count, name, "must be from 0 to 2147483646");
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
}

}  // namespace labeltree
