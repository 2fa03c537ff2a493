// Reads LIBSVM text: pieces of a file in, the arrays of a Dataset out, parsed by chunks in parallel.
//
// Memory holds the result, the current piece and its chunks, however large the file is.
#include <deque>

#include "common/growing_array.h"
#include "read/line_chunks.h"
#include "read/svm_chunk.h"

namespace labeltree {
namespace {

class SvmReader {
  public:
    // one_based: 1, 0, or -1 to detect it from the file.
    SvmReader(int threads, int64_t chunk_bytes, int one_based)
        : threads_(threads), one_based_(one_based), lines_(chunk_bytes) {
        require(threads >= 1 && chunk_bytes >= 1, "threads and chunk_bytes must be at least 1");
        if (one_based == 1) limits_.lowest = 1;
        x_indptr_.push(0);
        y_indptr_.push(0);
    }

    // Parses the whole lines of the piece and keeps the rest for the next one. Returns false after a fault.
    bool feed(const char* piece, int64_t size, bool last) {
        std::string_view text(piece, size);
        // Also in a comment, and before its line is complete: an endless binary file must not be kept as one line.
        const size_t zero = text.find('\0');
        const bool binary = zero != std::string_view::npos;
        if (binary) text = text.substr(0, text.substr(0, zero).rfind('\n') + 1);
        if (!parse(text, last && !binary)) return false;
        if (binary) fault_ = {"binary", n_lines_ + 1, std::string(1, '\0')};
        return !binary;
    }

    // After the last piece: assigns columns to labels and subtracts the base. Returns false if a label is too large.
    bool finish() {
        int64_t n_rows = x_indptr_.size() - 1 - n_blank_rows_;
        if (has_header()) n_rows += std::clamp<int64_t>(header_[0] - n_rows, 0, n_blank_rows_);
        x_indptr_.shrink(n_rows + 1);
        y_indptr_.shrink(n_rows + 1);
        if (names_.empty() && label_fault_.what) {
            fault_ = label_fault_;
            return false;
        }
        if (!names_.empty()) number_names();
        sort_labels();
        if (one_based_ < 0) one_based_ = !index_zero_ && !has_header();
        if (one_based_ == 1) {
            int32_t* const indices = indices_.data();
            parallel_ranges(indices_.size(), 1 << 18, threads_, [&](int64_t first, int64_t last) {
                for (int64_t i = first; i < last; ++i) --indices[i];
            });
            max_index_ = std::max<int64_t>(max_index_ - 1, -1);
        }
        return true;
    }

    nb::tuple arrays() {
        return nb::make_tuple(x_indptr_.release(), indices_.release(), values_.release(), y_indptr_.release(),
                              labels_.release());
    }
    nb::object fault() const {
        if (!fault_.what) return nb::none();
        return nb::make_tuple(fault_.what, fault_.line, nb::bytes(fault_.text.data(), fault_.text.size()));
    }
    nb::object header() const {
        return has_header() ? nb::object(nb::make_tuple(header_[0], header_[1], header_[2])) : nb::none();
    }
    nb::object names() const {
        if (columns_.empty()) return nb::none();
        nb::list out;
        for (const auto& name : columns_) out.append(nb::str(name.data(), name.size()));
        return out;
    }
    bool one_based() const { return one_based_ == 1; }
    int64_t n_features() const { return max_index_ + 1; }
    int64_t n_labels() const { return columns_.empty() ? max_label_ + 1 : static_cast<int64_t>(columns_.size()); }

  private:
    const int threads_;
    int one_based_;
    LineChunks lines_;
    SvmLimits limits_;
    bool started_ = false, index_zero_ = false;
    int64_t header_[3] = {-1, -1, -1};
    int64_t n_lines_ = 0, n_blank_rows_ = 0, max_index_ = -1, max_label_ = -1;
    std::vector<SvmChunk> chunks_;  // kept from piece to piece to reuse their memory
    GrowingArray<int64_t> x_indptr_, y_indptr_;
    GrowingArray<int32_t> indices_, labels_;
    GrowingArray<float> values_;
    std::deque<std::string> names_;  // a deque, so that the views in name_ids_ stay valid
    std::unordered_map<std::string_view, int32_t> name_ids_;
    std::vector<std::string> columns_;
    SvmFault fault_, label_fault_;

    bool has_header() const { return header_[0] >= 0; }

    // Skips a byte order mark and the header "instances features labels".
    void begin(std::string_view& text) {
        started_ = true;
        if (text.starts_with(byte_order_mark)) text.remove_prefix(byte_order_mark.size());
        int64_t numbers[3];
        const char* at = text.data();
        for (int64_t& number : numbers) {
            while (is_blank(*at)) ++at;
            const char* const stop = token_end(at);
            if ((number = plain_number(at, stop)) < 0) return;
            at = stop;
        }
        while (is_blank(*at)) ++at;
        if (*at != '\n') return;
        text.remove_prefix(at + 1 - text.data());
        ++n_lines_;
        std::copy(numbers, numbers + 3, header_);
        limits_.highest = std::min(limits_.highest, header_[1] - (one_based_ != 1));
        limits_.n_labels = std::min(limits_.n_labels, header_[2]);
    }

    // Parses the whole lines of a text.
    bool parse(std::string_view text, bool last) {
        auto texts = lines_.split(text, last);
        if (!started_ && !texts.empty()) begin(texts.front());
        if (chunks_.size() < texts.size()) chunks_.resize(texts.size());
        parallel_for(texts.size(), threads_, [&](int64_t i, int) {
            chunks_[i].parse(texts[i].data(), texts[i].data() + texts[i].size(), limits_);
        });
        return append(texts.size());
    }

    // Appends the contents of the chunks of a piece, in the order of the file.
    bool append(int64_t n_chunks) {
        struct Place {
            int64_t row, feature, label;
            std::vector<int32_t> names;
        };
        std::vector<Place> places(n_chunks);
        for (int64_t i = 0; i < n_chunks; ++i) {
            const SvmChunk& chunk = chunks_[i];
            const int64_t n_rows = std::ssize(chunk.row_entries);
            Place& place = places[i];
            place = {x_indptr_.size(), indices_.size(), labels_.size(), {}};
            for (const auto name : chunk.names) place.names.push_back(name_id(name));
            if (chunk.label_fault.what && !label_fault_.what) {
                label_fault_ = chunk.label_fault;
                label_fault_.line += n_lines_;
            }
            if (chunk.fault.what) {
                fault_ = chunk.fault;
                fault_.line += n_lines_;
                if (label_fault_.what && names_.empty() && label_fault_.line < fault_.line) fault_ = label_fault_;
                return false;
            }
            n_lines_ += chunk.n_lines;
            n_blank_rows_ = chunk.n_blank_rows == n_rows ? n_blank_rows_ + n_rows : chunk.n_blank_rows;
            max_index_ = std::max(max_index_, chunk.max_index);
            max_label_ = std::max(max_label_, chunk.max_label);
            index_zero_ |= chunk.index_zero;
            x_indptr_.extend(n_rows);
            y_indptr_.extend(n_rows);
            indices_.extend(chunk.n_entries);
            values_.extend(chunk.n_entries);
            labels_.extend(chunk.labels.size());
        }
        parallel_for(n_chunks, threads_, [&](int64_t i, int) {
            const SvmChunk& chunk = chunks_[i];
            const Place& place = places[i];
            std::copy_n(chunk.indices.get(), chunk.n_entries, indices_.data() + place.feature);
            std::copy_n(chunk.values.get(), chunk.n_entries, values_.data() + place.feature);
            std::transform(chunk.labels.begin(), chunk.labels.end(), labels_.data() + place.label,
                           [&](int32_t label) { return label < 0 ? ~place.names[~label] : label; });
            int64_t feature = place.feature, label = place.label;
            for (size_t r = 0; r < chunk.row_entries.size(); ++r) {
                x_indptr_.data()[place.row + r] = feature += chunk.row_entries[r];
                y_indptr_.data()[place.row + r] = label += chunk.row_labels[r];
            }
        });
        return true;
    }

    int32_t name_id(std::string_view name) {
        const auto found = name_ids_.find(name);
        if (found != name_ids_.end()) return found->second;
        const auto id = static_cast<int32_t>(names_.size());
        name_ids_.emplace(names_.emplace_back(name), id);
        return id;
    }

    // If any label is a name, all are: they are numbered in order of first appearance in the file.
    void number_names() {
        std::vector<int32_t> of_name(names_.size(), -1);
        std::unordered_map<int32_t, int32_t> of_number;
        for (int64_t i = 0; i < labels_.size(); ++i) {
            int32_t& label = labels_.data()[i];
            int32_t& column = label < 0 ? of_name[~label] : of_number.try_emplace(label, -1).first->second;
            if (column < 0) {
                column = static_cast<int32_t>(columns_.size());
                columns_.push_back(label < 0 ? std::move(names_[~label]) : std::to_string(label));
            }
            label = column;
        }
    }

    // Sorts the labels of each row and removes duplicates.
    void sort_labels() {
        const int64_t n_rows = y_indptr_.size() - 1;
        int64_t* const indptr = y_indptr_.data();
        int32_t* const labels = labels_.data();
        std::vector<int32_t> n_kept(n_rows);
        parallel_ranges(n_rows, 4096, threads_, [&](int64_t first, int64_t last) {
            for (int64_t r = first; r < last; ++r) {
                int32_t *const from = labels + indptr[r], *const to = labels + indptr[r + 1];
                std::sort(from, to);
                n_kept[r] = static_cast<int32_t>(std::unique(from, to) - from);
            }
        });
        int64_t size = 0;
        for (int64_t r = 0, from = 0; r < n_rows; ++r) {
            const int64_t next = indptr[r + 1];
            if (size != from) std::copy_n(labels + from, n_kept[r], labels + size);
            size += n_kept[r];
            indptr[r + 1] = size;
            from = next;
        }
        labels_.shrink(size);
    }
};

}  // namespace

void bind_svm_reader(nb::module_& m) {
    nb::class_<SvmReader>(m, "SvmReader", "Parser of LIBSVM text, fed with the pieces of a file.")
        .def(nb::init<int, int64_t, int>(), "threads"_a, "chunk_bytes"_a, "one_based"_a)
        .def(
            "feed",
            [](SvmReader& self, In<uint8_t> piece, bool last) {
                nb::gil_scoped_release no_gil;
                return self.feed(reinterpret_cast<const char*>(piece.data()), piece.size(), last);
            },
            "piece"_a.noconvert(), "last"_a, "Parse the next piece; return False after a fault.")
        .def("finish", &SvmReader::finish, nb::call_guard<nb::gil_scoped_release>(),
             "Assign columns and the base after the last piece; return False after a fault.")
        .def("arrays", &SvmReader::arrays, "Move out indptr, indices and values of X, and indptr and indices of Y.")
        .def_prop_ro("fault", &SvmReader::fault, "The first invalid line: kind of fault, line number, text.")
        .def_prop_ro("header", &SvmReader::header, "Numbers of instances, features and labels in the header, if any.")
        .def_prop_ro("names", &SvmReader::names, "Names of the columns of Y; None if labels are numbers.")
        .def_prop_ro("one_based", &SvmReader::one_based, "True if features are numbered from 1; known after finish.")
        .def_prop_ro("n_features", &SvmReader::n_features, "One more than the largest feature in the file.")
        .def_prop_ro("n_labels", &SvmReader::n_labels, "One more than the largest label in the file.");
}

}  // namespace labeltree
