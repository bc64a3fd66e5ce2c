// The safetensors files of one model directory: model.safetensors, or the shards that
// model.safetensors.index.json names.
#pragma once

#include <filesystem>
#include <vector>

#include "base/mapped_file.h"
#include "base/result.h"
#include "model/safetensors/safetensors_reader.h"

namespace tenon {

// files[i] holds the bytes of parsed[i].
struct SafetensorsShards {
  std::vector<MappedFile> files;
  std::vector<SafetensorsFile> parsed;
};

// Opens and parses the files. With an index, a shard that it names and that is missing is named,
// names that lead out of the directory are refused (links are followed: the Hugging Face cache is
// made of them), and every tensor must be in the shard that the index says.
Result<SafetensorsShards> OpenSafetensorsShards(const std::filesystem::path& directory);

}  // namespace tenon
