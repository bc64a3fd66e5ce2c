// Hugging Face directories in the store: models/<name>/ with config.json, weights and tokenizer.
#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

#include "frontend/store/hugging_face.h"
#include "frontend/store/model_record.h"

namespace tenon {

inline constexpr std::string_view kDirectoryConfig = "config.json";

// True for a directory that holds a model.
bool IsModelDirectory(const std::filesystem::path& path);

// Its files, config.json first, under names relative to the directory above.
std::vector<StoredFile> DirectoryFiles(const std::filesystem::path& directory);

// The files of a repository that make up a directory's model: config.json first, safetensors, and
// what is about text. Empty when the repository has no such model.
std::vector<HubFile> ChooseDirectoryFiles(const std::vector<HubFile>& files);

}  // namespace tenon
