// How tensors are divided over the files of a model.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tenon {

// One past the last tensor of each file, in the order of the tensors, each file as full as it may
// be: at most `shard_bytes` (0: all in one), or one tensor that is larger. `sizes` are the
// tensors'.
std::vector<size_t> ShardEnds(std::span<const uint64_t> sizes, uint64_t shard_bytes);

}  // namespace tenon
