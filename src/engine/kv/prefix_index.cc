#include "engine/kv/prefix_index.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace tenon {

PrefixIndex::PrefixIndex(int32_t blocks, const SipKey& key, KeyedHash hash)
    : key_(key), hash_(hash), entries_(static_cast<size_t>(blocks)) {}

// adapter | salt. Of a length that no chain of a later block has to fear: a collision is only a
// miss.
uint64_t PrefixIndex::ScopeHash(const CacheScope& scope) const {
  std::vector<std::byte> bytes(sizeof(scope.adapter) + scope.salt.size());
  std::memcpy(bytes.data(), &scope.adapter, sizeof(scope.adapter));
  std::memcpy(bytes.data() + sizeof(scope.adapter), scope.salt.data(), scope.salt.size());
  return hash_(key_, bytes);
}

// hash of what stands before | tokens.
uint64_t PrefixIndex::ChainHash(const CacheScope& scope, BlockIndex parent,
                                std::span<const int32_t> tokens) const {
  const uint64_t before = parent == kNoBlock ? ScopeHash(scope) : entry(parent).hash;
  std::array<std::byte, sizeof(before) + sizeof(BlockTokens)> bytes;
  std::memcpy(bytes.data(), &before, sizeof(before));
  std::memcpy(bytes.data() + sizeof(before), tokens.data(), tokens.size_bytes());
  return hash_(key_, bytes);
}

bool PrefixIndex::Matches(const Entry& candidate, const CacheScope& scope, BlockIndex parent,
                          std::span<const int32_t> tokens) const {
  return candidate.parent == parent && (parent != kNoBlock || candidate.scope == scope) &&
         std::equal(tokens.begin(), tokens.end(), candidate.tokens.begin());
}

BlockIndex PrefixIndex::Find(const CacheScope& scope, BlockIndex parent,
                             std::span<const int32_t> tokens) const {
  TENON_CHECK(tokens.size() == static_cast<size_t>(kKvBlockTokens));
  TENON_CHECK(parent == kNoBlock || Contains(parent));
  const auto found = by_hash_.find(ChainHash(scope, parent, tokens));
  if (found == by_hash_.end() || !Matches(entry(found->second), scope, parent, tokens))
    return kNoBlock;
  return found->second;
}

bool PrefixIndex::Insert(BlockIndex block, const CacheScope& scope, BlockIndex parent,
                         std::span<const int32_t> tokens) {
  TENON_CHECK(tokens.size() == static_cast<size_t>(kKvBlockTokens));
  TENON_CHECK(!Contains(block) && (parent == kNoBlock || Contains(parent)));
  const uint64_t hash = ChainHash(scope, parent, tokens);
  if (!by_hash_.try_emplace(hash, block).second)
    return false;
  Entry& added = entry(block);
  added.registered = true;
  added.hash = hash;
  added.parent = parent;
  std::copy(tokens.begin(), tokens.end(), added.tokens.begin());
  if (parent == kNoBlock)
    added.scope = scope;
  else
    ++entry(parent).children;
  return true;
}

void PrefixIndex::Erase(BlockIndex block) {
  Entry& erased = entry(block);
  TENON_CHECK(erased.registered && erased.children == 0);
  by_hash_.erase(erased.hash);
  if (erased.parent != kNoBlock)
    --entry(erased.parent).children;
  erased = {};
}

}  // namespace tenon
