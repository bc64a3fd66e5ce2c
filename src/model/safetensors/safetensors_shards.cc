#include "model/safetensors/safetensors_shards.h"

#include <fmt/format.h>

#include <map>
#include <string>
#include <system_error>
#include <unordered_map>

#include "base/file_io.h"
#include "model/json/json_document.h"

namespace tenon {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSingle = "model.safetensors";
constexpr std::string_view kIndex = "model.safetensors.index.json";
// An index has about 100 bytes a tensor.
constexpr uint64_t kMaxIndexBytes = 64 << 20;
constexpr size_t kMostShards = 10000;

struct Index {
  std::vector<std::string> shards;                    // file names, ascending
  std::unordered_map<std::string, size_t> tensor_to;  // tensor to index into shards
};

// A plain name of a file in the directory.
bool IsFileName(std::string_view name) {
  return !name.empty() && name.front() != '.' && name.find('/') == std::string_view::npos &&
         name.find('\\') == std::string_view::npos && name.find('\0') == std::string_view::npos;
}

Result<Index> ReadIndex(const fs::path& path) {
  TENON_ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(path, kMaxIndexBytes));
  TENON_ASSIGN_OR_RETURN(const JsonDocument document,
                         JsonDocument::Parse(text, path.string(), JsonDialect::kPython));
  TENON_ASSIGN_OR_RETURN(const JsonValue map, document.root().At("weight_map"));
  TENON_ASSIGN_OR_RETURN(const auto entries, map.Object());
  std::map<std::string, std::vector<std::string>> by_shard;
  for (const auto& [tensor, value] : entries) {
    const JsonValue entry = map.Member(tensor, value);
    TENON_ASSIGN_OR_RETURN(const std::string_view shard, entry.String());
    if (!IsFileName(shard))
      return entry.Wrong(fmt::format("'{}' is no name of a file in this directory", shard));
    by_shard[std::string(shard)].emplace_back(tensor);
    if (by_shard.size() > kMostShards)
      return map.Wrong(fmt::format("more than {} shards", kMostShards));
  }
  if (by_shard.empty())
    return map.Wrong("no tensor is named");
  Index index;
  for (auto& [shard, tensors] : by_shard) {
    for (std::string& tensor : tensors) {
      if (!index.tensor_to.emplace(std::move(tensor), index.shards.size()).second)
        return map.Wrong("a tensor is named twice");
    }
    index.shards.push_back(shard);
  }
  return index;
}

Status OpenOne(const fs::path& path, SafetensorsShards& shards) {
  TENON_ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(path));
  TENON_ASSIGN_OR_RETURN(SafetensorsFile parsed, ParseSafetensors(file.bytes(), path.string()));
  shards.files.push_back(std::move(file));
  shards.parsed.push_back(std::move(parsed));
  return {};
}

// Every tensor of the shards stands in the index, at its shard, and none is missing.
Status CheckIndex(const SafetensorsShards& shards, const Index& index, const fs::path& path) {
  size_t found = 0;
  for (size_t i = 0; i < shards.parsed.size(); ++i) {
    for (const SafetensorsTensor& tensor : shards.parsed[i].tensors) {
      const auto entry = index.tensor_to.find(tensor.name);
      if (entry == index.tensor_to.end() || entry->second != i) {
        return Corrupt(fmt::format("the tensor '{}' is in {}, which is not what the index says",
                                   tensor.name, index.shards[i]),
                       path.string());
      }
      ++found;
    }
  }
  if (found == index.tensor_to.size())
    return {};
  return Corrupt(
      fmt::format("{} tensors are named, but the shards have {}", index.tensor_to.size(), found),
      path.string());
}

}  // namespace

Result<SafetensorsShards> OpenSafetensorsShards(const fs::path& directory) {
  SafetensorsShards shards;
  std::error_code error;
  const fs::path index_path = directory / kIndex;
  // transformers looks for the single file first.
  if (fs::exists(directory / kSingle, error)) {
    TENON_RETURN_IF_ERROR(OpenOne(directory / kSingle, shards));
    return shards;
  }
  if (!fs::exists(index_path, error)) {
    return NotFound(fmt::format("neither {} nor {} is there", kSingle, kIndex), directory.string());
  }
  TENON_ASSIGN_OR_RETURN(const Index index, ReadIndex(index_path));
  for (size_t i = 0; i < index.shards.size(); ++i) {
    const fs::path path = directory / index.shards[i];
    const Status opened = OpenOne(path, shards);
    if (!opened.ok() && opened.error().code == ErrorCode::kNotFound) {
      return NotFound(fmt::format("shard {} of {}, which {} names, is missing", i + 1,
                                  index.shards.size(), kIndex),
                      path.string());
    }
    TENON_RETURN_IF_ERROR(opened);
  }
  TENON_RETURN_IF_ERROR(CheckIndex(shards, index, index_path));
  return shards;
}

}  // namespace tenon
