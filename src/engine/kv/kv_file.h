// KvFile: one sequence's tokens and KV on disk, to go on with it later or in another process.
//
// Little-endian:
//   "TENONKV2" | identity: u32 length, bytes; u64 adapter | u32 KV type, layers, KV heads, head
//   size, tokens of a block | u64 token count | i32 tokens | blocks [block][layer][block_stride] |
//   u64 checksum of all that (SipHash-2-4 with a fixed key: it finds damage, it proves no origin)
// Slots of the last block that hold no token are zero: what was in that memory is somebody else's.
//
// Both functions hold the whole file in memory. Threading: that of the pool.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "base/result.h"
#include "engine/kv/kv_pool.h"
#include "engine/kv/sequence.h"

namespace tenon {

// What the KV depends on beside the tokens.
struct KvFileIdentity {
  std::string model;       // a digest of the model's file and of how its weights are packed
  uint64_t adapter = 0;    // 0: the plain model
  int32_t vocab_size = 0;  // tokens of a file must be below it; not stored
};

// Replaces `path`, or leaves it as it was. Fails with kInvalidArgument for an empty sequence.
Status SaveSequence(const std::filesystem::path& path, const KvPool& pool, const Sequence& sequence,
                    const KvFileIdentity& identity);

// A sequence of `scope` with the file's tokens, whose full blocks other requests of the scope can
// find. Fails with kCorrupt for damage, with kInvalidArgument, naming the field, for another model,
// adapter or KV layout, and with kResourceExhausted when the pool has no room.
Result<Sequence> RestoreSequence(const std::filesystem::path& path, KvPool& pool,
                                 const CacheScope& scope, const KvFileIdentity& identity);

}  // namespace tenon
