#include "accel/routing/decision_replay.h"

#include <algorithm>

namespace tenon {

void DecisionReplay::Offer(std::span<const int32_t> tokens, double confidence) {
  if (is_active() || tokens.size() > kMaxTokens)
    return;
  tokens_.assign(tokens.begin(), tokens.end());
  confidence_ = confidence;
  done_ = 0;
  sequence_.emplace(pool_, CacheScope{}, PrefixCache::kOff);
}

std::optional<int64_t> DecisionReplay::AddPiece(BatchBuilder& builder, int64_t most, int64_t rows) {
  piece_ = 0;
  const int64_t count = std::min(pending(), most);
  if (!sequence_.has_value() || count <= 0)
    return std::nullopt;
  const auto reserved = sequence_->Reserve(count);
  if (!reserved.ok() || *reserved == Reservation::kWait) {
    Clear();  // requests need the KV more
    return std::nullopt;
  }
  piece_ = count;
  const bool is_last = count == pending();
  builder.AddTokens(
      builder.AddSequence(sequence_->block_table()),
      std::span(tokens_).subspan(static_cast<size_t>(done_), static_cast<size_t>(count)), done_,
      is_last ? BatchBuilder::Outputs::kLast : BatchBuilder::Outputs::kNone);
  return is_last ? std::optional(rows) : std::nullopt;
}

void DecisionReplay::PieceDone() {
  if (piece_ == 0 || !sequence_.has_value())
    return;
  sequence_->Append(
      std::span(tokens_).subspan(static_cast<size_t>(done_), static_cast<size_t>(piece_)));
  done_ += piece_;
  piece_ = 0;
}

bool DecisionReplay::Finish(double confidence) {
  const bool is_same = (confidence >= threshold_) == (confidence_ >= threshold_);
  Clear();
  return is_same;
}

void DecisionReplay::Clear() {
  tokens_.clear();
  sequence_.reset();
  done_ = 0;
  piece_ = 0;
}

}  // namespace tenon
