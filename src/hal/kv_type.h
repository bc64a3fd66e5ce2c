// Names of KV cache types. Threading: pure functions.
#pragma once

#include <string_view>

#include "base/result.h"
#include "hal/kv_block.h"

namespace tenon {

// f32, f16, bf16, q8, q4, nf4, hier.
std::string_view KvTypeName(KvType type);

// Takes these, llama-server's spellings for the same number of bits (q8_0, q4_0) and those of a
// configuration (8bit, 4bit, 4bit_nf4, hierarchical and longer ones). kInvalidArgument names what
// is known.
Result<KvType> ParseKvType(std::string_view name);

}  // namespace tenon
