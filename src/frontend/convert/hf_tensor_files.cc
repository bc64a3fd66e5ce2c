#include "frontend/convert/hf_tensor_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>

#include "frontend/convert/shard_ends.h"

namespace tenon {
namespace {

namespace fs = std::filesystem;
using Shard = std::span<PlannedTensor>;

std::vector<Shard> Divide(std::span<PlannedTensor> tensors, uint64_t shard_bytes) {
  std::vector<uint64_t> sizes;
  for (const PlannedTensor& tensor : tensors)
    sizes.push_back(tensor.plan.bytes());
  std::vector<Shard> shards;
  size_t first = 0;
  for (const size_t end : ShardEnds(sizes, shard_bytes)) {
    shards.push_back(tensors.subspan(first, end - first));
    first = end;
  }
  return shards;
}

uint64_t ValueBytes(const PlannedTensor& tensor) {
  return GetSafetensorsTypeInfo(tensor.plan.type).bytes;
}

Status WriteShard(Shard shard, const fs::path& path) {
  // Wider types first: every value is aligned.
  std::ranges::stable_sort(shard, std::greater(), ValueBytes);
  std::vector<SafetensorsPlan> plans;
  for (const PlannedTensor& tensor : shard)
    plans.push_back(tensor.plan);
  TENON_ASSIGN_OR_RETURN(SafetensorsWriter writer, SafetensorsWriter::Create(path, plans));
  for (const PlannedTensor& tensor : shard)
    TENON_RETURN_IF_ERROR(
        tensor.write([&](std::span<const std::byte> bytes) { return writer.Write(bytes); }));
  return writer.Close();
}

}  // namespace

Status WriteTensorFiles(std::vector<PlannedTensor> tensors, uint64_t shard_bytes,
                        const fs::path& directory) {
  const std::vector<Shard> shards = Divide(tensors, shard_bytes);
  if (shards.size() == 1)
    return WriteShard(shards.front(), directory / "model.safetensors");
  nlohmann::ordered_json index;
  uint64_t total = 0;
  nlohmann::ordered_json map = nlohmann::ordered_json::object();
  auto& members = map.get_ref<nlohmann::ordered_json::object_t&>();
  for (size_t i = 0; i < shards.size(); ++i) {
    const std::string name = fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards.size());
    for (const PlannedTensor& tensor : shards[i]) {
      total += tensor.plan.bytes();
      members.emplace_back(tensor.plan.name, name);
    }
    TENON_RETURN_IF_ERROR(WriteShard(shards[i], directory / name));
  }
  index["metadata"]["total_size"] = total;
  index["weight_map"] = std::move(map);
  return WriteFileAtomic(directory / "model.safetensors.index.json", index.dump(2) + "\n");
}

}  // namespace tenon
