#include "frontend/store/model_directory.h"

#include <algorithm>
#include <array>
#include <string>
#include <system_error>

namespace tenon {
namespace {

namespace fs = std::filesystem;

// What is read beside the weights (docs/models.md).
constexpr std::array<std::string_view, 8> kTextFiles = {
    "config.json",           "generation_config.json",      "tokenizer.json",
    "tokenizer_config.json", "special_tokens_map.json",     "chat_template.jinja",
    "chat_template.json",    "model.safetensors.index.json"};

bool IsWanted(std::string_view path) {
  if (path.find('/') != std::string_view::npos)
    return false;
  return std::find(kTextFiles.begin(), kTextFiles.end(), path) != kTextFiles.end() ||
         (path.starts_with("model") && path.ends_with(".safetensors"));
}

}  // namespace

bool IsModelDirectory(const fs::path& path) {
  std::error_code error;
  const std::string name = path.filename().string();
  // Other programs' models have a config.json too, but not these weights.
  return !name.starts_with('.') && fs::is_regular_file(path / kDirectoryConfig, error) &&
         (fs::is_regular_file(path / "model.safetensors", error) ||
          fs::is_regular_file(path / "model.safetensors.index.json", error));
}

std::vector<StoredFile> DirectoryFiles(const fs::path& directory) {
  std::vector<StoredFile> files;
  std::error_code error;
  const std::string prefix = directory.filename().string() + "/";
  for (fs::directory_iterator entry(directory, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    std::error_code size_error;
    const uintmax_t bytes = fs::file_size(entry->path(), size_error);
    if (!size_error)
      files.push_back({prefix + entry->path().filename().string(), bytes, {}});
  }
  const std::string config = prefix + std::string(kDirectoryConfig);
  std::sort(files.begin(), files.end(), [&](const StoredFile& a, const StoredFile& b) {
    const bool a_first = a.name == config;
    const bool b_first = b.name == config;
    return a_first != b_first ? a_first : a.name < b.name;
  });
  return files;
}

std::vector<HubFile> ChooseDirectoryFiles(const std::vector<HubFile>& files) {
  std::vector<HubFile> chosen;
  bool weights = false;
  for (const HubFile& file : files) {
    if (!IsWanted(file.path))
      continue;
    weights = weights || file.path.ends_with(".safetensors");
    chosen.push_back(file);
  }
  const auto config = std::find_if(chosen.begin(), chosen.end(), [](const HubFile& file) {
    return file.path == kDirectoryConfig;
  });
  if (!weights || config == chosen.end())
    return {};
  std::rotate(chosen.begin(), config, config + 1);
  return chosen;
}

}  // namespace tenon
