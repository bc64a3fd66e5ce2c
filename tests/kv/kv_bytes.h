// Stands in for the attention layers: writes KV that depends on all tokens up to a position, and
// checks that it is still what a sequence sees.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>

#include "engine/kv/sequence.h"

namespace tenon {

// Float elements as integers, so that equality is exact.
inline constexpr KvConfig kBytesConfig = {KvType::kF32, 2, 2, 8, 0};

inline uint32_t Mix(uint64_t value) {
  value = (value ^ (value >> 31)) * 0x7fb5d329728ea185ULL;
  value = (value ^ (value >> 27)) * 0x81dadef4bc2dd44dULL;
  return static_cast<uint32_t>(value >> 32);
}

// What stands for the KV at the last of `tokens`; `origin` tells scopes and drafts apart.
inline uint64_t Fingerprint(std::span<const int32_t> tokens, uint64_t origin) {
  uint64_t state = origin + 1;
  for (const int32_t token : tokens)
    state = (state ^ static_cast<uint64_t>(token)) * 0x100000001b3ULL + 17;
  return state;
}

// Calls visit(address, value) for every element of one position.
template <class Visit>
void ForEachElement(const KvPool& pool, std::span<const BlockIndex> table, int64_t position,
                    uint64_t fingerprint, Visit visit) {
  const KvConfig& config = pool.config();
  const int64_t block = table[static_cast<size_t>(position / kKvBlockTokens)];
  const int64_t slot = position % kKvBlockTokens;
  for (int32_t layer = 0; layer < config.layers; ++layer) {
    for (int32_t head = 0; head < config.kv_heads; ++head) {
      std::byte* keys = pool.KeyBase(layer, head) + block * pool.block_stride();
      std::byte* values = pool.ValueBase(layer, head) + block * pool.block_stride();
      for (int64_t d = 0; d < config.head_dim; ++d) {
        const uint64_t place = fingerprint * 31 + static_cast<uint64_t>((layer * 2 + head) * 8 + d);
        visit(keys + 4 * (d * kKvBlockTokens + slot), Mix(place));
        visit(values + 4 * (slot * config.head_dim + d), Mix(~place));
      }
    }
  }
}

inline void WritePosition(const KvPool& pool, const Sequence& sequence, int64_t position,
                          uint64_t fingerprint) {
  ForEachElement(pool, sequence.block_table(), position, fingerprint,
                 [](std::byte* at, uint32_t value) { std::memcpy(at, &value, sizeof(value)); });
}

inline bool HoldsPosition(const KvPool& pool, const Sequence& sequence, int64_t position,
                          uint64_t fingerprint) {
  bool equal = true;
  ForEachElement(pool, sequence.block_table(), position, fingerprint,
                 [&](const std::byte* at, uint32_t value) {
                   equal = equal && std::memcmp(at, &value, sizeof(value)) == 0;
                 });
  return equal;
}

// A step of the engine: reserve, write, append. Returns what Reserve said.
inline Reservation Step(const KvPool& pool, Sequence& sequence, std::span<const int32_t> tokens,
                        uint64_t origin) {
  auto reserved = sequence.Reserve(static_cast<int64_t>(tokens.size()));
  if (!reserved.ok() || *reserved == Reservation::kWait)
    return Reservation::kWait;
  std::vector<int32_t> all(sequence.tokens().begin(), sequence.tokens().end());
  for (const int32_t token : tokens) {
    all.push_back(token);
    WritePosition(pool, sequence, static_cast<int64_t>(all.size()) - 1, Fingerprint(all, origin));
  }
  sequence.Append(tokens);
  return Reservation::kReady;
}

inline bool HoldsAll(const KvPool& pool, const Sequence& sequence, uint64_t origin) {
  for (size_t n = 1; n <= sequence.tokens().size(); ++n) {
    if (!HoldsPosition(pool, sequence, static_cast<int64_t>(n) - 1,
                       Fingerprint(sequence.tokens().first(n), origin)))
      return false;
  }
  return true;
}

}  // namespace tenon
