// What Python knows of the blocks of a tree: codecs by name, stored blocks, and files that blocks are written to.
#pragma once

#include "blocks/block_writer.h"
#include "common/binding.h"

namespace labeltree {

constexpr Choices<Codec, 4> codecs{
    {{"float32", Codec::float32}, {"float16", Codec::float16}, {"int8", Codec::int8}, {"sparse", Codec::sparse}}};

// Features are int32 or, if sparse, uint16.
using AnyArray = nb::ndarray<nb::ro, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// _native.TreeBlocks: arrays, perhaps of mapped files. Each kernel that reads them checks them first.
class TreeBlocks {
  public:
    TreeBlocks(std::string_view codec, In<int64_t> child_ptr, In<int32_t> children, In<int64_t> feature_ptr,
               AnyArray features, In<int64_t> weight_ptr, In<uint8_t> weights, In<float> scales, In<float> biases);

    TreeShape shape;
    Blocks blocks;

  private:
    In<int64_t> child_ptr_, feature_ptr_, weight_ptr_;  // these keep the arrays alive
    In<int32_t> children_;
    AnyArray features_;
    In<uint8_t> weights_;
    In<float> scales_, biases_;
};

// _native.BlockFiles: the two large files of a tree, and where its blocks are in them.
class BlockFiles {
  public:
    BlockFiles(std::string_view codec_name, In<int64_t> feature_ptr, In<int64_t> weight_ptr, int feature_file,
               int64_t feature_start, int weight_file, int64_t weight_start)
        : codec(choose(codecs, codec_name, "codec")), features{feature_file, feature_start},
          weights{weight_file, weight_start}, feature_ptr_(std::move(feature_ptr)), weight_ptr_(std::move(weight_ptr)) {
    }

    const Codec codec;
    const ArrayFile features, weights;

    std::span<const int64_t> feature_ptr() const { return span_of(feature_ptr_); }
    std::span<const int64_t> weight_ptr() const { return span_of(weight_ptr_); }
    BlockWriter writer(const TreeShape& tree, float threshold, int64_t n_features) const {
        return {tree, codec, threshold, n_features, feature_ptr(), weight_ptr(), features, weights};
    }

  private:
    In<int64_t> feature_ptr_, weight_ptr_;
};

}  // namespace labeltree
