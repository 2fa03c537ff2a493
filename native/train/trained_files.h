// The blocks of a tree, mapped from the files that they were written to.
#pragma once

#include <sys/stat.h>

#include "blocks/mapped.h"
#include "blocks/stored.h"

namespace labeltree {

class TrainedFiles {
  public:
    TrainedFiles(Blocks given, const ArrayFile& features, const ArrayFile& weights, const TrainingData& data,
                 const TreeShape& tree, int64_t first_node = 0, int64_t last_node = max_count)
        : blocks(std::move(given)), features_(features, checked_bytes(features, blocks.feature_ptr, feature_bytes())),
          weights_(weights, checked_bytes(weights, blocks.weight_ptr, blocks.weight_bytes())) {
        const auto n_features = features_.values.size() / static_cast<size_t>(feature_bytes());
        if (blocks.codec == Codec::sparse)
            blocks.short_features = {reinterpret_cast<const uint16_t*>(features_.values.data()), n_features};
        else
            blocks.features = {reinterpret_cast<const int32_t*>(features_.values.data()), n_features};
        blocks.bytes = weights_.values;
        blocks.check(tree, data.n_features(), first_node, last_node);
    }

    // Call this after reading this many bytes.
    void done_with(size_t n_feature_bytes, size_t n_weight_bytes) const {
        features_.done_with(n_feature_bytes);
        weights_.done_with(n_weight_bytes);
    }

    Blocks blocks;

  private:
    int64_t feature_bytes() const { return blocks.codec == Codec::sparse ? 2 : 4; }

    static int64_t checked_bytes(const ArrayFile& file, std::span<const int64_t> ptr, int64_t element_bytes) {
        require(!ptr.empty() && ptr.back() >= 0, "feature_ptr and weight_ptr must not be empty");
        struct stat status;
        if (::fstat(file.descriptor, &status) != 0)
            throw std::system_error(errno, std::generic_category(), "reading the model back");
        require(file.start >= 0 && status.st_size >= file.start + element_bytes * ptr.back(),
                "a file is shorter than its blocks");
        return element_bytes * ptr.back();
    }

    mutable MappedArray<uint8_t> features_, weights_;
};

}  // namespace labeltree
