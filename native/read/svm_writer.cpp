// Formats rows of a Dataset as LIBSVM text, each value in the fewest digits that give the same float32 when read.
#include <charconv>

#include "common/binding.h"

namespace labeltree {
namespace {

// The names of labels, one after the other. Empty: labels are written as numbers.
struct Names {
    std::span<const int64_t> ptr;
    std::span<const uint8_t> letters;

    std::string_view operator[](int64_t label) const {
        const auto name = slice(letters, ptr[label], ptr[label + 1]);
        return {reinterpret_cast<const char*>(name.data()), name.size()};
    }
};

template <class Number>
void append_number(std::string& text, Number number) {
    char digits[32];
    text.append(digits, std::to_chars(digits, digits + sizeof(digits), number).ptr);
}

// Features are numbered from `base` on.
std::string format_rows(const SparseRows& x, const SparseRows& y, int64_t base, const Names& names) {
    std::string text;
    for (int64_t row = 0; row < x.n_rows(); ++row) {
        bool first = true;
        for (const int32_t label : y.columns(row)) {
            if (!std::exchange(first, false)) text += ',';
            if (names.letters.empty())
                append_number(text, label);
            else
                text += names[label];
        }
        for (int64_t i = x.ptr[row]; i < x.ptr[row + 1]; ++i) {
            text += ' ';
            append_number(text, x.index[i] + base);
            text += ':';
            append_number(text, x.value[i]);
        }
        text += '\n';
    }
    return text;
}

}  // namespace

void bind_svm_writer(nb::module_& m) {
    m.def(
        "format_svm",
        [](In<int64_t> x_indptr, In<int32_t> indices, In<float> values, In<int64_t> y_indptr, In<int32_t> labels,
           int64_t base, In<int64_t> name_indptr, In<uint8_t> names) {
            constexpr int64_t any_column = std::numeric_limits<int64_t>::max();
            const SparseRows x{span_of(x_indptr), span_of(indices), span_of(values), any_column};
            const SparseRows y{span_of(y_indptr), span_of(labels), {}, any_column};
            std::string text;
            {
                nb::gil_scoped_release no_gil;
                check_ptr(x.ptr, x.index.size(), "x_indptr");
                check_ptr(y.ptr, y.index.size(), "y_indptr");
                require(x.value.size() == x.index.size(), "values must have as many entries as indices");
                require(x.ptr.size() == y.ptr.size(), "x_indptr and y_indptr must have as many rows");
                check_ptr(span_of(name_indptr), names.size(), "name_indptr");
                if (names.size() > 0) check_range(y.index, std::ssize(span_of(name_indptr)) - 1, "labels");
                text = format_rows(x, y, base, {span_of(name_indptr), span_of(names)});
            }
            return nb::bytes(text.data(), text.size());
        },
        "x_indptr"_a.noconvert(), "indices"_a.noconvert(), "values"_a.noconvert(), "y_indptr"_a.noconvert(),
        "labels"_a.noconvert(), "base"_a, "name_indptr"_a.noconvert(), "names"_a.noconvert(),
        "Return lines of text. Labels are written as numbers if names is empty.");
}

}  // namespace labeltree
