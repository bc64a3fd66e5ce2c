// Sequence: one request's tokens and the KV blocks that hold them.
//
// A step goes: Reserve(n) makes n slots writable; the step writes KV at positions length() to
// length() + n - 1 through block_table(); Append(tokens) takes in those that count; Commit() makes
// the full blocks findable by other requests.
//
// Speculation over the same KV: the draft's tokens are appended, never committed, and dropped by
// Truncate; the verifying step reserves again, overwrites their slots and commits what it accepted.
// Preemption by recompute is Truncate(0): the committed blocks stay cached, so MatchPrefix finds
// again what was not evicted meanwhile.
//
// Blocks may be shared: by sequences with the same beginning and by forks. What others can see is
// never written: Reserve first makes the last, partly filled block private (copy on write). Commit
// exchanges a block for an equal one that was registered earlier; the engine's results do not
// depend on how they were computed, so their bytes are equal too.
//
// Owns its references (released from the last block to the first). The pool must outlive it.
// Threading: that of its pool.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "engine/kv/kv_pool.h"

namespace tenon {

enum class PrefixCache {
  kOn,
  kOff,  // neither finds other requests' blocks nor leaves any behind
};

enum class Reservation {
  kReady,
  kWait,  // the blocks are in use by others; nothing changed, try again when some were released
};

class Sequence {
 public:
  Sequence(KvPool& pool, CacheScope scope, PrefixCache prefix_cache = PrefixCache::kOn);
  ~Sequence() { Clear(); }
  Sequence(Sequence&& other) noexcept;
  Sequence& operator=(Sequence&& other) noexcept;
  Sequence(const Sequence&) = delete;
  Sequence& operator=(const Sequence&) = delete;

  int64_t length() const { return static_cast<int64_t>(tokens_.size()); }
  std::span<const int32_t> tokens() const { return tokens_; }
  const CacheScope& scope() const { return scope_; }
  PrefixCache prefix_cache() const { return prefix_cache_; }
  // Entry i holds positions 32 i to 32 i + 31. Valid until the next call that isn't const.
  std::span<const BlockIndex> block_table() const { return blocks_; }

  // Takes over cached blocks for the longest prefix of the prompt that is found, and its tokens;
  // returns how many. At most prompt.size() - 1, so that one token is left to compute logits from.
  // REQUIRES: the sequence is empty.
  int64_t MatchPrefix(std::span<const int32_t> prompt);

  // Makes the next `count` positions writable. Fails with kResourceExhausted, giving the numbers,
  // when the pool could never hold that many; all or nothing. REQUIRES: count >= 0.
  Result<Reservation> Reserve(int64_t count);

  // The KV of these tokens was written. REQUIRES: they fit what is reserved.
  void Append(std::span<const int32_t> tokens);

  // Registers the full blocks in the prefix index. The tokens so far are no longer a draft's.
  void Commit();

  // From now on Commit leaves nothing behind: the KV of this sequence is not what another request
  // would compute. Blocks that were registered before stay.
  void StopSharing() { prefix_cache_ = PrefixCache::kOff; }

  // Drops all positions from `length` on, and what is reserved. A cache of a packed type can go on
  // from a block's edge, or within the blocks that the last steps wrote: 32 tokens back from the
  // longest length are always possible (engine/exec/step_blocks.h). REQUIRES: 0 <= length <=
  // length().
  void Truncate(int64_t length);

  // Another sequence with the same tokens, sharing the blocks. Drops what is reserved, here too.
  Sequence Fork();

 private:
  void Clear();
  void ReleaseFrom(size_t block_count);
  bool LastBlockNeedsCopy() const;
  // False, changing nothing, when the pool has no float copy for it.
  bool MakeLastBlockPrivate();

  KvPool* pool_;  // null after a move
  CacheScope scope_;
  PrefixCache prefix_cache_;
  std::vector<int32_t> tokens_;
  std::vector<BlockIndex> blocks_;
  size_t registered_ = 0;     // leading blocks that are whole and in the prefix index
  int64_t reserved_end_ = 0;  // positions from length() to here are writable
};

// Reserve for a caller that has nobody to wait for: kResourceExhausted when the blocks are in use.
Status ReserveNow(Sequence& sequence, int64_t count);

}  // namespace tenon
