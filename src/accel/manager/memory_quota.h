// What part of the module memory each module gets.
//
// A module names the bytes that it wants and the least that it can work with. Its share is a limit:
// what one does not take is not given to another, so no module's start depends on the others'. Pure
// functions over plain data.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace tenon {

enum class MemoryLimit : uint8_t { kShare, kNone };

struct MemoryRequest {
  std::string module;
  double share = 0.0;  // of the module memory, 0 to 1
  int64_t wanted = 0;  // bytes
  int64_t least = 0;   // bytes; least <= wanted
  MemoryLimit limit = MemoryLimit::kShare;
};

enum class MemoryVerdict : uint8_t {
  kGranted,
  kShrunk,   // fewer bytes than wanted, enough to work
  kRefused,  // its least is more than its share
};

struct MemoryGrant {
  MemoryVerdict verdict = MemoryVerdict::kGranted;
  int64_t bytes = 0;  // 0 when refused
  int64_t limit = 0;  // its share in bytes
};

// Fails with kInvalidArgument when the shares are out of range or together above 100%.
Result<std::vector<MemoryGrant>> GrantMemory(int64_t module_memory,
                                             std::span<const MemoryRequest> requests);

}  // namespace tenon
