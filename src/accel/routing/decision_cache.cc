#include "accel/routing/decision_cache.h"

namespace tenon {

// Each token is mixed in by the finalizer of MurmurHash3, which every bit of the state passes.
void PrefixHash::Extend(std::span<const int32_t> tokens) {
  for (const int32_t token : tokens) {
    uint64_t x = state_ ^ (static_cast<uint64_t>(static_cast<uint32_t>(token)) + 1);
    x ^= x >> 33;
    x *= 0xFF51AFD7ED558CCDULL;
    x ^= x >> 33;
    x *= 0xC4CEB9FE1A85EC53ULL;
    state_ = x ^ (x >> 33);
  }
  length_ += static_cast<int64_t>(tokens.size());
}

std::optional<double> DecisionCache::Find(uint64_t prefix) {
  ++lookups_;
  const auto found = index_.find(prefix);
  if (found == index_.end())
    return std::nullopt;
  ++hits_;
  entries_.splice(entries_.begin(), entries_, found->second);
  return entries_.front().confidence;
}

void DecisionCache::Put(uint64_t prefix, double confidence) {
  if (capacity_ == 0)
    return;
  const auto found = index_.find(prefix);
  if (found != index_.end()) {
    found->second->confidence = confidence;
    entries_.splice(entries_.begin(), entries_, found->second);
    return;
  }
  if (entries_.size() == capacity_) {
    index_.erase(entries_.back().prefix);
    entries_.pop_back();
  }
  entries_.push_front({prefix, confidence});
  index_[prefix] = entries_.begin();
}

void DecisionCache::Clear() {
  entries_.clear();
  index_.clear();
}

}  // namespace tenon
