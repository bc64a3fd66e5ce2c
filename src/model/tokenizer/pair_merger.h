// Greedy pair merging: the heart of byte-pair encoding, in O(n log n).
//
// A text is a row of symbols. Of all neighbours that may merge, the pair with the best priority
// merges first, the leftmost among equals, until none may. Threading: one thread at a time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace tenon {

struct MergeSymbol {
  uint32_t begin = 0;   // in the text, bytes
  uint32_t length = 0;  // 0: was merged into its left neighbour
  int32_t id = -1;      // token; -1 when the vocabulary has none
  int32_t previous = -1;
  int32_t next = -1;
};

struct MergeResult {
  uint32_t priority = 0;  // smaller merges earlier
  int32_t id = -1;        // the merged token
};

class PairMerger {
 public:
  // The row to merge; after Merge the symbols that have a length are the result, in order.
  std::vector<MergeSymbol>& symbols() { return symbols_; }

  void Clear() { symbols_.clear(); }
  void Append(uint32_t begin, uint32_t length, int32_t id) {
    const auto index = static_cast<int32_t>(symbols_.size());
    if (index > 0)
      symbols_.back().next = index;
    symbols_.push_back({begin, length, id, index - 1, -1});
  }

  // `lookup(left, right)` says whether two neighbours merge: std::optional<MergeResult>.
  template <class Lookup>
  void Merge(const Lookup& lookup) {
    heap_.clear();
    for (size_t i = 1; i < symbols_.size(); ++i)
      Offer(static_cast<int32_t>(i) - 1, static_cast<int32_t>(i), lookup);
    while (!heap_.empty()) {
      std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
      const Candidate best = heap_.back();
      heap_.pop_back();
      if (!IsCurrent(best))
        continue;
      Join(best);
      MergeSymbol& joined = At(best.left);
      if (joined.previous >= 0)
        Offer(joined.previous, best.left, lookup);
      if (joined.next >= 0)
        Offer(best.left, joined.next, lookup);
    }
  }

 private:
  struct Candidate {
    uint64_t order = 0;  // priority << 32 | left
    int32_t left = 0;
    int32_t right = 0;
    uint32_t length = 0;  // of both when offered: tells whether one of them merged since
    int32_t id = -1;
    bool operator>(const Candidate& other) const { return order > other.order; }
  };

  MergeSymbol& At(int32_t index) { return symbols_[static_cast<size_t>(index)]; }

  template <class Lookup>
  void Offer(int32_t left, int32_t right, const Lookup& lookup) {
    const std::optional<MergeResult> result = lookup(At(left), At(right));
    if (!result)
      return;
    const uint64_t order =
        static_cast<uint64_t>(result->priority) << 32 | static_cast<uint32_t>(left);
    heap_.push_back({order, left, right, At(left).length + At(right).length, result->id});
    std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
  }

  bool IsCurrent(const Candidate& candidate) {
    const MergeSymbol& left = At(candidate.left);
    const MergeSymbol& right = At(candidate.right);
    return left.length != 0 && right.length != 0 && left.next == candidate.right &&
           left.length + right.length == candidate.length;
  }

  void Join(const Candidate& candidate) {
    MergeSymbol& left = At(candidate.left);
    MergeSymbol& right = At(candidate.right);
    left.length += right.length;
    left.id = candidate.id;
    right.length = 0;
    left.next = right.next;
    if (right.next >= 0)
      At(right.next).previous = candidate.left;
  }

  std::vector<MergeSymbol> symbols_;
  std::vector<Candidate> heap_;
};

}  // namespace tenon
