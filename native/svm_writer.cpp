// Rows of a Dataset as LIBSVM text, each value in the fewest digits that give the same float32 back.
#include <charconv>

#include "binding.h"

namespace labeltree {
namespace {

template <class Number>
void put(std::string& text, Number number) {
    char digits[32];
    text.append(digits, std::to_chars(digits, digits + sizeof(digits), number).ptr);
}

}  // namespace

void bind_svm_writer(nb::module_& m) {
    m.def(
        "format_svm",
        [](In<int64_t> x_indptr, In<int32_t> indices, In<float> values, In<int64_t> y_indptr, In<int32_t> labels,
           int64_t base, In<int64_t> name_indptr, In<uint8_t> names) {
            check_indptr(x_indptr, indices.size(), "x_indptr");
            check_indptr(y_indptr, labels.size(), "y_indptr");
            require(values.size() == indices.size(), "values must be as long as indices");
            require(x_indptr.size() == y_indptr.size(), "X and Y must have as many rows");
            check_indptr(name_indptr, names.size(), "name_indptr");
            const bool named = names.size() > 0;
            if (named) check_range(labels, name_indptr.size() - 1, "labels");
            const auto* const letters = reinterpret_cast<const char*>(names.data());
            std::string text;
            {
                nb::gil_scoped_release free;
                for (size_t row = 0; row + 1 < x_indptr.size(); ++row) {
                    const int64_t first = y_indptr.data()[row];
                    for (int64_t i = first; i < y_indptr.data()[row + 1]; ++i) {
                        if (i > first) text += ',';
                        const int32_t label = labels.data()[i];
                        if (named)
                            text.append(letters + name_indptr.data()[label], letters + name_indptr.data()[label + 1]);
                        else
                            put(text, label);
                    }
                    for (int64_t i = x_indptr.data()[row]; i < x_indptr.data()[row + 1]; ++i) {
                        text += ' ';
                        put(text, indices.data()[i] + base);
                        text += ':';
                        put(text, values.data()[i]);
                    }
                    text += '\n';
                }
            }
            return nb::bytes(text.data(), text.size());
        },
        "x_indptr"_a.noconvert(), "indices"_a.noconvert(), "values"_a.noconvert(), "y_indptr"_a.noconvert(),
        "labels"_a.noconvert(), "base"_a, "name_indptr"_a.noconvert(), "names"_a.noconvert(),
        "Lines of text; where names is empty, labels are written as numbers.");
}

}  // namespace labeltree
