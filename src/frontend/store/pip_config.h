// Where pip would look for packages on this machine: the index, local directories, certificates.
//
// Read from pip's configuration files and from its environment variables, so that a machine whose
// pip works behind a mirror or a proxy can pull models too.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "frontend/store/environment.h"

namespace tenon {

struct PipConfig {
  // Tried in order: index-url, then extra-index-url. Empty: no-index is set.
  std::vector<std::string> index_urls;
  // Local directories of find-links. Its URLs are ignored.
  std::vector<std::filesystem::path> wheel_directories;
  std::filesystem::path certificates;  // "cert", empty if not set
};

// Reads the files that exist; one that can't be read or parsed is skipped with a warning in the
// log.
PipConfig ReadPipConfig(const Environment& environment);

// Key and value pairs that count for `pip install` in the text of a configuration file, in order;
// keys as pip normalizes them ("index_url" is "index-url").
std::vector<std::pair<std::string, std::string>> ParsePipConfig(std::string_view text);

}  // namespace tenon
