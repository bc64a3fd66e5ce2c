// WordCache: where the ids of recently encoded words stand in the output, so that a word that comes
// again is copied instead of merged.
//
// Lives as long as one encoding; the words must outlive it. Threading: one thread at a time.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

namespace tenon {

class WordCache {
 public:
  // `text_size` is what will be encoded, in bytes: a short text gets no cache.
  explicit WordCache(size_t text_size)
      : entries_(text_size < kWorthwhile
                     ? 0
                     : std::min(std::bit_ceil(text_size / kBytesPerEntry), kMostEntries)) {}

  // Appends the ids of `word`: copied from its last place, or made by `encode(word)`, which appends
  // them to `ids`.
  template <class Encode>
  void Append(std::string_view word, std::vector<int32_t>& ids, const Encode& encode) {
    if (entries_.empty() || word.size() > kLongestWord)
      return encode(word);
    Entry& entry = entries_[std::hash<std::string_view>{}(word) & (entries_.size() - 1)];
    const size_t begin = ids.size();
    if (entry.word == word) {
      ids.resize(begin + entry.count);
      for (size_t i = 0; i < entry.count; ++i)
        ids[begin + i] = ids[entry.begin + i];
    } else {
      encode(word);
    }
    entry = {word, begin, ids.size() - begin};
  }

 private:
  // Words rarely come again in a shorter text.
  static constexpr size_t kWorthwhile = 512;
  // About two words of text for each entry, up to the number of words that a large text repeats
  // (1 MiB of entries).
  static constexpr size_t kBytesPerEntry = 16;
  static constexpr size_t kMostEntries = 32768;
  static constexpr size_t kLongestWord = 64;

  struct Entry {
    std::string_view word;
    size_t begin = 0;  // in ids
    size_t count = 0;
  };
  std::vector<Entry> entries_;  // one place a hash value: the last word wins
};

}  // namespace tenon
