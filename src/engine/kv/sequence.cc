#include "engine/kv/sequence.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace tenon {
namespace {

constexpr auto kTokens = static_cast<size_t>(kKvBlockTokens);

}  // namespace

Sequence::Sequence(KvPool& pool, CacheScope scope, PrefixCache prefix_cache)
    : pool_(&pool), scope_(std::move(scope)), prefix_cache_(prefix_cache) {}

Sequence::Sequence(Sequence&& other) noexcept
    : pool_(std::exchange(other.pool_, nullptr)),
      scope_(std::move(other.scope_)),
      prefix_cache_(other.prefix_cache_),
      tokens_(std::exchange(other.tokens_, {})),
      blocks_(std::exchange(other.blocks_, {})),
      registered_(std::exchange(other.registered_, 0)),
      reserved_end_(std::exchange(other.reserved_end_, 0)) {}

Sequence& Sequence::operator=(Sequence&& other) noexcept {
  if (this == &other)
    return *this;
  Clear();
  pool_ = std::exchange(other.pool_, nullptr);
  scope_ = std::move(other.scope_);
  prefix_cache_ = other.prefix_cache_;
  tokens_ = std::exchange(other.tokens_, {});
  blocks_ = std::exchange(other.blocks_, {});
  registered_ = std::exchange(other.registered_, 0);
  reserved_end_ = std::exchange(other.reserved_end_, 0);
  return *this;
}

void Sequence::Clear() {
  if (pool_ != nullptr)
    Truncate(0);
}

void Sequence::ReleaseFrom(size_t block_count) {
  for (; blocks_.size() > block_count; blocks_.pop_back())
    pool_->Release(blocks_.back());
}

int64_t Sequence::MatchPrefix(std::span<const int32_t> prompt) {
  TENON_CHECK(tokens_.empty() && blocks_.empty());
  if (prefix_cache_ == PrefixCache::kOff || prompt.empty())
    return 0;
  pool_->RetainPrefix(scope_, prompt.first(prompt.size() - 1), blocks_);
  registered_ = blocks_.size();
  const std::span<const int32_t> matched = prompt.first(registered_ * kTokens);
  tokens_.assign(matched.begin(), matched.end());
  reserved_end_ = length();
  return length();
}

Result<Reservation> Sequence::Reserve(int64_t count) {
  TENON_CHECK(count >= 0);
  TENON_RETURN_IF_ERROR(pool_->CheckFits(count));  // also keeps the sum below within 64 bits
  TENON_RETURN_IF_ERROR(pool_->CheckFits(length() + count));
  if (count == 0)
    return Reservation::kReady;
  const auto blocks = static_cast<size_t>(BlocksFor(length() + count));
  const size_t fresh = blocks > blocks_.size() ? blocks - blocks_.size() : 0;
  const size_t copies = LastBlockNeedsCopy() ? 1 : 0;
  if (fresh + copies > static_cast<size_t>(pool_->available()) || !MakeLastBlockPrivate())
    return Reservation::kWait;
  while (blocks_.size() < blocks) {
    blocks_.push_back(pool_->Allocate());
    TENON_CHECK(blocks_.back() != kNoBlock);
  }
  reserved_end_ = std::max(reserved_end_, length() + count);
  return Reservation::kReady;
}

// Only a partly filled block can be written to and yet be seen by others: those after it are fresh.
bool Sequence::LastBlockNeedsCopy() const {
  return tokens_.size() % kTokens != 0 && pool_->NeedsCopy(blocks_[tokens_.size() / kTokens]);
}

bool Sequence::MakeLastBlockPrivate() {
  if (tokens_.size() % kTokens == 0)
    return true;
  BlockIndex& block = blocks_[tokens_.size() / kTokens];
  const BlockIndex own = pool_->MakePrivate(block);
  if (own != kNoBlock)
    block = own;
  return own != kNoBlock;
}

void Sequence::Append(std::span<const int32_t> tokens) {
  TENON_CHECK(length() + static_cast<int64_t>(tokens.size()) <= reserved_end_);
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
}

void Sequence::Commit() {
  if (prefix_cache_ == PrefixCache::kOff)
    return;
  for (; registered_ < tokens_.size() / kTokens; ++registered_) {
    const BlockIndex parent = registered_ == 0 ? kNoBlock : blocks_[registered_ - 1];
    const auto own = std::span(tokens_).subspan(registered_ * kTokens, kTokens);
    const BlockIndex known = pool_->Register(blocks_[registered_], scope_, parent, own);
    if (known == kNoBlock)
      return;
    blocks_[registered_] = known;
  }
}

void Sequence::Truncate(int64_t length) {
  TENON_CHECK(length >= 0 && length <= this->length());
  tokens_.resize(static_cast<size_t>(length));
  ReleaseFrom(static_cast<size_t>(BlocksFor(length)));
  registered_ = std::min(registered_, tokens_.size() / kTokens);
  reserved_end_ = length;
}

Sequence Sequence::Fork() {
  Truncate(length());  // blocks that are reserved only are not shared
  Sequence fork(*pool_, scope_, prefix_cache_);
  for (const BlockIndex block : blocks_)
    pool_->Retain(block);
  fork.blocks_ = blocks_;
  fork.tokens_ = tokens_;
  fork.registered_ = registered_;
  fork.reserved_end_ = fork.length();
  return fork;
}

Status ReserveNow(Sequence& sequence, int64_t count) {
  TENON_ASSIGN_OR_RETURN(const Reservation reservation, sequence.Reserve(count));
  if (reservation == Reservation::kReady)
    return {};
  return MakeError(ErrorCode::kResourceExhausted,
                   fmt::format("no KV blocks for {} more tokens: they are in use", count));
}

}  // namespace tenon
