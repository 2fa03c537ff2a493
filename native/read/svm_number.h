// Converts decimal text to the nearest float32. The text must end in a newline, so that no bounds need checking.
#pragma once

#include <bit>
#include <cfloat>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#if !defined(__cpp_lib_to_chars)
#include <cstdlib>
#include <string>

#include <locale.h>
#if defined(__APPLE__)
#include <xlocale.h>
#endif
#endif

namespace labeltree {

inline bool is_digit(char c) { return static_cast<unsigned char>(c - '0') < 10; }

// Appends decimal digits to number and returns where they end. The caller checks how many there were: with more than
// 19 the number has overflowed. Reads eight bytes at a time while the text is long enough, because CPUs mispredict the
// end of a short number most often.
inline const char* parse_digits(const char* p, const char* text_end, uint64_t& number) {
    static constexpr uint64_t powers[] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000};
    if constexpr (std::endian::native == std::endian::little) {
        while (text_end - p >= 8) {
            uint64_t bytes;
            std::memcpy(&bytes, p, 8);
            bytes ^= 0x3030303030303030;  // digits become 0 to 9
            const uint64_t others = (bytes | ((bytes & 0x7f7f7f7f7f7f7f7f) + 0x7676767676767676)) & 0x8080808080808080;
            const int count = others ? std::countr_zero(others) / 8 : 8;
            if (count == 0) return p;
            bytes <<= 8 * (8 - count);  // as if preceded by zeros
            bytes = bytes * 10 + (bytes >> 8);
            bytes = (bytes & 0x000000ff000000ff) * 0x000f424000000064 +
                    (bytes >> 16 & 0x000000ff000000ff) * 0x0000271000000001;
            number = number * powers[count] + (bytes >> 32);
            p += count;
            if (count < 8) return p;
        }
    }
    while (is_digit(*p)) number = number * 10 + static_cast<uint64_t>(*p++ - '0');
    return p;
}

// For what the fast path does not cover: many digits, large exponents, floats at the ends of their range.
inline float nearest_float(const char* digits, const char* end, [[maybe_unused]] int64_t whole,
                           [[maybe_unused]] int64_t exponent) {
#if defined(__cpp_lib_to_chars)
    float value = 0;
    if (std::from_chars(digits, end, value).ec != std::errc::result_out_of_range) return value;
    // from_chars does not report on which side: the place of the first non-zero digit shows it.
    int64_t place = whole + exponent;
    for (const char* p = digits; *p == '0' || *p == '.'; ++p) place -= *p == '0';
    return place > 0 ? std::numeric_limits<float>::infinity() : 0.0f;
#else  // the standard library of macOS has no from_chars for floats
    static const locale_t plain = newlocale(LC_ALL_MASK, "C", nullptr);
    return strtof_l(std::string(digits, end).c_str(), nullptr, plain);
#endif
}

// Reads [+-]digits[.digits][e[+-]digits]. Returns where the number ends, or nullptr if there is none.
// A number that is too large for a float32 becomes infinity, one that is too small becomes 0.
inline const char* parse_float(const char* p, const char* text_end, float& value) {
    static constexpr double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                        1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    const bool negative = *p == '-';
    p += negative || *p == '+';
    const char* const digits = p;
    uint64_t mantissa = 0;
    while (is_digit(*p)) mantissa = mantissa * 10 + static_cast<uint64_t>(*p++ - '0');  // usually one digit
    const int64_t whole = p - digits;
    int64_t fraction = 0, written = 0;
    if (*p == '.') {
        const char* const after = p + 1;
        p = parse_digits(after, text_end, mantissa);
        fraction = p - after;
    }
    if (whole + fraction == 0) return nullptr;
    if (*p == 'e' || *p == 'E') {
        ++p;
        const bool down = *p == '-';
        p += down || *p == '+';
        if (!is_digit(*p)) return nullptr;
        for (; is_digit(*p); ++p)
            if (written < 100'000'000) written = written * 10 + (*p - '0');
        if (down) written = -written;
    }
    const int64_t exponent = written - fraction;
    // A whole number up to 2^53 and a power of ten up to 22 are exact doubles: one operation rounds once.
    if (whole + fraction <= 19 && mantissa <= (uint64_t{1} << 53) && exponent >= -22 && exponent <= 22) {
        const auto exact = static_cast<double>(static_cast<int64_t>(mantissa));  // signed: one instruction
        const double wide = exponent < 0 ? exact / powers[-exponent] : exact * powers[exponent];
        uint64_t bits;
        std::memcpy(&bits, &wide, sizeof(bits));
        // A double midway between two floats may come from text on either side of it: that needs the text.
        const bool midway = (bits & 0x1fffffff) == 0x10000000;
        if (!midway && (mantissa == 0 || (wide >= FLT_MIN && wide <= FLT_MAX))) {
            value = static_cast<float>(negative ? -wide : wide);
            return p;
        }
    }
    value = nearest_float(digits, p, whole, written);
    if (negative) value = -value;
    return p;
}

}  // namespace labeltree
