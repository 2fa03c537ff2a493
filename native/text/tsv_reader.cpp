// Reads documents with labels from tab-separated lines: pieces of a file in, counts of terms and labels out.
#include "read/line_chunks.h"
#include "text/term_counts.h"

namespace labeltree {
namespace {

class TsvReader {
  public:
    // n_columns: 1 (text), 2 (labels, text), 3 (id, labels, text), or 0 to take it from the first line.
    TsvReader(TermCounts& counts, int n_columns, int least_columns, int threads, int64_t chunk_bytes)
        : counts_(counts), n_columns_(n_columns), least_columns_(least_columns), threads_(threads), lines_(chunk_bytes),
          started_(n_columns > 0) {
        require(threads >= 1 && chunk_bytes >= 1, "threads and chunk_bytes must be at least 1");
        require(n_columns >= 0 && n_columns <= 3, "n_columns must be from 0 to 3");
        ptr_.push(0);
    }

    // Reads the whole lines of the piece and keeps the rest for the next one. Returns false after a fault.
    bool feed(std::string_view piece, bool last) {
        auto texts = lines_.split(piece, last);
        if (n_lines_ == 0 && !texts.empty() && texts.front().starts_with(byte_order_mark))
            texts.front().remove_prefix(byte_order_mark.size());
        for (size_t i = 0; i < texts.size() && !started_; ++i) start(texts[i]);
        if (chunks_.size() < texts.size()) chunks_.resize(texts.size());
        parallel_for(std::ssize(texts), threads_, [&](int64_t i, int) { parse(texts[i], chunks_[i]); });
        std::vector<std::string_view> documents;
        for (size_t i = 0; i < texts.size(); ++i) {
            const Chunk& chunk = chunks_[i];
            if (chunk.invalid) {
                fault_line_ = n_lines_ + chunk.n_lines;
                fault_ = std::string(*chunk.invalid);
                return false;
            }
            n_lines_ += chunk.n_lines;
            documents.insert(documents.end(), chunk.documents.begin(), chunk.documents.end());
            for (const std::string_view label : chunk.labels) labels_.push(names_.add(label));
            for (const int64_t n_labels : chunk.n_labels) ptr_.push(ptr_.data()[ptr_.size() - 1] + n_labels);
        }
        counts_.count(documents);
        return true;
    }

    nb::object fault() const {
        if (!fault_line_) return nb::none();
        return nb::make_tuple(fault_line_, nb::bytes(fault_.data(), fault_.size()));
    }
    int n_columns() const { return n_columns_; }

    nb::tuple labels() {
        nb::list names;
        std::vector<int32_t> column(names_.size());
        for (const int32_t label : names_.sorted()) {
            column[label] = static_cast<int32_t>(nb::len(names));
            names.append(to_str(names_[label]));
        }
        for (int64_t i = 0; i < labels_.size(); ++i) labels_.data()[i] = column[labels_.data()[i]];
        return nb::make_tuple(names, ptr_.release(), labels_.release());
    }

  private:
    struct Chunk {
        std::vector<std::string_view> documents, labels;
        std::vector<int64_t> n_labels;            // of each document
        std::optional<std::string_view> invalid;  // the first line that is not UTF-8 or has too few columns
        int64_t n_lines = 0;                      // with the invalid one
    };

    TermCounts& counts_;
    int n_columns_;
    const int least_columns_, threads_;
    LineChunks lines_;
    bool started_;  // the number of columns is known
    int64_t n_lines_ = 0, fault_line_ = 0;
    std::string fault_;
    Vocabulary names_;
    std::vector<Chunk> chunks_;
    GrowingArray<int64_t> ptr_;
    GrowingArray<int32_t> labels_;

    // Removes a line, and returns it without its line end.
    static std::string_view take_line(std::string_view& text) {
        const size_t newline = text.find('\n');
        std::string_view line = text.substr(0, newline);
        text.remove_prefix(newline + 1);
        if (line.ends_with('\r')) line.remove_suffix(1);
        return line;
    }

    // Skips empty lines until the first other one, which sets the number of columns.
    void start(std::string_view& text) {
        while (!text.empty() && !started_) {
            std::string_view behind = text;
            const std::string_view line = take_line(behind);
            if (line.empty()) {
                text = behind;
                ++n_lines_;
            } else {
                const auto n_tabs = static_cast<int>(std::min<int64_t>(std::ranges::count(line, '\t'), 2));
                if (n_tabs + 1 >= least_columns_) n_columns_ = n_tabs + 1;
                started_ = true;
            }
        }
    }

    // Splits each line; further tabs belong to the text.
    void parse(std::string_view text, Chunk& chunk) const {
        chunk.documents.clear(), chunk.labels.clear(), chunk.n_labels.clear();
        chunk.invalid.reset();
        chunk.n_lines = 0;
        const bool ascii = is_ascii(text);
        while (!text.empty()) {
            std::string_view line = take_line(text);
            ++chunk.n_lines;
            if (line.empty() && n_columns_ != 1) continue;
            std::array<std::string_view, 3> fields;
            int n_fields = 0;
            std::string_view rest = line;
            for (size_t tab; n_fields < n_columns_ - 1 && (tab = rest.find('\t')) != std::string_view::npos;
                 ++n_fields) {
                fields[n_fields] = rest.substr(0, tab);
                rest.remove_prefix(tab + 1);
            }
            fields[n_fields++] = rest;
            if (n_fields < std::max(n_columns_, least_columns_) || !(ascii || is_utf8(line))) {
                chunk.invalid = line;
                return;
            }
            const size_t before = chunk.labels.size();
            if (n_columns_ > 1) split_words(fields[n_columns_ - 2], chunk.labels);
            chunk.n_labels.push_back(std::ssize(chunk.labels) - static_cast<int64_t>(before));
            chunk.documents.push_back(rest);
        }
    }
};

}  // namespace

void bind_tsv_reader(nb::module_& m) {
    nb::class_<TsvReader>(m, "TsvReader", "Parser of tab-separated documents, fed with the pieces of a file.")
        .def(nb::init<TermCounts&, int, int, int, int64_t>(), "counts"_a, "n_columns"_a, "least_columns"_a, "threads"_a,
             "chunk_bytes"_a, nb::keep_alive<1, 2>())
        .def(
            "feed",
            [](TsvReader& self, In<uint8_t> piece, bool last) {
                const nb::gil_scoped_release no_gil;
                return self.feed({reinterpret_cast<const char*>(piece.data()), piece.size()}, last);
            },
            "piece"_a.noconvert(), "last"_a, "Parse the next piece; return False after a fault.")
        .def("labels", &TsvReader::labels, "Move out the sorted names of the labels, and indptr and indices of Y.")
        .def_prop_ro("fault", &TsvReader::fault, "The first invalid line: its number and its bytes.")
        .def_prop_ro("n_columns", &TsvReader::n_columns, "Columns of the file, 0 before the first line.");
}

}  // namespace labeltree
