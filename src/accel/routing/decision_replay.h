// DecisionReplay: verify_routing_integrity. Sampled decisions are made again from nothing but their
// tokens: in fresh KV that shares no block with anyone, and past the decision cache. What comes out
// must be on the same side of the threshold; if not, a cache, shared KV or another module has
// polluted the state that decisions rest on.
//
// A replay rides along in the small model's batches, a few tokens at a time, so that it never holds
// up a step. Only the latest sampled decision waits; one that is not reached is dropped.
//
// Threading: one thread at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/exec/batch_builder.h"
#include "engine/kv/sequence.h"

namespace tenon {

class DecisionReplay {
 public:
  DecisionReplay(KvPool& pool, double threshold) : pool_(pool), threshold_(threshold) {}

  // The decision behind these tokens was made on this confidence.
  void Offer(std::span<const int32_t> tokens, double confidence);

  // Adds a piece of at most `most` tokens to the batch. Returns the output row it will have, when
  // it is the last one; `rows` are already wanted.
  std::optional<int64_t> AddPiece(BatchBuilder& builder, int64_t most, int64_t rows);
  // The batch was run.
  void PieceDone();
  // The outcome of the last piece: whether the decision is the same.
  bool Finish(double confidence);
  // Drops everything.
  void Clear();

  bool is_active() const { return !tokens_.empty(); }
  int64_t pending() const { return static_cast<int64_t>(tokens_.size()) - done_; }

  // Tokens beside a step's own: a few percent of a decode step's time.
  static constexpr int64_t kPiece = 8;
  // Longer prefixes would take too long to replay to say anything about now.
  static constexpr size_t kMaxTokens = 1024;

 private:
  KvPool& pool_;
  double threshold_;
  std::optional<Sequence> sequence_;
  std::vector<int32_t> tokens_;
  double confidence_ = 0.0;
  int64_t done_ = 0;
  int64_t piece_ = 0;
};

}  // namespace tenon
