// How the classifiers of a tree are trained.
#pragma once

#include "common/handles.h"
#include "train/problem.h"

namespace labeltree {

struct Training {
    TrainingData data;
    TreeView tree;
    std::span<const float> costs;            // of each instance; empty: all 1
    std::span<const double> node_costs;      // of each node: C
    std::span<const double> positive_costs;  // of each node
    SolverSettings settings;                 // its costs are those of each node, see Strip::solve_with
    bool precise;                            // use double precision
};

// _native.Training. Python keeps data and tree alive.
class TrainingHandle {
  public:
    TrainingHandle(const DataHandle& data, const TreeHandle& tree, std::optional<In<float>> costs,
                   In<double> node_costs, In<double> positive_costs, std::string_view loss, double tolerance,
                   int max_iterations, double bias, uint64_t seed, bool precise);
    const Training& view() const { return view_; }
    bool mapped() const { return mapped_; }  // whether the data is in files

  private:
    std::optional<In<float>> costs_;
    In<double> node_costs_, positive_costs_;
    Training view_;
    bool mapped_;
};

}  // namespace labeltree
