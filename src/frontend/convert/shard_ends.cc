#include "frontend/convert/shard_ends.h"

#include <algorithm>

namespace tenon {

std::vector<size_t> ShardEnds(std::span<const uint64_t> sizes, uint64_t shard_bytes) {
  std::vector<size_t> ends;
  uint64_t bytes = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (shard_bytes > 0 && bytes > 0 && sizes[i] > shard_bytes - std::min(bytes, shard_bytes)) {
      ends.push_back(i);
      bytes = 0;
    }
    bytes += sizes[i];
  }
  ends.push_back(sizes.size());
  return ends;
}

}  // namespace tenon
