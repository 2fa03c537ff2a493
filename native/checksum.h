// CRC-32C, shared by the writer of blocks (node_solver.cpp) and their reader (checksum.cpp).
#pragma once

#include <cstddef>
#include <cstdint>

namespace labeltree {

// Checksum of count bytes, continuing from that of the bytes before them (0 at the start).
uint32_t crc32c(const void* bytes, size_t count, uint32_t before = 0);

}  // namespace labeltree
