// Strings and their numbers, in the order in which they were added: a hash table with one array of characters.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

namespace labeltree {

class Vocabulary {
  public:
    int32_t size() const { return static_cast<int32_t>(ends_.size()); }
    std::string_view operator[](int32_t number) const {
        const int64_t from = number ? ends_[number - 1] : 0;
        return {characters_.data() + from, static_cast<size_t>(ends_[number] - from)};
    }

    // The number of a string, or -1.
    int32_t find(std::string_view text) const {
        if (slots_.empty()) return -1;
        return slots_[place(text, hash(text))].number;
    }

    // The number of a string, which is added if it is new.
    int32_t add(std::string_view text) {
        if (2 * (ends_.size() + 1) > slots_.size()) grow();
        const uint64_t hashed = hash(text);
        Slot& slot = slots_[place(text, hashed)];
        if (slot.number < 0) {
            if (ends_.size() >= INT32_MAX) throw std::length_error("there are too many distinct strings");
            slot = {tag(hashed), size()};
            characters_.insert(characters_.end(), text.begin(), text.end());
            ends_.push_back(std::ssize(characters_));
        }
        return slot.number;
    }

    // Forgets the strings and keeps the memory.
    void clear() {
        std::fill(slots_.begin(), slots_.end(), Slot{});
        characters_.clear();
        ends_.clear();
    }

    // The numbers in the order of the strings: by code point, which is the order of the bytes of UTF-8.
    std::vector<int32_t> sorted() const {
        std::vector<std::pair<uint64_t, int32_t>> keys(size());
        for (int32_t number = 0; number < size(); ++number) keys[number] = {first_bytes((*this)[number]), number};
        std::sort(keys.begin(), keys.end(), [&](const auto& a, const auto& b) {
            return a.first != b.first ? a.first < b.first : (*this)[a.second] < (*this)[b.second];
        });
        std::vector<int32_t> order(size());
        std::transform(keys.begin(), keys.end(), order.begin(), [](const auto& key) { return key.second; });
        return order;
    }

  private:
    struct Slot {
        uint32_t tag = 0;  // of the hash, to compare few strings
        int32_t number = -1;
    };
    std::vector<Slot> slots_;  // a power of two, at most half of them in use
    std::vector<char> characters_;
    std::vector<int64_t> ends_;

    static uint32_t tag(uint64_t hashed) { return static_cast<uint32_t>(hashed >> 32); }

    // The slot that holds the string, or the free one where it belongs.
    size_t place(std::string_view text, uint64_t hashed) const {
        const size_t mask = slots_.size() - 1;
        for (size_t at = hashed & mask;; at = (at + 1) & mask) {
            const Slot& slot = slots_[at];
            if (slot.number < 0 || (slot.tag == tag(hashed) && (*this)[slot.number] == text)) return at;
        }
    }

    void grow() {
        slots_.assign(std::max<size_t>(64, 2 * slots_.size()), {});
        const size_t mask = slots_.size() - 1;
        for (int32_t number = 0; number < size(); ++number) {
            const uint64_t hashed = hash((*this)[number]);
            size_t at = hashed & mask;
            while (slots_[at].number >= 0) at = (at + 1) & mask;
            slots_[at] = {tag(hashed), number};
        }
    }

    static uint64_t load(const char* p, size_t size) {
        uint64_t word = 0;
        std::memcpy(&word, p, size);
        return word;
    }

    static uint64_t mixed(uint64_t a, uint64_t b) {
        __extension__ using Wide = unsigned __int128;
        const Wide product = static_cast<Wide>(a) * b;
        return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
    }

    static uint64_t hash(std::string_view text) {
        constexpr uint64_t k0 = 0x9e3779b97f4a7c15, k1 = 0xd6e8feb86659fd93;
        const char* p = text.data();
        size_t left = text.size();
        uint64_t state = left ^ k1;
        for (; left > 8; p += 8, left -= 8) state = mixed(state ^ load(p, 8), k0);
        uint64_t rest = 0;
        if (left >= 4) {  // two loads that may overlap
            rest = load(p, 4) << 32 | load(p + left - 4, 4);
        } else if (left) {
            const auto at = [&](size_t i) { return uint64_t{static_cast<unsigned char>(p[i])}; };
            rest = at(0) << 16 | at(left / 2) << 8 | at(left - 1);
        }
        return mixed(state ^ rest, k1);
    }

    // As a number that compares like the string; shorter strings end in zeros.
    static uint64_t first_bytes(std::string_view text) {
        uint64_t key = 0;
        for (size_t i = 0; i < 8; ++i) key = key << 8 | (i < text.size() ? static_cast<unsigned char>(text[i]) : 0U);
        return key;
    }
};

}  // namespace labeltree
