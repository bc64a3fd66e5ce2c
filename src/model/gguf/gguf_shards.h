// The files of one GGUF model: one, or the shards of a split model.
#pragma once

#include <filesystem>
#include <vector>

#include "base/mapped_file.h"
#include "base/result.h"
#include "model/gguf/gguf_reader.h"

namespace tenon {

// files[i] holds the bytes that parsed[i] points into.
struct GgufShards {
  std::vector<MappedFile> files;
  std::vector<GgufFile> parsed;
};

// Opens and parses the file at `path` and, if it says that it is one of several (split.count), all
// of them in the order of split.no.
Result<GgufShards> OpenGgufShards(const std::filesystem::path& path);

}  // namespace tenon
