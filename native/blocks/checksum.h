// CRC-32C, shared by the code that writes blocks (block_files.h) and the code that checks them (checksum.cpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace labeltree {

// The checksum of these bytes, continuing from that of the bytes before them (0 at the start).
uint32_t crc32c(const void* bytes, size_t n_bytes, uint32_t before = 0);

template <class T>
uint32_t crc32c(std::span<T> array, uint32_t before = 0) {
    return crc32c(array.data(), array.size_bytes(), before);
}

}  // namespace labeltree
