// KvPool: the memory of all KV caches, in blocks of kKvBlockTokens tokens.
//
// Every block is in one of three states, and their counts always sum to the whole:
//   free    nothing in it
//   used    one or more sequences refer to it
//   cached  no sequence refers to it, but the prefix index can find it; the first to be evicted
//
// Eviction takes the cached block that was released longest ago. Sequences release their blocks
// from the last to the first, and a sequence that holds a registered block holds the ones before it
// as well, so a block is always released before its predecessor: tails of chains go before their
// heads, and what is left of a chain can still be found.
//
// Bytes of a free or fresh block are whatever was there before: kernels read the slots of committed
// tokens only.
//
// Float copies, for packed types only (hal/kv_block.h): a block can have its f16 form beside it.
// Who writes a block takes one first; it is there as long as the block may be written again. The
// first block of a sequence keeps its copy as long as it holds anything, since attention sinks are
// read from it; a cached block keeps one only if it is such a first one.
//
// Where later needs go: a swap or a checkpoint copies BlockBytes of a sequence's blocks out and
// releases them; export to another process sends LayerBytes, or BlockBytes layer by layer.
//
// Owns the memory. Must outlive its sequences (sequence.h), and stay where it is while there are
// any. Threading: one thread at a time for the bookkeeping; the bytes as the plan's steps use them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "engine/kv/kv_layout.h"
#include "engine/kv/lru_list.h"
#include "engine/kv/prefix_index.h"
#include "tensor/buffer.h"

namespace tenon {

struct KvStats {
  int32_t total = 0;  // blocks; free + cached + used
  int32_t free = 0;
  int32_t cached = 0;
  int32_t used = 0;
  // Since the pool was made:
  uint64_t query_tokens = 0;  // tokens that were looked up in the prefix index
  uint64_t hit_tokens = 0;    // of these, tokens found
  uint64_t evictions = 0;     // blocks
  uint64_t copies = 0;        // blocks copied on write
};

class KvPool {
 public:
  // Reserves the memory. The hash key is random for each pool; `hash` is for tests.
  static Result<KvPool> Create(const KvConfig& config, KeyedHash hash = SipHash24);

  KvPool(KvPool&&) = default;
  KvPool& operator=(KvPool&&) = default;

  const KvConfig& config() const { return config_; }
  const KvLayout& layout() const { return layout_; }

  // This layer's and head's keys or values in block 0; block b lies b * block_stride() bytes on.
  std::byte* KeyBase(int32_t layer, int32_t head) const;
  std::byte* ValueBase(int32_t layer, int32_t head) const;
  // The same of float copy 0; copy c lies c * copy_stride() bytes on. Keys, then values, of KvType
  // kF16.
  std::byte* CopyBase(int32_t layer, int32_t head) const;
  int64_t copy_stride() const { return static_cast<int64_t>(layout_.copy_stride); }
  int64_t block_stride() const { return static_cast<int64_t>(layout_.block_stride); }

  // All of the pool's memory.
  std::span<std::byte> bytes() const { return memory_.bytes(); }
  // All blocks of one layer, and one block of one layer: [kv_head][keys | values].
  std::span<std::byte> LayerBytes(int32_t layer) const;
  std::span<std::byte> BlockBytes(int32_t layer, BlockIndex block) const;
  // One float copy of one layer: f16 [kv_head][keys | values].
  std::span<std::byte> CopyBytes(int32_t layer, int32_t copy) const;

  // kResourceExhausted, with the numbers, when `tokens` tokens could not be held even if nothing
  // else were: such a request is refused, instead of waiting for ever.
  Status CheckFits(int64_t tokens) const;

  // Blocks that Allocate could give one after the other: the free and the cached ones.
  int32_t available() const { return static_cast<int32_t>(free_.size()) + cached_.size(); }

  // A block with one reference, its bytes undefined; evicts when none is free. kNoBlock when all
  // are used.
  BlockIndex Allocate();
  // One more reference to a used or cached block.
  void Retain(BlockIndex block);
  // One reference less. The last one leaves the block cached when it is registered, else free.
  // A sequence releases its blocks from the last to the first.
  void Release(BlockIndex block);

  // The block's float copy, or -1.
  int32_t FloatCopy(BlockIndex block) const { return copy_of_[static_cast<size_t>(block)]; }
  // Gives the block a float copy, its bytes undefined, if it has none; evicts cached blocks that
  // have one when none is free. False when all belong to blocks in use.
  bool TakeFloatCopy(BlockIndex block);
  void DropFloatCopy(BlockIndex block);
  int32_t free_float_copies() const { return static_cast<int32_t>(free_copies_.size()); }

  int32_t RefCount(BlockIndex block) const { return refs_[static_cast<size_t>(block)]; }
  bool IsRegistered(BlockIndex block) const { return index_.Contains(block); }

  // Whether MakePrivate would have to copy, and so needs an available block.
  bool NeedsCopy(BlockIndex block) const;
  // A block with the same bytes that only the caller sees, to which the caller's reference moves:
  // `block` itself where nobody else refers to it and nothing registered follows it (it leaves the
  // index, if it was there), else a copy. kNoBlock, changing nothing, when none is available.
  BlockIndex MakePrivate(BlockIndex block);

  // Makes the caller's full block findable. Returns the block that the index has for these tokens:
  // `block` itself, or an equal one that was registered before, to which the caller's reference
  // moves; kNoBlock when the hash is taken by other tokens, and then no later block of the sequence
  // can be registered either.
  BlockIndex Register(BlockIndex block, const CacheScope& scope, BlockIndex parent,
                      std::span<const int32_t> tokens);

  // Appends to `out`, with a reference each, the registered blocks of the longest prefix of
  // `tokens` that is found, looking at whole blocks only.
  void RetainPrefix(const CacheScope& scope, std::span<const int32_t> tokens,
                    std::vector<BlockIndex>& out);

  // Forgets everything that is cached. Blocks in use stay findable; an adapter whose weights change
  // takes a new id instead.
  void DropCached();

  KvStats stats() const;

 private:
  KvPool(const KvConfig& config, const KvLayout& layout, Buffer memory, PrefixIndex index);

  void EvictOne();
  void Free(BlockIndex block);
  BlockIndex Copy(BlockIndex block);
  void CopyContent(BlockIndex from, BlockIndex to);

  KvConfig config_;
  KvLayout layout_;
  Buffer memory_;
  PrefixIndex index_;
  LruList cached_;
  std::vector<BlockIndex> free_;  // used as a stack, so that the warmest memory is reused first
  std::vector<int32_t> refs_;     // [blocks]
  std::vector<int32_t> copy_of_;  // [blocks] float copy, or -1
  std::vector<int32_t> free_copies_;
  KvStats counters_;
};

}  // namespace tenon
