// Splits documents into terms as scikit-learn's TfidfVectorizer does: the same terms, in the same order.
//
// Letters, whitespace and lowercase are those of Python, by the functions that `re` and `str` use themselves. They
// read constant tables, so that the GIL is not needed.
#pragma once

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "common/binding.h"
#include "read/utf8.h"
#include "text/vocabulary.h"

namespace labeltree {

enum class Unit { word, character, character_in_word };
constexpr Choices<Unit, 3> units{
    {{"word", Unit::word}, {"char", Unit::character}, {"char_wb", Unit::character_in_word}}};

// How to split, the same for all documents.
struct Analysis {
    Unit unit = Unit::word;
    int64_t shortest = 1, longest = 1;  // words or characters in a term
    bool lowercase = true;
    Vocabulary stop_words;
};

// The UTF-8 of a Python string; an unpaired surrogate becomes three bytes. Needs the GIL.
inline std::string to_utf8(nb::handle text) {
    if (PyUnicode_Check(text.ptr()) && PyUnicode_IS_COMPACT_ASCII(text.ptr()))
        return {reinterpret_cast<const char*>(PyUnicode_1BYTE_DATA(text.ptr())),
                static_cast<size_t>(PyUnicode_GET_LENGTH(text.ptr()))};
    const auto bytes = nb::steal<nb::bytes>(PyUnicode_AsEncodedString(text.ptr(), "utf-8", "surrogatepass"));
    if (!bytes.is_valid()) throw nb::python_error();
    return {bytes.c_str(), bytes.size()};
}

// The reverse. Needs the GIL.
inline nb::str to_str(std::string_view text) {
    const auto size = static_cast<Py_ssize_t>(text.size());
    auto made = nb::steal<nb::str>(PyUnicode_DecodeUTF8(text.data(), size, "surrogatepass"));
    if (!made.is_valid()) throw nb::python_error();
    return made;
}

inline bool is_space(int32_t point) { return point >= 0 && Py_UNICODE_ISSPACE(static_cast<Py_UCS4>(point)); }

// Decodes a character and moves behind it; an invalid byte counts as one character that is neither letter nor space.
inline int32_t next_character(const char*& p, const char* end) {
    const int32_t point = decode_utf8(p, end);
    if (point < 0) ++p;
    return point;
}

// Adds what str.split() returns: the parts between whitespace.
inline void split_words(std::string_view text, std::vector<std::string_view>& words) {
    const char* p = text.data();
    for (const char* const end = p + text.size(); p < end;) {
        const char* const from = p;
        const char* behind = p;
        for (; p < end && !is_space(next_character(behind, end)); p = behind) continue;
        if (p > from) words.emplace_back(from, p - from);
        p = behind;
    }
}

// Splits one document after the other, with memory of its own.
class Splitter {
  public:
    // Calls found(term) for each term of a document in UTF-8.
    template <class Found>
    void split(const Analysis& analysis, std::string_view document, Found&& found) {
        const std::string_view text = analysis.lowercase ? lower(document) : document;
        switch (analysis.unit) {
            case Unit::word: return words(analysis, text, found);
            case Unit::character: return characters(analysis, text, found);
            case Unit::character_in_word: return characters_in_words(analysis, text, found);
        }
    }

  private:
    std::string lowered_, buffer_;
    std::vector<std::string_view> parts_;
    std::vector<int64_t> starts_, ends_;  // of words or characters in the buffer

    static bool is_word(int32_t point) {
        return point == '_' || (point >= 0 && Py_UNICODE_ISALNUM(static_cast<Py_UCS4>(point)));
    }

    static constexpr auto ascii_words = [] {
        std::array<bool, 256> table{};
        for (int c = 0; c < 128; ++c)
            table[c] = c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        return table;
    }();

    std::string_view lower(std::string_view text) {
        if (is_ascii(text)) {
            lowered_.resize(text.size());
            std::transform(text.begin(), text.end(), lowered_.begin(),
                           [](char c) { return static_cast<char>(c >= 'A' && c <= 'Z' ? c | 0x20 : c); });
            return lowered_;
        }
        lowered_.clear();
        const char* p = text.data();
        for (const char* const end = p + text.size(); p < end;) {
            const char* const from = p;
            const int32_t point = next_character(p, end);
            if (point == 0x130 || point == 0x3a3) return lower_in_python(text);
            if (point < 0)
                lowered_.push_back(*from);
            else
                append_utf8(lowered_, static_cast<int32_t>(Py_UNICODE_TOLOWER(static_cast<Py_UCS4>(point))));
        }
        return lowered_;
    }

    // For the only characters that do not become one character each, whatever surrounds them: I with a dot above
    // becomes two, and a capital sigma looks different at the end of a word.
    std::string_view lower_in_python(std::string_view text) {
        const nb::gil_scoped_acquire gil;
        lowered_ = to_utf8(to_str(text).attr("lower")());
        return lowered_;
    }

    // Two or more letters, digits or underscores: \b\w\w+\b.
    template <class Found>
    void words(const Analysis& analysis, std::string_view text, Found&& found) {
        const bool single = analysis.longest == 1, ignores = analysis.stop_words.size() > 0;
        buffer_.clear(), starts_.clear(), ends_.clear();
        const char* p = text.data();
        for (const char* const end = p + text.size(); p < end;) {
            const char* const from = p;
            int64_t more = 0;  // bytes behind the first of each character
            while (p < end) {
                while (p < end && ascii_words[static_cast<unsigned char>(*p)]) ++p;
                if (p == end || static_cast<signed char>(*p) >= 0) break;
                const char* behind = p;
                if (!is_word(next_character(behind, end))) break;
                more += behind - p - 1;
                p = behind;
            }
            const std::string_view word(from, p - from);
            if (p < end) next_character(p, end);
            if (std::ssize(word) - more < 2 || (ignores && analysis.stop_words.find(word) >= 0)) continue;
            if (single) {
                found(word);
                continue;
            }
            if (!buffer_.empty()) buffer_.push_back(' ');
            starts_.push_back(std::ssize(buffer_));
            buffer_.append(word);
            ends_.push_back(std::ssize(buffer_));
        }
        if (!single) runs(analysis.shortest, analysis.longest, found);
    }

    template <class Found>
    void characters(const Analysis& analysis, std::string_view text, Found&& found) {
        buffer_.clear(), starts_.clear(), ends_.clear();
        const char* p = text.data();
        for (const char* const end = p + text.size(); p < end;) {
            const char *const from = p, *first_end = nullptr;
            int64_t n_spaces = 0;
            for (const char* behind = p; p < end && is_space(next_character(behind, end)); p = behind)
                if (!n_spaces++) first_end = behind;
            if (n_spaces > 1) {
                add_character(" ");
            } else {
                if (!n_spaces) next_character(p, end), first_end = p;
                add_character({from, static_cast<size_t>(first_end - from)});
            }
        }
        runs(analysis.shortest, analysis.longest, found);
    }

    template <class Found>
    void characters_in_words(const Analysis& analysis, std::string_view text, Found&& found) {
        parts_.clear();
        split_words(text, parts_);
        for (const std::string_view word : parts_) {
            buffer_.clear(), starts_.clear(), ends_.clear();
            add_character(" ");
            const char* p = word.data();
            for (const char* const end = p + word.size(); p < end;) {
                const char* const from = p;
                next_character(p, end);
                add_character({from, static_cast<size_t>(p - from)});
            }
            add_character(" ");
            // A word shorter than the minimum is one term.
            runs(std::min(analysis.shortest, std::ssize(starts_)), analysis.longest, found);
        }
    }

    void add_character(std::string_view bytes) {
        starts_.push_back(std::ssize(buffer_));
        buffer_.append(bytes);
        ends_.push_back(std::ssize(buffer_));
    }

    // Calls found for the runs of words or characters in the buffer, shorter ones first.
    template <class Found>
    void runs(int64_t shortest, int64_t longest, Found&& found) {
        const int64_t n_parts = std::ssize(starts_);
        for (int64_t n = shortest; n <= std::min(longest, n_parts); ++n)
            for (int64_t i = 0; i + n <= n_parts; ++i)
                found(std::string_view(buffer_.data() + starts_[i], ends_[i + n - 1] - starts_[i]));
    }
};

}  // namespace labeltree
