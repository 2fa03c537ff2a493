// Arrays that are checked once, when Python makes a handle for them, and then trusted by every kernel that takes it.
#pragma once

#include "common/binding.h"

namespace labeltree {

// _native.SparseRows
class RowsHandle {
  public:
    RowsHandle(In<int64_t> ptr, In<int32_t> index, In<float> value, int64_t n_columns);
    const SparseRows& view() const { return view_; }

  private:
    In<int64_t> ptr_;
    In<int32_t> index_;
    In<float> value_;
    SparseRows view_;
};

// _native.TrainingData
class DataHandle {
  public:
    DataHandle(In<int64_t> x_ptr, In<int32_t> x_index, In<float> x_value, int64_t n_features, In<int64_t> label_ptr,
               In<int32_t> label_instances, bool mapped);
    const TrainingData& view() const { return view_; }
    bool mapped() const { return mapped_; }  // whether x_index and x_value are in files

  private:
    In<int64_t> x_ptr_, label_ptr_;
    In<int32_t> x_index_, label_instances_;
    In<float> x_value_;
    TrainingData view_;
    bool mapped_;
};

// _native.Tree
class TreeHandle {
  public:
    TreeHandle(In<int64_t> child_ptr, In<int32_t> children, In<int32_t> labels, In<int64_t> first, In<int64_t> last);
    const TreeView& view() const { return view_; }

  private:
    In<int64_t> child_ptr_, first_, last_;
    In<int32_t> children_, labels_;
    TreeView view_;
};

inline void check_fit(const DataHandle& data, const TreeHandle& tree) {
    require(data.view().n_labels() == std::ssize(tree.view().labels), "data and tree must have the same labels");
}

}  // namespace labeltree
