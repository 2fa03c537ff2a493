// Counts the terms of documents: text in, a sparse matrix of counts and a vocabulary out.
#include <future>
#include <set>
#include <system_error>

#include "common/growing_array.h"
#include "common/memory.h"
#include "text/analyzer.h"

namespace labeltree {

// Documents are analyzed by chunks in parallel, each with a vocabulary of its own. Then its terms get their numbers:
// those of a given vocabulary, or the order of their first appearance, which does not depend on the chunks.
// Memory holds the result, the vocabulary, and the documents and chunks of a batch.
class TermCounts {
  public:
    // known: the terms to count; nullptr to number the terms that appear.
    TermCounts(const Analysis& analysis, const Vocabulary* known, int threads, int64_t chunk_bytes);

    TermCounts(const TermCounts&) = delete;
    TermCounts& operator=(const TermCounts&) = delete;
    ~TermCounts();

    // Adds a document. It is copied, and analyzed once a batch is full, while the caller prepares the next batch.
    void append(nb::str document);
    // Analyzes the documents that were added.
    void flush();
    // Counts the terms of documents, which must be UTF-8.
    void count(std::span<const std::string_view> documents);

    int64_t n_documents() const { return ptr_.size() - 1; }
    const Vocabulary& terms() const { return known_ ? *known_ : terms_; }
    // The number of documents with each term, and of its occurrences.
    std::pair<std::vector<int64_t>, std::vector<int64_t>> totals();
    std::vector<int32_t> distinct_counts();
    nb::tuple arrays() { return nb::make_tuple(ptr_.release(), columns_.release(), counts_.release()); }

  private:
    struct Batch {
        std::string text;
        std::vector<int64_t> ends;  // of each document
    };
    // A term, by its number in a chunk, and how often it occurs in a document.
    struct Entry {
        int32_t term, count;
    };
    struct Chunk {
        Splitter splitter;
        Vocabulary terms;
        std::vector<int32_t> numbers;        // of the terms in the whole, or -1
        std::vector<int64_t> row, position;  // the last row with each term, and its entry there
        std::vector<Entry> entries;
        std::vector<int64_t> ptr;
        std::vector<uint64_t> keys;
        int64_t first_row = 0, first_entry = 0;  // in the whole
    };

    const Analysis& analysis_;
    const Vocabulary* const known_;
    const int threads_;
    const int64_t chunk_bytes_, batch_bytes_;
    Vocabulary terms_;
    Batch batch_, previous_;
    std::future<void> analyzing_;  // the previous batch
    std::vector<Chunk> chunks_;    // kept from batch to batch to reuse their memory
    GrowingArray<int64_t> ptr_;
    GrowingArray<int32_t> columns_, counts_;

    void wait();
    void count(Batch& batch);
    void analyze(Chunk& chunk, std::span<const std::string_view> documents) const;
    void drop_unknown(Chunk& chunk) const;
    void write(Chunk& chunk);
};

TermCounts::TermCounts(const Analysis& analysis, const Vocabulary* known, int threads, int64_t chunk_bytes)
    : analysis_(analysis), known_(known), threads_(threads), chunk_bytes_(chunk_bytes),
      batch_bytes_(4 * threads * chunk_bytes) {
    require(threads >= 1 && chunk_bytes >= 1, "threads and chunk_bytes must be at least 1");
    ptr_.push(0);
}

TermCounts::~TermCounts() {
    const nb::gil_scoped_release no_gil;
    if (analyzing_.valid()) analyzing_.wait();
    const bool large = chunks_.size() > 1;
    chunks_.clear();
    if (large) return_free_memory();
}

void TermCounts::append(nb::str document) {
    batch_.text += to_utf8(document);
    batch_.ends.push_back(std::ssize(batch_.text));
    if (std::ssize(batch_.text) < batch_bytes_) return;
    wait();
    if (threads_ == 1) {
        const nb::gil_scoped_release no_gil;
        return count(batch_);
    }
    std::swap(batch_, previous_);
    try {
        analyzing_ = std::async(std::launch::async, [this] { count(previous_); });
    } catch (const std::system_error&) {  // no thread can be started
        const nb::gil_scoped_release no_gil;
        count(previous_);
    }
}

void TermCounts::flush() {
    wait();
    const nb::gil_scoped_release no_gil;
    count(batch_);
}

// The GIL is released, because the analysis may need it.
void TermCounts::wait() {
    const nb::gil_scoped_release no_gil;
    if (analyzing_.valid()) analyzing_.get();
}

void TermCounts::count(Batch& batch) {
    std::vector<std::string_view> documents;
    documents.reserve(batch.ends.size());
    int64_t from = 0;
    for (const int64_t end : batch.ends) {
        documents.emplace_back(batch.text.data() + from, end - from);
        from = end;
    }
    count(documents);
    batch.text.clear();
    batch.ends.clear();
}

void TermCounts::count(std::span<const std::string_view> documents) {
    std::vector<std::span<const std::string_view>> parts;
    for (size_t first = 0, last = 0; first < documents.size(); first = last) {
        int64_t size = 0;
        while (last < documents.size() && size < chunk_bytes_) size += std::ssize(documents[last++]);
        parts.push_back(documents.subspan(first, last - first));
    }
    const int64_t n_chunks = std::ssize(parts);
    if (std::ssize(chunks_) < n_chunks) chunks_.resize(n_chunks);
    parallel_for(n_chunks, threads_, [&](int64_t i, int) { analyze(chunks_[i], parts[i]); });
    for (int64_t i = 0; i < n_chunks; ++i) {
        Chunk& chunk = chunks_[i];
        if (!known_)
            for (int32_t term = 0; term < chunk.terms.size(); ++term)
                if (chunk.numbers[term] < 0) chunk.numbers[term] = terms_.add(chunk.terms[term]);
        chunk.first_row = ptr_.size();
        chunk.first_entry = columns_.size();
        ptr_.extend(std::ssize(chunk.ptr) - 1);
        columns_.extend(std::ssize(chunk.entries));
        counts_.extend(std::ssize(chunk.entries));
    }
    parallel_for(n_chunks, threads_, [&](int64_t i, int) { write(chunks_[i]); });
}

void TermCounts::analyze(Chunk& chunk, std::span<const std::string_view> documents) const {
    chunk.terms.clear(), chunk.row.clear(), chunk.position.clear(), chunk.entries.clear();
    chunk.ptr.assign(1, 0);
    for (const std::string_view document : documents) {
        const int64_t row = std::ssize(chunk.ptr);
        chunk.splitter.split(analysis_, document, [&](std::string_view term) {
            const int32_t number = chunk.terms.add(term);
            if (number == std::ssize(chunk.row)) {
                chunk.row.push_back(0);
                chunk.position.push_back(0);
            }
            if (chunk.row[number] == row) {
                ++chunk.entries[chunk.position[number]].count;
            } else {
                chunk.row[number] = row;
                chunk.position[number] = std::ssize(chunk.entries);
                chunk.entries.push_back({number, 1});
            }
        });
        chunk.ptr.push_back(std::ssize(chunk.entries));
    }
    chunk.numbers.resize(chunk.terms.size());
    for (int32_t term = 0; term < chunk.terms.size(); ++term) chunk.numbers[term] = terms().find(chunk.terms[term]);
    if (known_) drop_unknown(chunk);
}

void TermCounts::drop_unknown(Chunk& chunk) const {
    int64_t kept = 0, from = 0;
    for (size_t row = 1; row < chunk.ptr.size(); ++row) {
        for (const int64_t end = chunk.ptr[row]; from < end; ++from)
            if (chunk.numbers[chunk.entries[from].term] >= 0) chunk.entries[kept++] = chunk.entries[from];
        chunk.ptr[row] = kept;
    }
    chunk.entries.resize(kept);
}

// Writes the rows of a chunk to their place in the whole, sorted by the numbers of the terms.
void TermCounts::write(Chunk& chunk) {
    for (size_t row = 1; row < chunk.ptr.size(); ++row) {
        chunk.keys.clear();
        for (int64_t i = chunk.ptr[row - 1]; i < chunk.ptr[row]; ++i) {
            const auto [term, count] = chunk.entries[i];
            chunk.keys.push_back(static_cast<uint64_t>(chunk.numbers[term]) << 32 | static_cast<uint32_t>(count));
        }
        std::sort(chunk.keys.begin(), chunk.keys.end());
        int64_t at = chunk.first_entry + chunk.ptr[row - 1];
        for (const uint64_t key : chunk.keys) {
            columns_.data()[at] = static_cast<int32_t>(key >> 32);
            counts_.data()[at++] = static_cast<int32_t>(key);
        }
        ptr_.data()[chunk.first_row + row - 1] = at;
    }
}

std::pair<std::vector<int64_t>, std::vector<int64_t>> TermCounts::totals() {
    std::vector<int64_t> df(terms().size()), occurrences(terms().size());
    for (int64_t i = 0; i < columns_.size(); ++i) {
        ++df[columns_.data()[i]];
        occurrences[columns_.data()[i]] += counts_.data()[i];
    }
    return {std::move(df), std::move(occurrences)};
}

std::vector<int32_t> TermCounts::distinct_counts() {
    std::vector<bool> small(1024);
    std::set<int32_t> large;  // few: each takes as many occurrences in a document
    for (int64_t i = 0; i < counts_.size(); ++i) {
        const int32_t count = counts_.data()[i];
        if (count < std::ssize(small))
            small[count] = true;
        else
            large.insert(count);
    }
    std::vector<int32_t> found;
    for (int32_t count = 0; count < std::ssize(small); ++count)
        if (small[count]) found.push_back(count);
    found.insert(found.end(), large.begin(), large.end());
    return found;
}

namespace {

Analysis make_analysis(std::string_view unit, int64_t shortest, int64_t longest, bool lowercase, nb::iterable words) {
    require(shortest >= 1 && longest >= shortest, "shortest must be from 1 to longest");
    Analysis made{choose(units, unit, "unit"), shortest, longest, lowercase, {}};
    for (const nb::handle word : words) made.stop_words.add(to_utf8(word));
    return made;
}

nb::tuple names_of(const Vocabulary& terms, In<int32_t> numbers) {
    check_range(span_of(numbers), terms.size(), "numbers");
    auto names = nb::steal<nb::tuple>(PyTuple_New(static_cast<Py_ssize_t>(numbers.size())));
    for (size_t i = 0; i < numbers.size(); ++i)
        PyTuple_SET_ITEM(names.ptr(), static_cast<Py_ssize_t>(i), to_str(terms[numbers.data()[i]]).release().ptr());
    return names;
}

}  // namespace

void bind_term_counts(nb::module_& m) {
    nb::class_<Analysis>(m, "Analyzer", "Splits documents into terms.")
        .def(
            "__init__",
            [](Analysis* self, std::string_view unit, int64_t shortest, int64_t longest, bool lowercase,
               nb::iterable stop_words) {
                new (self) Analysis(make_analysis(unit, shortest, longest, lowercase, stop_words));
            },
            "unit"_a, "shortest"_a, "longest"_a, "lowercase"_a, "stop_words"_a)
        .def(
            "__call__",
            [](const Analysis& self, nb::str document) {
                nb::list terms;
                Splitter().split(self, to_utf8(document), [&](std::string_view term) { terms.append(to_str(term)); });
                return terms;
            },
            "document"_a, "Return the terms of a document.");
    nb::class_<Vocabulary>(m, "Vocabulary", "Distinct strings, numbered in the given order.")
        .def(
            "__init__",
            [](Vocabulary* self, nb::sequence names) {
                Vocabulary made;
                for (const nb::handle name : names) made.add(to_utf8(name));
                require(static_cast<size_t>(made.size()) == nb::len(names), "names must be distinct");
                new (self) Vocabulary(std::move(made));
            },
            "names"_a);
    nb::class_<TermCounts>(m, "TermCounts", "The number of times each term occurs in each document.")
        .def(nb::init<const Analysis&, const Vocabulary*, int, int64_t>(), "analyzer"_a, "known"_a.none(), "threads"_a,
             "chunk_bytes"_a, nb::keep_alive<1, 2>(), nb::keep_alive<1, 3>())
        .def("append", &TermCounts::append, "document"_a, "Add a document, to be analyzed with others.")
        .def("flush", &TermCounts::flush, "Analyze the documents that were added.")
        .def(
            "totals",
            [](TermCounts& self) {
                auto [df, occurrences] = self.totals();
                return nb::make_tuple(to_numpy(std::move(df)), to_numpy(std::move(occurrences)));
            },
            "Return the number of documents with each term, and of its occurrences.")
        .def(
            "distinct_counts", [](TermCounts& self) { return to_numpy(self.distinct_counts()); },
            "Return the counts that occur, sorted.")
        .def(
            "sorted_terms", [](const TermCounts& self) { return to_numpy(self.terms().sorted()); },
            "Return the numbers of the terms, in the order of their names.")
        .def(
            "names", [](const TermCounts& self, In<int32_t> numbers) { return names_of(self.terms(), numbers); },
            "numbers"_a.noconvert(), "Return the names of terms.")
        .def("arrays", &TermCounts::arrays, "Move out indptr, terms and counts.")
        .def_prop_ro("n_documents", &TermCounts::n_documents, "The number of documents.");
}

}  // namespace labeltree
