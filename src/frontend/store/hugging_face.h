// The Hugging Face Hub: names of models in it, the files of a repository, and the choice among
// them.
//
// Answers of the server are untrusted: paths, sizes and digests are checked before they are used.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "frontend/store/environment.h"
#include "frontend/store/http_client.h"

namespace tenon {

enum class Network { kAllowed, kOffline };

struct HubSettings {
  std::string endpoint = "https://huggingface.co";  // HF_ENDPOINT, without a slash at its end
  std::string token;                                // HF_TOKEN; sent to the endpoint only
  Network network = Network::kAllowed;              // HF_HUB_OFFLINE
};

HubSettings ReadHubSettings(const Environment& environment);

// "org/repo", "hf:org/repo", either with ":file.gguf" or ":Q8_0" after it.
struct HubName {
  std::string repository;         // "org/repo"
  std::string selector;           // a file or a quantization, "" for the default
  std::string revision = "main";  // a branch, tag or commit
};

// nullopt if the text is no such name.
std::optional<HubName> ParseHubName(std::string_view text);

// The same from a web address of a file at the endpoint
// ("https://huggingface.co/org/repo/resolve/main/file.gguf"); nullopt for another address.
std::optional<HubName> ParseHubUrl(std::string_view url, std::string_view endpoint);

struct HubFile {
  std::string path;  // inside the repository
  uint64_t bytes = 0;
  std::string sha256;  // "" for a file that is not in large-file storage
};

struct HubRepository {
  std::string revision;  // the commit, so that all files are of one state
  std::string licence;   // the repository's own word, "" if it says nothing
  std::vector<HubFile> files;
};

Result<HubRepository> FetchHubRepository(HttpClient& client, const HubSettings& settings,
                                         const HubName& name);

// The GGUF file that `name` means, or all shards of it in order. Without a selector: Q4_K_M if
// there is one, else the next in a fixed order, else the only one. kNotFound lists what there is.
Result<std::vector<HubFile>> ChooseHubFiles(const std::vector<HubFile>& files, const HubName& name);

// True if a file of the repository at this path is one that the selector asks for.
bool MatchesSelector(std::string_view path, std::string_view selector);

// True if a record's source ("hf:org/repo:file.gguf") is what `name` means.
bool IsHubSource(std::string_view source, const HubName& name);

// Where the file is downloaded from.
FetchRequest HubFileRequest(const HubSettings& settings, const HubName& name,
                            std::string_view revision, std::string_view path);

// "model-00002-of-00003.gguf" -> {"model", 2, 3}; another name is {stem, 1, 1}.
struct ShardName {
  std::string prefix;
  int index = 1;
  int count = 1;
};
ShardName ParseShardName(std::string_view file_name);

}  // namespace tenon
