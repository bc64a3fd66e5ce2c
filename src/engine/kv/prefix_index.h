// PrefixIndex: which block holds the KV of which tokens, given all tokens before them.
//
// A full block is found by the keyed hash of its chain: the hash of the block before it, or of the
// scope for the first one, together with its own tokens. A hit counts only when the tokens stored
// with the block are the same, and when its predecessor is the very block that was matched before
// it (for a first block: when the scope is the same). So by induction the whole prefix is equal,
// and a collision of hashes costs a miss, never another request's KV.
//
// Owns the tokens and scopes of registered blocks. Knows nothing of reference counts. Threading:
// one thread at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/kv/kv_layout.h"
#include "engine/kv/siphash.h"

namespace tenon {

// A block of the pool, as the kernels' block tables number them.
using BlockIndex = int32_t;
inline constexpr BlockIndex kNoBlock = -1;

// Who may share KV: only requests with the same adapter and the same tenant salt.
struct CacheScope {
  uint64_t adapter = 0;  // 0: the plain model
  std::string salt;

  bool operator==(const CacheScope&) const = default;
};

using KeyedHash = uint64_t (*)(const SipKey& key, std::span<const std::byte> bytes);

class PrefixIndex {
 public:
  using BlockTokens = std::array<int32_t, static_cast<size_t>(kKvBlockTokens)>;

  // `hash` is SipHash24; tests pass one that collides.
  PrefixIndex(int32_t blocks, const SipKey& key, KeyedHash hash = SipHash24);

  // The block that holds `tokens` [kKvBlockTokens] after `parent` (kNoBlock: at the beginning), or
  // kNoBlock. REQUIRES: parent is registered.
  BlockIndex Find(const CacheScope& scope, BlockIndex parent,
                  std::span<const int32_t> tokens) const;

  // Registers `block` for what Find would look for. Returns false, changing nothing, when another
  // block has the same hash. REQUIRES: parent is registered, block is not.
  bool Insert(BlockIndex block, const CacheScope& scope, BlockIndex parent,
              std::span<const int32_t> tokens);

  // REQUIRES: registered and without children.
  void Erase(BlockIndex block);

  bool Contains(BlockIndex block) const { return entry(block).registered; }
  // REQUIRES: registered.
  bool IsFirst(BlockIndex block) const { return entry(block).parent == kNoBlock; }
  // Registered blocks that follow this one directly.
  int32_t ChildCount(BlockIndex block) const { return entry(block).children; }
  size_t size() const { return by_hash_.size(); }

 private:
  struct Entry {
    bool registered = false;
    int32_t children = 0;
    uint64_t hash = 0;
    BlockIndex parent = kNoBlock;
    CacheScope scope;  // of first blocks only; the others have their parent's
    BlockTokens tokens = {};
  };

  uint64_t ChainHash(const CacheScope& scope, BlockIndex parent,
                     std::span<const int32_t> tokens) const;
  uint64_t ScopeHash(const CacheScope& scope) const;
  bool Matches(const Entry& entry, const CacheScope& scope, BlockIndex parent,
               std::span<const int32_t> tokens) const;
  const Entry& entry(BlockIndex block) const { return entries_[static_cast<size_t>(block)]; }
  Entry& entry(BlockIndex block) { return entries_[static_cast<size_t>(block)]; }

  SipKey key_;
  KeyedHash hash_;
  std::vector<Entry> entries_;  // [blocks]
  std::unordered_map<uint64_t, BlockIndex> by_hash_;
};

}  // namespace tenon
