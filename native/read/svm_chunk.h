// Parses a chunk of whole lines of LIBSVM text into arrays of its own, on one thread of the reader.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "read/svm_number.h"
#include "read/utf8.h"

namespace labeltree {

constexpr int32_t largest_index = INT32_MAX - 1;  // so that the number of columns fits an int32, too

// What the file, its header and the caller allow.
struct SvmLimits {
    int64_t lowest = 0, highest = largest_index;  // features, as written in the file
    int64_t n_labels = INT32_MAX;                 // label numbers must be lower
};

// The first invalid line, and the text on it that is invalid. what == nullptr: none.
struct SvmFault {
    const char* what = nullptr;
    int64_t line = 0;
    std::string text;
};

inline bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }
inline bool ends_token(char c) { return is_blank(c) || c == '\n' || c == '#'; }

inline const char* token_end(const char* p) {
    while (!ends_token(*p)) ++p;
    return p;
}

// A whole number in plain decimal digits (no sign, no leading zeros) up to largest_index; -1 for anything else.
// Only these are label numbers, so that each has one spelling and its name can be recovered.
inline int64_t plain_number(const char* p, const char* end) {
    if (p == end || end - p > 10 || (*p == '0' && end - p > 1)) return -1;
    int64_t number = 0;
    for (; p < end; ++p) {
        if (!is_digit(*p)) return -1;
        number = number * 10 + (*p - '0');
    }
    return number <= largest_index ? number : -1;
}

// True for UTF-8 without control characters, false for binary data.
inline bool is_text(std::string_view bytes) {
    const auto is_control = [](unsigned char c) { return c < 0x20 || c == 0x7f; };
    return is_utf8(bytes) && std::none_of(bytes.begin(), bytes.end(), is_control);
}

class SvmChunk {
  public:
    std::unique_ptr<int32_t[]> indices;  // space for the most features that the text can have
    std::unique_ptr<float[]> values;
    int64_t n_entries = 0;                         // entries in both
    std::vector<int32_t> labels;                   // label numbers, or ~i for names[i]; in the order of the file
    std::vector<int32_t> row_entries, row_labels;  // how many each row has
    std::vector<std::string_view> names;           // in order of first appearance; views of the text
    int64_t n_lines = 0, n_blank_rows = 0;         // n_blank_rows: rows at the end that are blank lines
    int64_t max_index = -1, max_label = -1;
    bool index_zero = false;
    SvmFault fault, label_fault;  // label_fault matters only if all labels are numbers

    // [p, end) holds whole lines: the last character is a newline.
    void parse(const char* p, const char* end, const SvmLimits& limits) {
        clear();
        text_end_ = end;
        reserve((end - p) / 4 + 1);  // the shortest is "1:1 "
        while (p < end && !fault.what) {
            ++n_lines;
            p = parse_line(p, limits);
        }
    }

  private:
    int64_t capacity_ = 0;
    const char* text_end_ = nullptr;
    std::unordered_map<std::string_view, int32_t> ids_;
    std::vector<std::pair<int32_t, float>> unsorted_;

    void clear() {
        n_entries = n_lines = n_blank_rows = 0;
        max_index = max_label = -1;
        index_zero = false;
        labels.clear(), row_entries.clear(), row_labels.clear(), names.clear(), ids_.clear();
        fault = label_fault = {};
    }

    void reserve(int64_t wanted) {
        if (wanted <= capacity_) return;
        indices.reset(new int32_t[wanted]);
        values.reset(new float[wanted]);
        capacity_ = wanted;
    }

    const char* fail(const char* what, const char* from, const char* to) {
        const std::string_view text(from, to - from);
        fault = {is_text(text) ? what : "binary", n_lines, std::string(text.substr(0, 80))};
        return nullptr;
    }

    // Returns the start of the next line, or nullptr after a fault.
    const char* parse_line(const char* p, const SvmLimits& limits) {
        while (is_blank(*p)) ++p;
        if (*p == '#') return line_end(p) + 1;  // a line with only a comment is not an instance
        const auto labels_before = static_cast<int64_t>(labels.size());
        const int64_t entries_before = n_entries;
        if (*p == '\n') {
            ++n_blank_rows;
        } else {
            n_blank_rows = 0;
            const char* const end = token_end(p);
            if (!std::memchr(p, ':', end - p) && !(p = parse_labels(p, end, limits))) return nullptr;
            if (!(p = parse_features(p, limits))) return nullptr;
        }
        row_labels.push_back(static_cast<int32_t>(labels.size() - labels_before));
        row_entries.push_back(static_cast<int32_t>(n_entries - entries_before));
        return line_end(p) + 1;
    }

    static const char* line_end(const char* p) {
        while (*p != '\n') ++p;
        return p;
    }

    const char* parse_labels(const char* p, const char* end, const SvmLimits& limits) {
        for (const char* from = p;; from = p + 1) {
            p = std::find(from, end, ',');
            if (p == from) return fail("empty label", from == end ? from - 1 : from, end);
            const int64_t number = plain_number(from, p);
            if (number < 0) {
                const std::string_view name(from, p - from);
                const auto [entry, is_new] = ids_.try_emplace(name, static_cast<int32_t>(names.size()));
                if (is_new) {
                    if (!is_text(name)) return fail("binary", from, p);
                    names.push_back(name);
                }
                labels.push_back(~entry->second);
            } else {
                if (number >= limits.n_labels && !label_fault.what)
                    label_fault = {"label beyond", n_lines, std::string(from, p)};
                max_label = std::max(max_label, number);
                labels.push_back(static_cast<int32_t>(number));
            }
            if (p == end) return end;
        }
    }

    const char* parse_features(const char* p, const SvmLimits& limits) {
        const int64_t first = n_entries;
        int64_t last = -1, at = n_entries;
        bool sorted = true, zeros = false;
        while (true) {
            while (is_blank(*p)) ++p;
            if (*p == '\n' || *p == '#') break;
            const char* const token = p;
            uint64_t number = 0;
            p = parse_digits(p, text_end_, number);
            if (p == token || *p != ':' || p - token > 19 || number > largest_index) return bad_index(token);
            const auto index = static_cast<int64_t>(number);
            if (index < limits.lowest) return fail("index zero", token, token_end(p));
            if (index > limits.highest) return fail("index beyond", token, token_end(p));
            float value;
            if (!(p = parse_float(p + 1, text_end_, value)) || !ends_token(*p)) return bad_value(token);
            if (!std::isfinite(value)) return fail("not finite", token, p);
            sorted &= index > last;
            zeros |= value == 0;
            last = index;
            max_index = std::max(max_index, index);
            index_zero |= index == 0;
            indices[at] = static_cast<int32_t>(index);
            values[at++] = value;
        }
        n_entries = at;
        if (!sorted && !sort_row(first)) return nullptr;
        if (zeros) drop_zeros(first);
        return p;
    }

    const char* bad_index(const char* token) {
        const char* const end = token_end(token);
        const char* const colon = std::find(token, end, ':');
        if (colon == end) return fail("no colon", token, end);
        const bool minus = *token == '-';
        const bool whole = colon > token + minus && std::all_of(token + minus, colon, is_digit);
        return fail(!whole ? "index" : minus ? "index negative" : "index huge", token, end);
    }

    const char* bad_value(const char* token) {
        const char* const end = token_end(token);
        const char* from = std::find(token, end, ':') + 1;
        if (from == end) return fail("no value", token, end);
        std::string word(from + (*from == '-' || *from == '+'), end);
        for (char& c : word) c |= 0x20;
        const bool special = word == "nan" || word == "inf" || word == "infinity";
        return fail(special ? "not finite" : "value", token, end);
    }

    bool sort_row(int64_t first) {
        unsorted_.clear();
        for (int64_t i = first; i < n_entries; ++i) unsorted_.emplace_back(indices[i], values[i]);
        std::sort(unsorted_.begin(), unsorted_.end(), [](auto& a, auto& b) { return a.first < b.first; });
        for (size_t k = 0; k < unsorted_.size(); ++k) {
            const auto [index, value] = unsorted_[k];
            if (k && index == unsorted_[k - 1].first) {
                const std::string text = std::to_string(index);
                return fail("index twice", text.data(), text.data() + text.size());
            }
            indices[first + k] = index;
            values[first + k] = value;
        }
        return true;
    }

    void drop_zeros(int64_t first) {
        int64_t kept = first;
        for (int64_t i = first; i < n_entries; ++i) {
            if (values[i] == 0) continue;
            indices[kept] = indices[i];
            values[kept++] = values[i];
        }
        n_entries = kept;
    }
};

}  // namespace labeltree
