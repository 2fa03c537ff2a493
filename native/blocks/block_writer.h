// Writes blocks to the two large files of a tree, in any order, and records what the small files need to know.
//
// The place of a dense block is known from the plan. A sparse block is written where it would begin if no weight were
// pruned; the holes in between take no disk space, and the blocks are moved next to each other later.
#pragma once

#include <cerrno>
#include <span>
#include <system_error>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include "blocks/blocks.h"
#include "blocks/checksum.h"
#include "common/parallel.h"

namespace labeltree {

// An array in a file: its descriptor, and the bytes before the first element.
struct ArrayFile {
    int descriptor;
    int64_t start;

    void write(const void* values, int64_t n_bytes, int64_t position) const {
        const auto* from = static_cast<const char*>(values);
        for (int64_t at = start + position; n_bytes > 0;) {
            const ssize_t n_written = ::pwrite(descriptor, from, static_cast<size_t>(n_bytes), at);
            if (n_written < 0 && errno == EINTR) continue;
            if (n_written < 0) throw std::system_error(errno, std::generic_category(), "writing the model");
            from += n_written;
            at += n_written;
            n_bytes -= n_written;
        }
    }

    // Frees the disk space of a range that is not needed any more, if the file system can.
    void release([[maybe_unused]] int64_t first, [[maybe_unused]] int64_t last) const {
#ifdef FALLOC_FL_PUNCH_HOLE
        constexpr int mode = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
        if (first < last) [[maybe_unused]]
            const int failed = ::fallocate(descriptor, mode, start + first, last - first);
#endif
    }
};

// What was written; per block unless noted.
struct Written {
    std::vector<uint32_t> checksums;    // of its features, then its weights; 0 if dense and written in strips
    std::vector<int64_t> segment_rows;  // rows of each segment of each block
    std::vector<int64_t> n_bytes;       // of its weights
    std::vector<int64_t> n_nonzeros;    // without the bias
    std::vector<float> scales, biases;  // of each child of the tree, if scaled
};

class BlockWriter {
  public:
    // The pointers are those of the plan: features and weights of each block, in elements of the two files.
    BlockWriter(const TreeShape& tree, Codec codec, float threshold, int64_t n_features,
                std::span<const int64_t> feature_ptr, std::span<const int64_t> weight_ptr, ArrayFile features,
                ArrayFile weights)
        : tree_(tree), codec_(codec), threshold_(threshold),
          n_segments_(codec == Codec::sparse ? n_segments(n_features) : 1), feature_ptr_(feature_ptr),
          weight_ptr_(weight_ptr), features_(features), weights_(weights), block_ptr_(first_blocks(tree, codec)) {
        const int64_t n_blocks = block_ptr_.back();
        require(std::ssize(feature_ptr) == n_blocks + 1 && std::ssize(weight_ptr) == n_blocks + 1,
                "feature_ptr and weight_ptr must have one entry per block, and one more");
        written.checksums.assign(n_blocks, 0);
        written.segment_rows.assign(n_blocks * n_segments_, 0);
        written.n_bytes.assign(n_blocks, 0);
        written.n_nonzeros.assign(n_blocks, 0);
        if (is_scaled(codec)) {
            written.scales.assign(tree.children.size(), 0);
            written.biases.assign(tree.children.size(), 0);
        }
    }

    Codec codec() const { return codec_; }
    float threshold() const { return threshold_; }
    int64_t weight_bytes() const { return labeltree::weight_bytes(codec_); }
    // The features of a node, by the plan.
    int64_t n_features(int64_t node) const {
        return feature_ptr_[block_ptr_[node] + 1] - feature_ptr_[block_ptr_[node]];
    }
    int64_t n_weights(int64_t block) const { return weight_ptr_[block + 1] - weight_ptr_[block]; }

    // Writes the rows of `n_children` consecutive children of a node, as they are stored: rows(first, last) returns
    // those of features first to last - 1, next to each other.
    template <class Rows>
    void write_dense(int64_t node, std::span<const int32_t> features, Rows&& rows, int64_t first_child,
                     int64_t n_children) {
        if (std::ssize(features) != n_features(node))
            throw std::invalid_argument("the plan was made for other data: a node's used features differ");
        const int64_t width = tree_.n_children(node), row_bytes = n_children * weight_bytes();
        const int64_t n_rows = std::ssize(features), position = weight_ptr_[node] * weight_bytes();
        if (first_child == 0) {
            features_.write(features.data(), std::ssize(features) * 4, feature_ptr_[node] * 4);
            written.segment_rows[node] = n_rows;
            written.n_bytes[node] = n_rows * width * weight_bytes();
        }
        uint32_t checksum = crc32c(features);
        for_each_chunk(n_rows, row_bytes, [&](int64_t first, int64_t last) {
            const uint8_t* const chunk = rows(first, last);
            if (n_children == width) {
                checksum = crc32c(chunk, static_cast<size_t>((last - first) * row_bytes), checksum);
                weights_.write(chunk, (last - first) * row_bytes, position + first * row_bytes);
                return;
            }
            for (int64_t f = first; f < last; ++f)
                weights_.write(chunk + (f - first) * row_bytes, row_bytes,
                               position + (f * width + first_child) * weight_bytes());
        });
        if (n_children == width) written.checksums[node] = checksum;
    }

    // Encodes and writes the rows of one block of a node, whose first child is a multiple of block_children.
    template <class Rows>
    void write_sparse(int64_t node, std::span<const int32_t> features, Rows&& rows, int64_t first_child,
                      int64_t n_children) {
        if (std::ssize(features) != n_features(node))
            throw std::invalid_argument("the plan was made for other data: a node's used features differ");
        const int64_t number = block_ptr_[node] + first_child / block_children;
        SparseEncoder encoder(n_children);
        for_each_chunk(std::ssize(features), n_children, [&](int64_t first, int64_t last) {
            const auto* const chunk = reinterpret_cast<const int8_t*>(rows(first, last));
            for (int64_t f = first; f < last; ++f) encoder.add(features[f], chunk + (f - first) * n_children);
        });
        std::vector<uint16_t> ids;
        for (const int32_t feature : encoder.features) {
            ids.push_back(static_cast<uint16_t>(feature));
            ++written.segment_rows[number * n_segments_ + (feature >> 16)];
        }
        const std::vector<uint8_t> block = encoder.block();
        features_.write(ids.data(), std::ssize(ids) * 2, feature_ptr_[number] * 2);
        weights_.write(block.data(), std::ssize(block), weight_ptr_[number]);
        written.n_bytes[number] = std::ssize(block);
        written.n_nonzeros[number] = encoder.n_nonzeros;
        written.checksums[number] = crc32c(std::span(block), crc32c(std::span(ids)));
    }

    // What the small files need to know about consecutive children of a node, once they are written: checksum, bytes
    // and non-zeros of the block and the rows of its segments as int64, then scales and biases as float32. A dense
    // block that is written in pieces is recorded with the first; its checksum is not known.
    void record(int64_t node, int64_t first_child, int64_t n_children, std::vector<uint8_t>& to) const {
        const bool sparse = codec_ == Codec::sparse, recorded = sparse || first_child == 0;
        const int64_t block = block_ptr_[node] + (sparse ? first_child / block_children : 0);
        append(to, int64_t{recorded ? written.checksums[block] : 0});
        append(to, recorded ? written.n_bytes[block] : 0);
        append(to, recorded ? written.n_nonzeros[block] : 0);
        for (int64_t s = 0; s < n_segments_; ++s)
            append(to, recorded ? written.segment_rows[block * n_segments_ + s] : 0);
        if (!is_scaled(codec_)) return;
        const int64_t first = tree_.child_ptr[node] + first_child;
        for (const auto* values : {&written.scales, &written.biases})
            for (int64_t c = first; c < first + n_children; ++c) append(to, (*values)[c]);
    }

    template <class T>
    static void append(std::vector<uint8_t>& to, T value) {
        const auto* bytes = reinterpret_cast<const uint8_t*>(&value);
        to.insert(to.end(), bytes, bytes + sizeof value);
    }

    Written written;

  private:
    // Calls visit(first, last) for ranges of rows that fit into a cache, in order.
    template <class Visit>
    static void for_each_chunk(int64_t n_rows, int64_t row_bytes, Visit&& visit) {
        constexpr int64_t chunk_bytes = 256 << 10;
        const int64_t step = std::max<int64_t>(1, chunk_bytes / std::max<int64_t>(1, row_bytes));
        for (int64_t first = 0; first < n_rows; first += step) visit(first, std::min(n_rows, first + step));
    }

    const TreeShape tree_;
    const Codec codec_;
    const float threshold_;
    const int64_t n_segments_;
    const std::span<const int64_t> feature_ptr_, weight_ptr_;
    const ArrayFile features_, weights_;
    const std::vector<int64_t> block_ptr_;  // the first block of each node
};

}  // namespace labeltree
