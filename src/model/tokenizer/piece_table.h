// PieceTable: a hash table from text to token id over texts that are stored elsewhere.
//
// Open addressing with eight bytes a slot; a text is looked at only when its hash agrees. The texts
// must outlive the table. Threading: const members from any thread.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tenon {

class PieceTable {
 public:
  // `texts` are the vocabulary's, by id; at most `texts.size()` of them will be added.
  explicit PieceTable(const std::vector<std::string>& texts)
      : texts_(texts), slots_(std::bit_ceil(2 * texts.size() + 1)) {}

  // Of two equal texts the first stays. Returns whether it was new. REQUIRES: id is an index.
  bool Add(int32_t id) {
    const std::string_view text = texts_[static_cast<size_t>(id)];
    const uint64_t hash = Hash(text);
    Slot& slot = slots_[Place(text, hash)];
    if (slot.id >= 0)
      return false;
    slot = {static_cast<uint32_t>(hash >> 32), id};
    longest_ = std::max(longest_, text.size());
    return true;
  }

  // Find for many texts: what they touch is fetched for all of them before any is compared, so that
  // cache misses overlap. REQUIRES: as many ids as texts, at most kManyTexts.
  static constexpr size_t kManyTexts = 64;
  void FindMany(std::span<const std::string_view> texts, std::span<int32_t> ids) const {
    std::array<uint64_t, kManyTexts> hashes;
    for (size_t i = 0; i < texts.size(); ++i) {
      hashes[i] = Hash(texts[i]);
      __builtin_prefetch(&slots_[First(hashes[i])]);
    }
    for (size_t i = 0; i < texts.size(); ++i) {
      const int32_t id = slots_[First(hashes[i])].id;
      if (id >= 0)
        __builtin_prefetch(&texts_[static_cast<size_t>(id)]);
    }
    for (size_t i = 0; i < texts.size(); ++i)
      ids[i] = texts[i].size() > longest_ ? -1 : slots_[Place(texts[i], hashes[i])].id;
  }

  // -1: no such text.
  int32_t Find(std::string_view text) const {
    if (text.size() > longest_)
      return -1;
    return slots_[Place(text, Hash(text))].id;
  }

 private:
  struct Slot {
    uint32_t tag = 0;  // upper half of the hash
    int32_t id = -1;   // -1: empty
  };

  // Pieces are short: eight bytes a step, the last ones together, and the length. The factors are
  // odd, with bits everywhere (2^64 and 2^63 divided by irrational numbers).
  static uint64_t Hash(std::string_view text) {
    constexpr uint64_t kFirst = 0x9E3779B97F4A7C15;
    constexpr uint64_t kSecond = 0xB504F333F9DE6485;
    uint64_t hash = text.size() * kSecond;
    while (true) {
      uint64_t word = 0;
      std::memcpy(&word, text.data(), std::min(text.size(), sizeof(word)));
      hash = (hash ^ word) * kFirst;
      hash ^= hash >> 32;
      if (text.size() <= sizeof(word))
        return hash * kSecond;
      text.remove_prefix(sizeof(word));
    }
  }

  // Where the search for a hash begins.
  size_t First(uint64_t hash) const { return hash >> 20 & (slots_.size() - 1); }

  // The slot that holds the text, or the empty one where it would go.
  size_t Place(std::string_view text, uint64_t hash) const {
    const auto tag = static_cast<uint32_t>(hash >> 32);
    size_t at = First(hash);
    while (slots_[at].id >= 0 &&
           (slots_[at].tag != tag || texts_[static_cast<size_t>(slots_[at].id)] != text))
      at = (at + 1) & (slots_.size() - 1);
    return at;
  }

  const std::vector<std::string>& texts_;
  std::vector<Slot> slots_;  // a power of two of them, at most half full
  size_t longest_ = 0;       // bytes
};

}  // namespace tenon
