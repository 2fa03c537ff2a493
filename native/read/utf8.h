// UTF-8, one code point at a time.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace labeltree {

inline bool is_ascii(std::string_view text) {
    const char* p = text.data();
    const char* const end = p + text.size();
    uint64_t bits = 0;
    for (; end - p >= 8; p += 8) {
        uint64_t word;
        std::memcpy(&word, p, 8);
        bits |= word;
    }
    for (; p < end; ++p) bits |= static_cast<unsigned char>(*p);
    return (bits & 0x8080808080808080) == 0;
}

// The code point at p, which moves behind it; -1, with p unchanged, if the bytes are not UTF-8.
// Surrogates are accepted: strings of Python may hold unpaired ones.
inline int32_t decode_utf8(const char*& p, const char* end) {
    const auto first = static_cast<unsigned char>(*p);
    if (first < 0x80) {
        ++p;
        return first;
    }
    const int more = first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : 1;
    if (first < 0xc2 || first > 0xf4 || end - p <= more) return -1;
    int32_t point = first & (0x3f >> more);
    for (int k = 1; k <= more; ++k) {
        const auto next = static_cast<unsigned char>(p[k]);
        if ((next & 0xc0) != 0x80) return -1;
        point = point << 6 | (next & 0x3f);
    }
    constexpr int32_t shortest[] = {0, 0x80, 0x800, 0x10000};
    if (point < shortest[more] || point > 0x10ffff) return -1;
    p += more + 1;
    return point;
}

inline void append_utf8(std::string& text, int32_t point) {
    const auto tail = [&](int shift) { text.push_back(static_cast<char>(0x80 | (point >> shift & 0x3f))); };
    if (point < 0x80) {
        text.push_back(static_cast<char>(point));
    } else if (point < 0x800) {
        text.push_back(static_cast<char>(0xc0 | point >> 6));
        tail(0);
    } else if (point < 0x10000) {
        text.push_back(static_cast<char>(0xe0 | point >> 12));
        tail(6), tail(0);
    } else {
        text.push_back(static_cast<char>(0xf0 | point >> 18));
        tail(12), tail(6), tail(0);
    }
}

inline bool is_surrogate(int32_t point) { return point >= 0xd800 && point <= 0xdfff; }

// True for UTF-8 as files have it, without surrogates.
inline bool is_utf8(std::string_view text) {
    if (is_ascii(text)) return true;
    const char* p = text.data();
    for (const char* const end = p + text.size(); p < end;) {
        const int32_t point = decode_utf8(p, end);
        if (point < 0 || is_surrogate(point)) return false;
    }
    return true;
}

}  // namespace labeltree
