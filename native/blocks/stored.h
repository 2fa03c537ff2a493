// Names of codecs for Python, and what a BlockWriter has written as NumPy arrays.
#pragma once

#include "blocks/block_writer.h"
#include "common/binding.h"

namespace labeltree {

constexpr Choices<Codec, 4> codecs{
    {{"float32", Codec::float32}, {"float16", Codec::float16}, {"int8", Codec::int8}, {"sparse", Codec::sparse}}};

// _native.Written: checksums, segment_rows, n_bytes, n_nonzeros, scales, biases.
inline nb::tuple to_python(Written&& written) {
    return nb::make_tuple(to_numpy(std::move(written.checksums)), to_numpy(std::move(written.segment_rows)),
                          to_numpy(std::move(written.n_bytes)), to_numpy(std::move(written.n_nonzeros)),
                          to_numpy(std::move(written.scales)), to_numpy(std::move(written.biases)));
}

}  // namespace labeltree
