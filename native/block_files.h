// The two large files of a tree, features and weights, which blocks are written to as they are trained.
#pragma once

#include <cerrno>
#include <span>
#include <system_error>
#include <vector>

#include <unistd.h>

#include "checksum.h"
#include "parallel.h"
#include "views.h"

namespace labeltree {

// An array in a file: its descriptor, and the bytes before the first element.
struct ArrayFile {
    int descriptor;
    int64_t start;

    // Elements are of four bytes; `position` counts them.
    template <class T>
    void write(std::span<T> values, int64_t position) const {
        static_assert(sizeof(T) == 4);
        const auto* from = reinterpret_cast<const char*>(values.data());
        size_t left = values.size_bytes();
        for (int64_t at = start + position * 4; left;) {
            const ssize_t n_written = ::pwrite(descriptor, from, left, at);
            if (n_written < 0 && errno == EINTR) continue;
            if (n_written < 0) throw std::system_error(errno, std::generic_category(), "writing the model");
            from += n_written;
            at += n_written;
            left -= static_cast<size_t>(n_written);
        }
    }

    uint32_t checksum(int64_t first, int64_t last, uint32_t before, const Cancel& cancel) const {
        std::vector<char> piece(1 << 20);
        int64_t at = start + first * 4;
        for (const int64_t end = start + last * 4; at < end && !cancel;) {
            const ssize_t n_read = ::pread(descriptor, piece.data(), std::min(end - at, std::ssize(piece)), at);
            if (n_read < 0 && errno == EINTR) continue;
            if (n_read <= 0)
                throw std::system_error(n_read < 0 ? errno : EIO, std::generic_category(), "reading the model back");
            before = crc32c(piece.data(), static_cast<size_t>(n_read), before);
            at += n_read;
        }
        return before;
    }
};

// The place of each node's block according to the plan.
struct BlockFiles {
    std::span<const int64_t> feature_ptr, weight_ptr;
    ArrayFile features, weights;

    int64_t n_features(int64_t node) const { return feature_ptr[node + 1] - feature_ptr[node]; }
    uint32_t checksum(int64_t node, const Cancel& cancel) const {
        const uint32_t crc = features.checksum(feature_ptr[node], feature_ptr[node + 1], 0, cancel);
        return weights.checksum(weight_ptr[node], weight_ptr[node + 1], crc, cancel);
    }
};

}  // namespace labeltree
