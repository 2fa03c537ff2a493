// The instances of a node that its panels are trained on, with the features that several of them have numbered from 0.
#pragma once

#include <utility>
#include <vector>

#include "memory.h"
#include "node_data.h"
#include "views.h"

namespace labeltree {

// What the groups of a panel share. Reuses its memory from panel to panel.
class PanelData {
  public:
    struct Own {
        int32_t row;
        float value;
    };
    std::vector<int32_t> instances, features;  // global numbers
    std::vector<int32_t> place;                // of each feature: a row of the solver's weights, or ~k for own[k]
    std::vector<Own> own;                      // features that only one instance has
    SparseRows x;                              // the instances, without these features
    std::vector<float> own_squares, norms, sums, costs;
    std::vector<int64_t> leaf;   // the place of each child's first label, and the end
    std::vector<int32_t> order;  // of the children: each sixteen are solved together
    Buffer<uint8_t> weights;     // features x children, as stored

    // `local` is scratch memory for a number of each feature.
    void gather(const TrainingData& data, const TreeView& tree, int64_t node, double bias, NodeData& node_data,
                std::vector<int32_t>& local) {
        node_data.find_instances(tree, node, instances);
        node_data.find_features(instances, features);
        place = features;
        own.clear();
        own_squares.clear();
        if (node == 0)
            x = data.x;  // the root uses the data as it is
        else
            copy_rows(data.x, local);
        compute_norms(bias);
        add_up();
    }

  private:
    void copy_rows(const SparseRows& all, std::vector<int32_t>& local) {
        const auto [n_shared, n_entries] = number_features(all, local);
        rows_.clear();
        rows_.index.reserve(n_entries);
        rows_.value.reserve(n_entries);
        own_squares.resize(instances.size());
        for (size_t r = 0; r < instances.size(); ++r) {
            const auto columns = all.columns(instances[r]);
            const auto values = all.values(instances[r]);
            double squares = 0;
            for (size_t k = 0; k < columns.size(); ++k) {
                const int32_t number = local[columns[k]];
                if (number >= 0) {
                    rows_.index.push_back(number);
                    rows_.value.push_back(values[k]);
                } else {
                    own[~number] = {static_cast<int32_t>(r), values[k]};
                    squares += static_cast<double>(values[k]) * values[k];
                }
            }
            own_squares[r] = static_cast<float>(squares);
            rows_.end_row();
        }
        x = rows_.view(n_shared);
    }

    // Finds the place of each feature; returns the number of features that several instances have, and their entries.
    std::pair<int64_t, int64_t> number_features(const SparseRows& all, std::vector<int32_t>& local) {
        for (const int32_t f : features) local[f] = 0;
        for (const int32_t i : instances)
            for (const int32_t f : all.columns(i)) ++local[f];
        int32_t n_shared = 0, n_own = 0;
        int64_t n_entries = 0;
        for (size_t f = 0; f < features.size(); ++f) {
            const int32_t count = local[features[f]];
            if (count > 1) n_entries += count;
            local[features[f]] = place[f] = count > 1 ? n_shared++ : ~n_own++;
        }
        own.resize(n_own);
        return {n_shared, n_entries};
    }

    void compute_norms(double bias) {
        norms.resize(instances.size());
        for (size_t r = 0; r < norms.size(); ++r) {
            double squares = bias * bias;
            if (!own_squares.empty()) squares += own_squares[r];
            for (const float value : x.values(r)) squares += static_cast<double>(value) * value;
            norms[r] = static_cast<float>(squares);
        }
    }

    // The sum of each feature, in order of the instances.
    void add_up() {
        totals_.assign(x.n_columns, 0);
        for (int64_t r = 0; r < x.n_rows(); ++r)
            for (int64_t k = x.ptr[r]; k < x.ptr[r + 1]; ++k) totals_[x.index[k]] += x.value[k];
        sums.assign(totals_.begin(), totals_.end());
    }

    RowBuffer rows_;
    std::vector<double> totals_;
};

}  // namespace labeltree
