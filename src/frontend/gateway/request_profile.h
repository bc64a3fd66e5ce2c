// RequestProfile: what the gateway reads of a request to place it. The body itself is handed on as
// it is.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tenon {

struct RequestProfile {
  std::string model;  // "": none was named
  // Of the first bytes of the prompt or messages; equal beginnings meet on one replica, whose KV
  // cache then holds them. 0: nothing to go by.
  uint64_t prefix_hash = 0;
  int64_t tokens = 0;  // estimated work: prompt and what may be generated
};

// Of any body: one that is not JSON has no model and no prefix.
RequestProfile ReadProfile(std::string_view body, size_t prefix_bytes);

// FNV-1a (Fowler, Noll, Vo), 64 bits. For placing only: not safe against chosen collisions.
uint64_t HashBytes(std::string_view bytes, uint64_t seed = 0xcbf29ce484222325);

}  // namespace tenon
