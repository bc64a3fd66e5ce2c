// PairTable: a hash table from two neighbouring token ids to what they merge into.
//
// Open addressing in one array: a lookup usually touches one cache line. Threading: const members
// from any thread.
#pragma once

#include <bit>
#include <cstdint>
#include <optional>
#include <vector>

#include "model/tokenizer/pair_merger.h"

namespace tenon {

class PairTable {
 public:
  // `count` is the number of pairs that will be added at most.
  // Two slots at least, so that the shift stays below 64.
  explicit PairTable(size_t count)
      : slots_(std::bit_ceil(2 * count + 2)), shift_(64 - std::countr_zero(slots_.size())) {}

  // Of two equal pairs the first stays. REQUIRES: left and right are not negative.
  void Add(int32_t left, int32_t right, MergeResult result) {
    Slot& slot = slots_[Place(Key(left, right))];
    if (slot.key == kEmpty)
      slot = {Key(left, right), result};
  }

  // Fetches what Add will touch. Ids may be negative here.
  void Prefetch(int32_t left, int32_t right) const {
    __builtin_prefetch(&slots_[First(Key(left, right))], 1);
  }

  std::optional<MergeResult> Find(int32_t left, int32_t right) const {
    const Slot& slot = slots_[Place(Key(left, right))];
    if (slot.key == kEmpty)
      return std::nullopt;
    return slot.result;
  }

 private:
  static constexpr uint64_t kEmpty = ~uint64_t{0};
  struct Slot {
    uint64_t key = kEmpty;
    MergeResult result;
  };

  static uint64_t Key(int32_t left, int32_t right) {
    return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  }

  // Where the search for a key begins. Multiplicative hashing; the factor is 2^64 divided by the
  // golden ratio.
  size_t First(uint64_t key) const { return (key ^ key >> 29) * 0x9E3779B97F4A7C15u >> shift_; }

  // The slot that holds the key, or the empty one where it would go.
  size_t Place(uint64_t key) const {
    size_t at = First(key);
    while (slots_[at].key != kEmpty && slots_[at].key != key)
      at = (at + 1) & (slots_.size() - 1);
    return at;
  }

  std::vector<Slot> slots_;  // a power of two of them, at most half full
  int shift_;
};

}  // namespace tenon
