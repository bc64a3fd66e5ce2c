// The safetensors files of a directory that is written: which tensors, in which shards, and their
// bytes.
//
// Threading: one thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/safetensors/safetensors_writer.h"

namespace tenon {

// Takes the next bytes of a tensor.
using ByteSink = std::function<Status(std::span<const std::byte>)>;

// A tensor to write: its plan, and what puts its bytes.
struct PlannedTensor {
  SafetensorsPlan plan;
  std::function<Status(const ByteSink&)> write;
};

// Writes model.safetensors, or with `shard_bytes` above 0 and more tensors than that many bytes,
// model-0000k-of-0000n.safetensors and model.safetensors.index.json. A tensor that is larger than a
// shard has one for itself.
Status WriteTensorFiles(std::vector<PlannedTensor> tensors, uint64_t shard_bytes,
                        const std::filesystem::path& directory);

}  // namespace tenon
