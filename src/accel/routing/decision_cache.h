// DecisionCache: the confidence that the small model had behind prefixes that were judged before. A
// repeated prompt, or another answer that begins alike, is not judged again; and where the large
// model takes over, the small one need not even be run.
//
// A key stands for all tokens of a prefix, not for the last few: a score found is the score that
// would be computed, and verify_routing_integrity can demand that. The least recently used entry
// goes first. Threading: one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <span>
#include <unordered_map>

namespace tenon {

// A running hash over a sequence's tokens. Not secret: entries are scores, never text, and two
// prefixes that collide (2^-64) get each other's score.
class PrefixHash {
 public:
  void Extend(std::span<const int32_t> tokens);
  uint64_t value() const { return state_; }
  int64_t length() const { return length_; }

 private:
  uint64_t state_ = 0x9E3779B97F4A7C15ULL;
  int64_t length_ = 0;
};

class DecisionCache {
 public:
  explicit DecisionCache(size_t capacity) : capacity_(capacity) {}

  std::optional<double> Find(uint64_t prefix);
  void Put(uint64_t prefix, double confidence);
  void Clear();

  size_t size() const { return entries_.size(); }
  uint64_t lookups() const { return lookups_; }
  uint64_t hits() const { return hits_; }

 private:
  struct Entry {
    uint64_t prefix = 0;
    double confidence = 0.0;
  };
  size_t capacity_;
  std::list<Entry> entries_;  // most recently used first
  std::unordered_map<uint64_t, std::list<Entry>::iterator> index_;
  uint64_t lookups_ = 0;
  uint64_t hits_ = 0;
};

}  // namespace tenon
