// Counts the terms of documents: text in, a sparse matrix of counts and a vocabulary out.
#pragma once

#include <future>

#include "common/growing_array.h"
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

}  // namespace labeltree
