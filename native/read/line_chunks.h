// Cuts the pieces of a file into chunks of whole lines, to be parsed in parallel.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/views.h"

namespace labeltree {

constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";

class LineChunks {
  public:
    explicit LineChunks(int64_t chunk_bytes) : chunk_bytes_(chunk_bytes) {}

    // Returns the whole lines of the piece, each with its newline, and keeps the rest for the next one.
    // The last line of the file gets a newline if it has none. The views are valid until the next call.
    std::vector<std::string_view> split(std::string_view piece, bool last) {
        std::vector<std::string_view> chunks;
        joined_.clear();
        const size_t first_newline = piece.find('\n');
        if (first_newline == std::string_view::npos) {
            rest_.append(piece);
        } else {
            const char* from = piece.data();
            if (!rest_.empty()) {
                from += first_newline + 1;
                rest_.append(piece.data(), from);
                joined_.swap(rest_);
                chunks.emplace_back(joined_);
            }
            const char* const stop = piece.data() + piece.rfind('\n') + 1;
            while (from < stop) {
                const char* cut = stop - from <= chunk_bytes_ ? stop : from + chunk_bytes_;
                while (cut[-1] != '\n') ++cut;
                chunks.emplace_back(from, cut - from);
                from = cut;
            }
            rest_.assign(stop, piece.data() + piece.size());
        }
        if (last && !rest_.empty()) {
            rest_.push_back('\n');
            chunks.emplace_back(rest_);
        }
        return chunks;
    }

  private:
    const int64_t chunk_bytes_;
    std::string rest_, joined_;  // the line that began in the previous piece; the same with its end
};

}  // namespace labeltree
