// How the classifiers of a tree are trained.
#pragma once

#include <algorithm>

#include "common/handles.h"
#include "train/problem.h"

namespace labeltree {

// Rows without labels of a node that its training takes as negatives of all children.
struct ForeignRows {
    std::span<const int64_t> ptr;   // of each node; empty if no node has any
    std::span<const int32_t> rows;  // increasing in each node
    double cost;                    // times that of the node

    std::span<const int32_t> of(int64_t node) const {
        return ptr.empty() ? std::span<const int32_t>{} : slice(rows, ptr[node], ptr[node + 1]);
    }
    bool has(int64_t node, int32_t row) const {
        const auto rows_of_node = of(node);
        return std::binary_search(rows_of_node.begin(), rows_of_node.end(), row);
    }
};

struct Training {
    TrainingData data;
    TreeView tree;
    std::span<const float> costs;            // of each instance; empty: all 1
    std::span<const double> node_costs;      // of each node: C
    std::span<const double> positive_costs;  // of each node
    ForeignRows foreign;
    SolverSettings settings;  // its costs are those of each node, see Strip::solve_with
    bool precise;             // use double precision
};

// _native.Training. Python keeps data and tree alive.
class TrainingHandle {
  public:
    TrainingHandle(const DataHandle& data, const TreeHandle& tree, std::optional<In<float>> costs,
                   In<double> node_costs, In<double> positive_costs, std::optional<In<int64_t>> foreign_ptr,
                   std::optional<In<int32_t>> foreign_rows, double foreign_cost, std::string_view loss,
                   double tolerance, int max_iterations, double bias, uint64_t seed, bool precise);
    const Training& view() const { return view_; }
    bool mapped() const { return mapped_; }  // whether the data is in files

  private:
    std::optional<In<float>> costs_;
    std::optional<In<int64_t>> foreign_ptr_;
    std::optional<In<int32_t>> foreign_rows_;
    In<double> node_costs_, positive_costs_;
    Training view_;
    bool mapped_;
};

}  // namespace labeltree
