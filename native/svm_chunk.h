// One chunk of whole lines of LIBSVM text, parsed into arrays of its own: what each thread of the reader does.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "svm_number.h"

namespace labeltree {

constexpr int32_t largest_index = INT32_MAX - 1;  // so that a count of columns fits an int32 as well

// What the file, its header and the caller allow.
struct SvmLimits {
    int64_t lowest = 0, highest = largest_index;  // features, as written in the file
    int64_t labels = INT32_MAX;                   // the first number that is no label
};

// The first line that cannot be used, and the text on it that is to blame. what == nullptr: none.
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
// Only these are label numbers: each then has one spelling, which a label's name can be recovered from.
inline int64_t plain_number(const char* p, const char* end) {
    if (p == end || end - p > 10 || (*p == '0' && end - p > 1)) return -1;
    int64_t number = 0;
    for (; p < end; ++p) {
        if (!is_digit(*p)) return -1;
        number = number * 10 + (*p - '0');
    }
    return number <= largest_index ? number : -1;
}

// UTF-8 without control characters; binary files fail here.
inline bool is_text(std::string_view bytes) {
    const auto* p = reinterpret_cast<const unsigned char*>(bytes.data());
    const auto* const end = p + bytes.size();
    while (p < end) {
        if (*p < 0x80) {
            if (*p < 0x20 || *p == 0x7f) return false;
            ++p;
            continue;
        }
        const int more = *p >= 0xf0 ? 3 : *p >= 0xe0 ? 2 : 1;
        if (*p < 0xc2 || *p > 0xf4 || end - p <= more) return false;
        uint32_t point = *p & (0x3f >> more);
        for (int k = 1; k <= more; ++k) {
            if ((p[k] & 0xc0) != 0x80) return false;
            point = point << 6 | (p[k] & 0x3f);
        }
        constexpr uint32_t shortest[] = {0, 0x80, 0x800, 0x10000};
        if (point < shortest[more] || point > 0x10ffff || (point >= 0xd800 && point <= 0xdfff)) return false;
        p += more + 1;
    }
    return true;
}

class SvmChunk {
  public:
    std::unique_ptr<int32_t[]> indices;  // room for the most features the text can hold; touched as far as used
    std::unique_ptr<float[]> values;
    int64_t features = 0;                     // entries in both
    std::vector<int32_t> labels;              // numbers as they are; ~i for names[i]; in the file's order
    std::vector<int32_t> row_features, row_labels;
    std::vector<std::string_view> names;      // in order of first appearance; they point into the text
    int64_t lines = 0, blank_rows = 0;        // blank_rows: how many of the last rows are blank lines
    int64_t max_index = -1, max_label = -1;
    bool index_zero = false;
    SvmFault fault, label_fault;              // label_fault: only if the labels turn out to be numbers

    // text: whole lines, the last character a newline.
    void parse(const char* p, const char* end, const SvmLimits& limits) {
        clear();
        text_end_ = end;
        reserve((end - p) / 4 + 1);  // "1:1 "
        while (p < end && !fault.what) {
            ++lines;
            p = parse_line(p, limits);
        }
    }

  private:
    int64_t capacity_ = 0;
    const char* text_end_ = nullptr;
    std::unordered_map<std::string_view, int32_t> ids_;
    std::vector<std::pair<int32_t, float>> unsorted_;

    void clear() {
        features = lines = blank_rows = 0;
        max_index = max_label = -1;
        index_zero = false;
        labels.clear(), row_features.clear(), row_labels.clear(), names.clear(), ids_.clear();
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
        fault = {is_text(text) ? what : "binary", lines, std::string(text.substr(0, 80))};
        return nullptr;
    }

    // Returns the start of the next line, or nullptr after a fault.
    const char* parse_line(const char* p, const SvmLimits& limits) {
        while (is_blank(*p)) ++p;
        if (*p == '#') return line_end(p) + 1;  // nothing but a comment: no instance
        const auto labels_before = static_cast<int64_t>(labels.size());
        const int64_t features_before = features;
        if (*p == '\n') {
            ++blank_rows;
        } else {
            blank_rows = 0;
            const char* const end = token_end(p);
            if (!std::memchr(p, ':', end - p) && !(p = parse_labels(p, end, limits))) return nullptr;
            if (!(p = parse_features(p, limits))) return nullptr;
        }
        row_labels.push_back(static_cast<int32_t>(labels.size() - labels_before));
        row_features.push_back(static_cast<int32_t>(features - features_before));
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
                if (number >= limits.labels && !label_fault.what)
                    label_fault = {"label beyond", lines, std::string(from, p)};
                max_label = std::max(max_label, number);
                labels.push_back(static_cast<int32_t>(number));
            }
            if (p == end) return end;
        }
    }

    const char* parse_features(const char* p, const SvmLimits& limits) {
        const int64_t first = features;
        int64_t last = -1, count = features;
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
            indices[count] = static_cast<int32_t>(index);
            values[count++] = value;
        }
        features = count;
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
        for (int64_t i = first; i < features; ++i) unsorted_.emplace_back(indices[i], values[i]);
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
        for (int64_t i = first; i < features; ++i) {
            if (values[i] == 0) continue;
            indices[kept] = indices[i];
            values[kept++] = values[i];
        }
        features = kept;
    }
};

}  // namespace labeltree
