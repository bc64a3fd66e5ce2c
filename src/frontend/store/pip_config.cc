#include "frontend/store/pip_config.h"

#include <algorithm>
#include <map>
#include <optional>

#include "base/file_io.h"
#include "base/log.h"
#include "frontend/store/ascii.h"
#include "frontend/store/url.h"

namespace tenon {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPublicIndex = "https://pypi.org/simple";
constexpr uint64_t kMaxConfigBytes = 1 << 20;

using Options = std::map<std::string, std::string>;

std::string NormalizeKey(std::string_view key) {
  std::string normalized = LowerCaseAscii(TrimAscii(key));
  std::replace(normalized.begin(), normalized.end(), '_', '-');
  if (normalized.starts_with("--"))
    normalized.erase(0, 2);
  return normalized;
}

std::vector<std::string> SplitWords(std::string_view text) {
  std::vector<std::string> words;
  std::string word;
  for (const char c : text) {
    if (!IsBlankAscii(c)) {
      word += c;
    } else if (!word.empty()) {
      words.push_back(std::move(word));
      word.clear();
    }
  }
  if (!word.empty())
    words.push_back(std::move(word));
  return words;
}

std::vector<std::string_view> SplitLines(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

std::vector<std::string> SplitColons(std::string_view text) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const size_t end = std::min(text.find(':'), text.size());
    if (end > 0)
      parts.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

// pip's files from the weakest to the strongest: machine, user, virtual environment, named.
std::vector<fs::path> ConfigFiles(const Environment& environment) {
  const std::string named = environment("PIP_CONFIG_FILE");
  if (named == "/dev/null")
    return {};  // pip's way to say: read none
  std::vector<fs::path> files;
  const std::string xdg_dirs = environment("XDG_CONFIG_DIRS");
  std::vector<std::string> machine = SplitColons(xdg_dirs.empty() ? "/etc/xdg" : xdg_dirs);
  std::reverse(machine.begin(), machine.end());  // the first directory is the strongest
  for (const std::string& directory : machine)
    files.push_back(fs::path(directory) / "pip" / "pip.conf");
  files.emplace_back("/etc/pip.conf");
  const std::string home = environment("HOME");
  const std::string xdg_home = environment("XDG_CONFIG_HOME");
  if (!home.empty())
    files.push_back(fs::path(home) / ".pip" / "pip.conf");
  if (!xdg_home.empty())
    files.push_back(fs::path(xdg_home) / "pip" / "pip.conf");
  else if (!home.empty())
    files.push_back(fs::path(home) / ".config" / "pip" / "pip.conf");
  if (const std::string venv = environment("VIRTUAL_ENV"); !venv.empty())
    files.push_back(fs::path(venv) / "pip.conf");
  if (!named.empty())
    files.emplace_back(named);
  return files;
}

void ReadOptionsFile(const fs::path& path, Options& options) {
  Result<std::string> text = ReadWholeFile(path, kMaxConfigBytes);
  if (!text.ok()) {
    if (text.error().code != ErrorCode::kNotFound)
      Log(LogLevel::kWarning, "pip's configuration is skipped: {}", text.error().ToString());
    return;
  }
  for (auto& [key, value] : ParsePipConfig(*text))
    options[key] = value;
}

Options ReadOptions(const Environment& environment) {
  Options options;
  for (const fs::path& path : ConfigFiles(environment))
    ReadOptionsFile(path, options);
  constexpr std::pair<std::string_view, std::string_view> kVariables[] = {
      {"PIP_INDEX_URL", "index-url"}, {"PIP_EXTRA_INDEX_URL", "extra-index-url"},
      {"PIP_NO_INDEX", "no-index"},   {"PIP_FIND_LINKS", "find-links"},
      {"PIP_CERT", "cert"},
  };
  for (const auto& [variable, key] : kVariables) {
    if (std::string value = environment(variable); !value.empty())
      options[std::string(key)] = std::move(value);
  }
  return options;
}

// A find-links entry as a local directory.
std::optional<fs::path> LocalDirectory(std::string_view link) {
  if (link.starts_with("file://"))
    link.remove_prefix(7);
  else if (link.find("://") != std::string_view::npos)
    return std::nullopt;
  std::error_code ignored;
  fs::path path(link);
  return fs::is_directory(path, ignored) ? std::optional(path) : std::nullopt;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> ParsePipConfig(std::string_view text) {
  // [install] is stronger than [global] wherever it stands in the file.
  std::vector<std::pair<std::string, std::string>> global;
  std::vector<std::pair<std::string, std::string>> install;
  std::vector<std::pair<std::string, std::string>>* section = nullptr;
  bool continues = false;
  for (const std::string_view line : SplitLines(text)) {
    const std::string_view content = TrimAscii(line);
    if (content.empty() || content.front() == '#' || content.front() == ';')
      continue;
    if (IsBlankAscii(line.front()) && continues && section != nullptr) {
      section->back().second.append("\n").append(content);  // a value over several lines
      continue;
    }
    continues = false;
    if (content.front() == '[') {
      section = content == "[global]" ? &global : content == "[install]" ? &install : nullptr;
      continue;
    }
    const size_t equals = content.find_first_of("=:");
    if (section == nullptr || equals == std::string_view::npos)
      continue;
    section->emplace_back(NormalizeKey(content.substr(0, equals)),
                          TrimAscii(content.substr(equals + 1)));
    continues = true;
  }
  global.insert(global.end(), install.begin(), install.end());
  return global;
}

PipConfig ReadPipConfig(const Environment& environment) {
  Options options = ReadOptions(environment);
  PipConfig config;
  config.certificates = options["cert"];
  if (!IsTruthy(options["no-index"])) {
    const std::string& index = options["index-url"];
    config.index_urls.emplace_back(index.empty() ? kPublicIndex : std::string_view(index));
    for (std::string& url : SplitWords(options["extra-index-url"]))
      config.index_urls.push_back(std::move(url));
  }
  for (const std::string& link : SplitWords(options["find-links"])) {
    if (std::optional<fs::path> directory = LocalDirectory(link))
      config.wheel_directories.push_back(*std::move(directory));
  }
  return config;
}

}  // namespace tenon
