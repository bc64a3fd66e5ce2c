#include "model/gguf/gguf_shards.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace tenon {
namespace {

namespace fs = std::filesystem;

// Shard number and count have five digits in a name.
constexpr int64_t kMostShards = 99999;

// What a file says of its place in a split model.
struct Split {
  int64_t index = 0;    // split.no, from 0
  int64_t count = 1;    // split.count
  int64_t tensors = 0;  // split.tensors.count, of all shards; 0: not said
};

Result<Split> ReadSplit(const GgufMetadata& metadata) {
  Split split;
  TENON_ASSIGN_OR_RETURN(const auto count, metadata.Integer("split.count"));
  TENON_ASSIGN_OR_RETURN(const auto index, metadata.Integer("split.no"));
  TENON_ASSIGN_OR_RETURN(const auto tensors, metadata.Integer("split.tensors.count"));
  // 0 and 1 are what tools write into a file that was not split, or was merged again.
  split.count = std::max<int64_t>(count.value_or(1), 1);
  split.index = index.value_or(0);
  split.tensors = tensors.value_or(0);
  if (split.count > kMostShards) {
    return metadata.ErrorAt("split.count",
                            fmt::format("{} found, at most {} expected", split.count, kMostShards));
  }
  if (split.index < 0 || split.index >= split.count) {
    return metadata.ErrorAt(
        "split.no", fmt::format("{} found, 0 to {} expected", split.index, split.count - 1));
  }
  return split;
}

// "-00001-of-00003.gguf" for index 0 of 3.
std::string ShardSuffix(int64_t index, int64_t count) {
  return fmt::format("-{:05}-of-{:05}.gguf", index + 1, count);
}

Result<GgufFile> OpenShard(const fs::path& path, GgufShards& shards) {
  TENON_ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(path));
  TENON_ASSIGN_OR_RETURN(GgufFile parsed, ParseGguf(file.bytes(), path.string()));
  shards.files.push_back(std::move(file));
  return parsed;
}

// The name that all shards of the model begin with, from the name of shard `split`.
Result<std::string> CommonName(const fs::path& path, const Split& split) {
  const std::string name = path.filename().string();
  const std::string suffix = ShardSuffix(split.index, split.count);
  if (name.size() <= suffix.size() || !name.ends_with(suffix)) {
    return InvalidArgument(
        fmt::format("the file is shard {} of {} of a split model, so its name must end in '{}' for "
                    "the others to be found",
                    split.index + 1, split.count, suffix),
        path.string());
  }
  return name.substr(0, name.size() - suffix.size());
}

Status CheckSibling(const GgufFile& sibling, int64_t index, const Split& first) {
  TENON_ASSIGN_OR_RETURN(const Split split, ReadSplit(sibling.metadata));
  if (split.index == index && split.count == first.count)
    return {};
  return Corrupt(
      fmt::format("the file says that it is shard {} of {}, its name that it is {} of {}",
                  split.index + 1, split.count, index + 1, first.count),
      sibling.metadata.name());
}

Result<GgufFile> OpenSibling(const fs::path& path, int64_t index, const Split& given,
                             GgufShards& shards) {
  auto sibling = OpenShard(path, shards);
  if (!sibling.ok() && sibling.error().code == ErrorCode::kNotFound) {
    return NotFound(fmt::format("shard {} of {} is missing", index + 1, given.count),
                    path.string());
  }
  if (sibling.ok())
    TENON_RETURN_IF_ERROR(CheckSibling(*sibling, index, given));
  return sibling;
}

Status CheckTensorCount(const GgufShards& shards, const Split& given) {
  int64_t found = 0;
  for (const GgufFile& shard : shards.parsed)
    found += static_cast<int64_t>(shard.tensors.size());
  if (given.tensors == 0 || given.tensors == found)
    return {};
  return shards.parsed.front().metadata.ErrorAt(
      "split.tensors.count",
      fmt::format("{} found, but the shards have {} tensors", given.tensors, found));
}

}  // namespace

Result<GgufShards> OpenGgufShards(const fs::path& path) {
  GgufShards shards;
  TENON_ASSIGN_OR_RETURN(GgufFile given, OpenShard(path, shards));
  TENON_ASSIGN_OR_RETURN(const Split split, ReadSplit(given.metadata));
  if (split.count == 1) {
    shards.parsed.push_back(std::move(given));
    return shards;
  }
  TENON_ASSIGN_OR_RETURN(const std::string name, CommonName(path, split));
  shards.files.clear();
  for (int64_t i = 0; i < split.count; ++i) {
    const fs::path sibling = path.parent_path() / (name + ShardSuffix(i, split.count));
    TENON_ASSIGN_OR_RETURN(GgufFile parsed, OpenSibling(sibling, i, split, shards));
    shards.parsed.push_back(std::move(parsed));
  }
  TENON_RETURN_IF_ERROR(CheckTensorCount(shards, split));
  return shards;
}

}  // namespace tenon
