// Scales the rows of a sparse matrix to length 1.
#include "common/binding.h"
#include "predict/unit_length.h"

namespace labeltree {
namespace {

// Returns the scaled values; nothing if all rows stay as they are.
std::optional<std::vector<float>> scaled_values(std::span<const int64_t> ptr, std::span<const float> values) {
    std::optional<std::vector<float>> scaled;
    for (size_t row = 0; row + 1 < ptr.size(); ++row) {
        const std::span<const float> own = slice(values, ptr[row], ptr[row + 1]);
        const double square = squared_length(own);
        if (is_unit(square)) continue;
        if (!scaled) scaled.emplace(values.begin(), values.end());
        scale_to_unit(own, square, slice(std::span(*scaled), ptr[row], ptr[row + 1]));
    }
    return scaled;
}

std::optional<Numpy<float>> unit_rows(In<int64_t> indptr, In<float> data) {
    const std::span<const int64_t> ptr = span_of(indptr);
    const std::span<const float> values = span_of(data);
    std::optional<std::vector<float>> scaled;
    {
        const nb::gil_scoped_release no_gil;
        check_ptr(ptr, values.size(), "indptr");
        scaled = scaled_values(ptr, values);
    }
    if (!scaled) return std::nullopt;
    return to_numpy(std::move(*scaled));
}

}  // namespace

void bind_unit_rows(nb::module_& m) {
    m.attr("UNIT_TOLERANCE") = unit_tolerance;
    m.def("unit_rows", unit_rows, "indptr"_a.noconvert(), "data"_a.noconvert(),
          "Return the values of rows that are scaled to length 1, or None if no value changes: a row whose squared "
          "length is within UNIT_TOLERANCE of 1 stays as it is, and so does a row without values.");
}

}  // namespace labeltree
