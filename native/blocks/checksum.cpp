// CRC-32C (Castagnoli), which protects the files and blocks of a model.
#include "blocks/checksum.h"

#include <array>

#include "blocks/stored.h"
#include "common/simd.h"

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace labeltree {
namespace {

// Reflected polynomial; table[k] advances a byte that is k places before the end of an eight-byte word.
constexpr std::array<std::array<uint32_t, 256>, 8> make_tables() {
    std::array<std::array<uint32_t, 256>, 8> table{};
    for (uint32_t byte = 0; byte < 256; ++byte) {
        uint32_t crc = byte;
        for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (crc & 1 ? 0x82F63B78u : 0u);
        table[0][byte] = crc;
    }
    for (int k = 1; k < 8; ++k)
        for (int byte = 0; byte < 256; ++byte)
            table[k][byte] = (table[k - 1][byte] >> 8) ^ table[0][table[k - 1][byte] & 0xff];
    return table;
}
constexpr auto tables = make_tables();

uint32_t portable(uint32_t crc, const unsigned char* p, size_t n) {
    for (; n >= 8; p += 8, n -= 8) {
        crc ^= p[0] | p[1] << 8 | p[2] << 16 | static_cast<uint32_t>(p[3]) << 24;
        crc = tables[7][crc & 0xff] ^ tables[6][crc >> 8 & 0xff] ^ tables[5][crc >> 16 & 0xff] ^ tables[4][crc >> 24] ^
              tables[3][p[4]] ^ tables[2][p[5]] ^ tables[1][p[6]] ^ tables[0][p[7]];
    }
    for (; n; ++p, --n) crc = (crc >> 8) ^ tables[0][(crc ^ *p) & 0xff];
    return crc;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) uint32_t hardware(uint32_t crc, const unsigned char* p, size_t n) {
    uint64_t wide = crc;
    for (; n >= 8; p += 8, n -= 8) {
        uint64_t word;
        std::memcpy(&word, p, 8);
        wide = _mm_crc32_u64(wide, word);
    }
    crc = static_cast<uint32_t>(wide);
    for (; n; ++p, --n) crc = _mm_crc32_u8(crc, *p);
    return crc;
}
#endif

}  // namespace

uint32_t crc32c(const void* bytes, size_t n_bytes, uint32_t before) {
    const auto* p = static_cast<const unsigned char*>(bytes);
#if defined(__x86_64__)
    if (use_avx2()) return ~hardware(~before, p, n_bytes);  // every CPU with AVX2 has SSE4.2
#endif
    return ~portable(~before, p, n_bytes);
}

namespace {

// The parts of a file that belong to one block each: pointers in elements, and the bytes of an element.
struct Pieces {
    std::span<const int64_t> ptr;
    std::span<const uint8_t> bytes;
    int64_t element_bytes;

    std::span<const uint8_t> of(int64_t block) const {
        return slice(bytes, ptr[block] * element_bytes, ptr[block + 1] * element_bytes);
    }
};

// What dense blocks may contain. Sparse blocks are checked in sparse_check.cpp.
struct Expected {
    Codec codec;
    int64_t n_features;
    bool has_bias;
};

bool all_finite(std::span<const uint8_t> weights, Codec codec) {
    const auto none_is = [&]<class Bits>(Bits exponent) {
        const std::span bits(reinterpret_cast<const Bits*>(weights.data()), weights.size() / sizeof(Bits));
        bool special = false;  // no early exit, so that the loop is vectorised
        for (const Bits weight : bits) special |= (weight & exponent) == exponent;
        return !special;
    };
    if (codec == Codec::float32) return none_is(uint32_t{0x7f800000});
    if (codec == Codec::float16) return none_is(uint16_t{0x7c00});
    return true;
}

// What is wrong with the features of a dense block; empty if nothing is.
std::string_view list_fault(std::span<const uint8_t> bytes, const Expected& expected) {
    std::span ids(reinterpret_cast<const int32_t*>(bytes.data()), bytes.size() / sizeof(int32_t));
    if (expected.has_bias && !is_scaled(expected.codec)) {
        if (ids.empty() || ids.back() != expected.n_features) return "the weights of the bias are missing";
        ids = ids.first(ids.size() - 1);
    }
    if (ids.empty()) return "";
    bool sorted = ids.front() >= 0 && ids.back() < expected.n_features;
    for (size_t k = 1; k < ids.size(); ++k) sorted &= ids[k] > ids[k - 1];
    return sorted ? "" : "features are out of order or out of range";
}

// The blocks whose features and weights do not match the checksum that is stored with them, and the first dense block
// with contents that no writer stores.
struct Damage {
    std::vector<int64_t> blocks;
    std::optional<std::tuple<int64_t, std::string_view>> fault;
};

Damage find_damage(const Pieces& features, const Pieces& weights, std::span<const uint32_t> checksums,
                   const Expected& expected, int threads, const Cancel& cancel) {
    const int64_t n_blocks = std::ssize(checksums);
    std::vector<char> damaged(n_blocks, 0);
    std::vector<std::string_view> faults(n_blocks);
    parallel_for(n_blocks, threads, [&](int64_t b, int) {
        constexpr int64_t step = 1 << 16;  // stays in cache; and Ctrl-C must not wait for all of a large block
        const auto bytes = weights.of(b);
        uint32_t crc = crc32c(features.of(b));
        bool finite = true;
        for (int64_t w = 0; w < std::ssize(bytes) && !cancel; w += step) {
            const auto part = slice(bytes, w, std::min(w + step, std::ssize(bytes)));
            crc = crc32c(part, crc);
            finite &= all_finite(part, expected.codec);
        }
        damaged[b] = crc != checksums[b];
        if (expected.codec == Codec::sparse) return;
        faults[b] = finite ? list_fault(features.of(b), expected) : "a weight is not finite";
    });
    Damage out;
    for (int64_t b = 0; b < n_blocks; ++b) {
        if (damaged[b]) out.blocks.push_back(b);
        if (!faults[b].empty() && !out.fault) out.fault = {b, faults[b]};
    }
    return out;
}

}  // namespace

void bind_checksum(nb::module_& m) {
    m.def(
        "crc32c",
        [](In<uint8_t> bytes, uint32_t before) {
            nb::gil_scoped_release no_gil;
            return crc32c(span_of(bytes), before);
        },
        "bytes"_a.noconvert(), "before"_a = 0,
        "Return the CRC-32C of a uint8 array, continuing from the checksum of the bytes before it.");
    m.def(
        "damaged_blocks",
        [](std::string_view codec, In<int64_t> feature_ptr, In<uint8_t> features, In<int64_t> weight_ptr,
           In<uint8_t> weights, In<uint32_t> checksums, int64_t n_features, bool has_bias, int threads) {
            require(threads >= 1, "threads must be at least 1");
            const Expected expected{choose(codecs, codec, "codec"), n_features, has_bias};
            const int64_t feature_bytes = expected.codec == Codec::sparse ? sizeof(uint16_t) : sizeof(int32_t);
            const Pieces pieces[2] = {{span_of(feature_ptr), span_of(features), feature_bytes},
                                      {span_of(weight_ptr), span_of(weights), weight_bytes(expected.codec)}};
            Damage found;
            {
                nb::gil_scoped_release no_gil;
                for (const auto& [ptr, bytes, element] : pieces)
                    check_ptr(ptr, bytes.size() / static_cast<size_t>(element), "a pointer array");
                require(feature_ptr.size() == checksums.size() + 1 && weight_ptr.size() == checksums.size() + 1,
                        "feature_ptr and weight_ptr must have one entry per checksum, and one more");
                run_interruptible([&](const Cancel& cancel) {
                    found = find_damage(pieces[0], pieces[1], span_of(checksums), expected, threads, cancel);
                });
            }
            return nb::make_tuple(to_numpy(std::move(found.blocks)), found.fault);
        },
        "codec"_a, nb::kw_only(), "feature_ptr"_a.noconvert(), "features"_a.noconvert(), "weight_ptr"_a.noconvert(),
        "weights"_a.noconvert(), "checksums"_a.noconvert(), "n_features"_a, "has_bias"_a, "threads"_a,
        "Return the blocks that do not match their checksum, and the first dense block with invalid contents and what "
        "is wrong with it, or None; the large files are given as bytes.");
}

}  // namespace labeltree
