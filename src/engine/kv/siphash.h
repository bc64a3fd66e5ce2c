// SipHash-2-4: a keyed 64-bit hash that can't be steered without its key.
//
// Aumasson, Bernstein, "SipHash: a fast short-input PRF", INDOCRYPT 2012. Who chooses prompts must
// not be able to choose collisions. Threading: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"

namespace tenon {

struct SipKey {
  uint64_t low = 0;   // bytes 0..7 of the paper's key, little-endian
  uint64_t high = 0;  // bytes 8..15
};

uint64_t SipHash24(const SipKey& key, std::span<const std::byte> bytes);

// A key from the system's random source; fails with kIo when that refuses.
Result<SipKey> RandomSipKey();

}  // namespace tenon
