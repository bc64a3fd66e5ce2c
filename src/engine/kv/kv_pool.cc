#include "engine/kv/kv_pool.h"

#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "base/check.h"

namespace tenon {

Result<KvPool> KvPool::Create(const KvConfig& config, KeyedHash hash) {
  TENON_ASSIGN_OR_RETURN(const KvLayout layout, KvLayout::Create(config));
  TENON_ASSIGN_OR_RETURN(const SipKey key, RandomSipKey());
  TENON_ASSIGN_OR_RETURN(Buffer memory, Buffer::Allocate(layout.total_bytes));
  return KvPool(config, layout, std::move(memory), PrefixIndex(config.blocks, key, hash));
}

KvPool::KvPool(const KvConfig& config, const KvLayout& layout, Buffer memory, PrefixIndex index)
    : config_(config),
      layout_(layout),
      memory_(std::move(memory)),
      index_(std::move(index)),
      cached_(config.blocks),
      refs_(static_cast<size_t>(config.blocks), 0),
      copy_of_(static_cast<size_t>(config.blocks), -1) {
  free_.reserve(refs_.size());
  for (BlockIndex block = config.blocks - 1; block >= 0; --block)
    free_.push_back(block);  // block 0 is given out first
  const int32_t copies = IsPackedKv(config.type) ? config.float_copies : 0;
  for (int32_t copy = copies - 1; copy >= 0; --copy)
    free_copies_.push_back(copy);
}

std::byte* KvPool::KeyBase(int32_t layer, int32_t head) const {
  TENON_CHECK(layer >= 0 && layer < config_.layers && head >= 0 && head < config_.kv_heads);
  return memory_.data() + static_cast<size_t>(layer) * layout_.layer_stride +
         static_cast<size_t>(head) * layout_.head_stride;
}

std::byte* KvPool::ValueBase(int32_t layer, int32_t head) const {
  return KeyBase(layer, head) + layout_.key_bytes;
}

std::byte* KvPool::CopyBase(int32_t layer, int32_t head) const {
  TENON_CHECK(layer >= 0 && layer < config_.layers && head >= 0 && head < config_.kv_heads);
  return memory_.data() + layout_.copies_offset +
         static_cast<size_t>(layer) * layout_.copy_layer_stride +
         static_cast<size_t>(head) * layout_.copy_head_stride;
}

std::span<std::byte> KvPool::LayerBytes(int32_t layer) const {
  return {KeyBase(layer, 0), layout_.layer_stride};
}

std::span<std::byte> KvPool::BlockBytes(int32_t layer, BlockIndex block) const {
  TENON_CHECK(block >= 0 && block < config_.blocks);
  return LayerBytes(layer).subspan(static_cast<size_t>(block) * layout_.block_stride,
                                   layout_.block_stride);
}

std::span<std::byte> KvPool::CopyBytes(int32_t layer, int32_t copy) const {
  TENON_CHECK(copy >= 0 && copy < config_.float_copies);
  return {CopyBase(layer, 0) + copy * copy_stride(), layout_.copy_stride};
}

Status KvPool::CheckFits(int64_t tokens) const {
  if (BlocksFor(tokens) <= config_.blocks)
    return {};
  return MakeError(ErrorCode::kResourceExhausted,
                   fmt::format("{} tokens need {} blocks of {} tokens, but the KV cache has {} "
                               "({} tokens)",
                               tokens, BlocksFor(tokens), kKvBlockTokens, config_.blocks,
                               config_.blocks * kKvBlockTokens),
                   "KV cache");
}

BlockIndex KvPool::Allocate() {
  if (free_.empty() && cached_.size() > 0)
    EvictOne();
  if (free_.empty())
    return kNoBlock;
  const BlockIndex block = free_.back();
  free_.pop_back();
  refs_[static_cast<size_t>(block)] = 1;
  return block;
}

void KvPool::EvictOne() {
  const BlockIndex victim = cached_.front();
  cached_.Remove(victim);
  index_.Erase(victim);  // checks that no registered block follows it
  Free(victim);
  ++counters_.evictions;
}

void KvPool::Free(BlockIndex block) {
  DropFloatCopy(block);
  free_.push_back(block);
}

bool KvPool::TakeFloatCopy(BlockIndex block) {
  TENON_CHECK(RefCount(block) > 0);
  int32_t& copy = copy_of_[static_cast<size_t>(block)];
  while (copy < 0 && free_copies_.empty() && cached_.size() > 0)
    EvictOne();
  if (copy < 0 && free_copies_.empty())
    return false;
  if (copy < 0) {
    copy = free_copies_.back();
    free_copies_.pop_back();
  }
  return true;
}

void KvPool::DropFloatCopy(BlockIndex block) {
  int32_t& copy = copy_of_[static_cast<size_t>(block)];
  if (copy >= 0)
    free_copies_.push_back(copy);
  copy = -1;
}

void KvPool::Retain(BlockIndex block) {
  int32_t& refs = refs_[static_cast<size_t>(block)];
  if (refs == 0) {
    TENON_CHECK(index_.Contains(block));
    cached_.Remove(block);
  }
  ++refs;
}

void KvPool::Release(BlockIndex block) {
  int32_t& refs = refs_[static_cast<size_t>(block)];
  TENON_CHECK(refs > 0);
  if (--refs > 0)
    return;
  if (!index_.Contains(block)) {
    Free(block);
    return;
  }
  if (!index_.IsFirst(block))
    DropFloatCopy(block);
  cached_.PushBack(block);
}

bool KvPool::NeedsCopy(BlockIndex block) const {
  return RefCount(block) > 1 || index_.ChildCount(block) > 0;
}

BlockIndex KvPool::MakePrivate(BlockIndex block) {
  TENON_CHECK(RefCount(block) > 0);
  if (NeedsCopy(block))
    return Copy(block);
  if (index_.Contains(block))
    index_.Erase(block);
  return block;
}

BlockIndex KvPool::Copy(BlockIndex block) {
  const BlockIndex copy = Allocate();
  if (copy == kNoBlock)
    return kNoBlock;
  if (FloatCopy(block) >= 0 && !TakeFloatCopy(copy)) {
    Release(copy);
    return kNoBlock;
  }
  CopyContent(block, copy);
  Release(block);
  ++counters_.copies;
  return copy;
}

void KvPool::CopyContent(BlockIndex from, BlockIndex to) {
  for (int32_t layer = 0; layer < config_.layers; ++layer) {
    std::memcpy(BlockBytes(layer, to).data(), BlockBytes(layer, from).data(), layout_.block_stride);
    if (FloatCopy(from) >= 0) {
      std::memcpy(CopyBytes(layer, FloatCopy(to)).data(), CopyBytes(layer, FloatCopy(from)).data(),
                  layout_.copy_stride);
    }
  }
}

BlockIndex KvPool::Register(BlockIndex block, const CacheScope& scope, BlockIndex parent,
                            std::span<const int32_t> tokens) {
  const BlockIndex known = index_.Find(scope, parent, tokens);
  if (known != kNoBlock) {
    if (known != block) {
      Retain(known);
      Release(block);
    }
    return known;
  }
  return index_.Insert(block, scope, parent, tokens) ? block : kNoBlock;
}

void KvPool::RetainPrefix(const CacheScope& scope, std::span<const int32_t> tokens,
                          std::vector<BlockIndex>& out) {
  constexpr auto kTokens = static_cast<size_t>(kKvBlockTokens);
  counters_.query_tokens += tokens.size();
  BlockIndex parent = kNoBlock;
  for (size_t begin = 0; begin + kTokens <= tokens.size(); begin += kTokens) {
    parent = index_.Find(scope, parent, tokens.subspan(begin, kTokens));
    if (parent == kNoBlock)
      return;
    Retain(parent);
    out.push_back(parent);
    counters_.hit_tokens += kTokens;
  }
}

void KvPool::DropCached() {
  while (cached_.size() > 0)
    EvictOne();
}

KvStats KvPool::stats() const {
  KvStats stats = counters_;
  stats.total = config_.blocks;
  stats.free = static_cast<int32_t>(free_.size());
  stats.cached = cached_.size();
  stats.used = stats.total - stats.free - stats.cached;
  return stats;
}

}  // namespace tenon
