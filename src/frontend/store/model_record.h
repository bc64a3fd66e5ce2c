// ModelRecord: what the store knows of a model, kept as "<name>.json" beside its file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"

namespace tenon {

struct StoredFile {
  std::string name;  // in the store's folder; "<directory>/<file>" of a Hugging Face directory
  uint64_t bytes = 0;
  std::string sha256;
};

struct ModelRecord {
  std::string name;
  std::filesystem::path path;     // to open: the model's file, its first shard or its directory
  std::vector<StoredFile> files;  // the model, or its shards in order
  std::string source;        // "pypi:...", "hf:org/repo:file.gguf", a URL; "" if put there by hand
  std::string licence;       // its short name, "" if not known
  std::string licence_name;  // for people
  std::string licence_url;
  std::string date;  // when it was pulled, "2026-01-31T12:00:00Z"

  uint64_t bytes() const;
};

// JSON, with a line end.
std::string FormatModelRecord(const ModelRecord& record);

// The path is left empty. Fields of the wrong type are an error; unknown ones are ignored.
Result<ModelRecord> ParseModelRecord(std::string_view text, const std::string& where);

}  // namespace tenon
