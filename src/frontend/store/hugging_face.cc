#include "frontend/store/hugging_face.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <map>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "frontend/store/ascii.h"
#include "frontend/store/sha256.h"
#include "frontend/store/url.h"

namespace tenon {
namespace {

using nlohmann::json;

constexpr uint64_t kMaxAnswerBytes = 16 << 20;
// The tree comes in pages of up to 1000 entries; a repository of a model has one or two.
constexpr int kMaxTreePages = 50;
constexpr std::string_view kGguf = ".gguf";
constexpr size_t kMaxNameBytes = 96;  // the Hub's own limit for each half of a name

// What is taken when nothing is asked for, the best compromise of size and quality first.
constexpr std::array<std::string_view, 9> kPreferred = {
    "Q4_K_M", "Q4_K_S", "Q4_0", "Q4_1", "Q5_K_M", "Q6_K", "Q8_0", "BF16", "F16"};

bool IsNamePart(std::string_view text) {
  const auto allowed = [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '.' || c == '_' || c == '-';
  };
  return !text.empty() && text.size() <= kMaxNameBytes && text.front() != '.' &&
         std::all_of(text.begin(), text.end(), allowed);
}

bool IsRepositoryName(std::string_view text) {
  const size_t slash = text.find('/');
  return slash != std::string_view::npos && IsNamePart(text.substr(0, slash)) &&
         IsNamePart(text.substr(slash + 1));
}

// A relative path without anything that could lead elsewhere or upset a terminal.
bool IsSafePath(std::string_view path) {
  if (path.empty() || path.front() == '/' || path.find("..") != std::string_view::npos)
    return false;
  return std::none_of(path.begin(), path.end(),
                      [](unsigned char c) { return c < 0x20 || c == 0x7F || c == '\\'; });
}

std::string_view BaseName(std::string_view path) {
  return path.substr(path.rfind('/') + 1);
}

bool IsModelFile(std::string_view path) {
  const std::string lower = LowerCaseAscii(BaseName(path));
  // Beside the model itself: projectors for images and calibration data, which are no models.
  return lower.ends_with(kGguf) && lower.find("mmproj") == std::string::npos &&
         lower.find("imatrix") == std::string::npos;
}

std::string StringField(const json& object, const char* key) {
  if (!object.is_object())
    return {};
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::optional<uint64_t> NumberField(const json& object, const char* key) {
  if (!object.is_object())
    return std::nullopt;
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number_unsigned())
    return std::nullopt;
  return found->get<uint64_t>();
}

std::optional<HubFile> FileFromEntry(const json& entry) {
  HubFile file;
  file.path = StringField(entry, "path");
  const std::optional<uint64_t> bytes = NumberField(entry, "size");
  if (StringField(entry, "type") != "file" || !IsSafePath(file.path) || !bytes.has_value())
    return std::nullopt;
  file.bytes = *bytes;
  if (entry.contains("lfs")) {
    const std::string digest = StringField(entry["lfs"], "oid");
    if (IsSha256(digest))
      file.sha256 = LowerCaseAscii(digest);
  }
  return file;
}

// The target of `rel="next"` in a Link header, "" on the last page.
std::string NextPage(const HttpHead& head) {
  const std::string_view link = head.Header("link");
  const size_t open = link.find('<');
  const size_t close = link.find('>', open == std::string_view::npos ? 0 : open);
  if (open == std::string_view::npos || close == std::string_view::npos ||
      link.find("rel=\"next\"", close) == std::string_view::npos)
    return {};
  return std::string(link.substr(open + 1, close - open - 1));
}

// The Hub gives the same answer for all three reasons, so that private names can't be guessed.
std::string AccessHint(const HubSettings& settings, const HubName& name) {
  return fmt::format(
      "'{}' does not exist, is private, or asks you to accept its terms at {}/{}; "
      "set HF_TOKEN if you have access",
      name.repository, RedactUrl(settings.endpoint), name.repository);
}

Result<HttpBody> Ask(HttpClient& client, const HubSettings& settings, const HubName& name,
                     const std::string& url) {
  FetchRequest request;
  request.url = url;
  request.bearer_token = settings.token;
  request.access_hint = AccessHint(settings, name);
  return client.FetchText(request, kMaxAnswerBytes);
}

Status FetchTree(HttpClient& client, const HubSettings& settings, const HubName& name,
                 HubRepository& repository) {
  std::string url = fmt::format("{}/api/models/{}/tree/{}?recursive=1", settings.endpoint,
                                name.repository, EncodeUrlPath(repository.revision));
  for (int page = 0; page < kMaxTreePages && !url.empty(); ++page) {
    TENON_ASSIGN_OR_RETURN(HttpBody body, Ask(client, settings, name, url));
    const json entries = json::parse(body.text, nullptr, /*allow_exceptions=*/false);
    if (!entries.is_array())
      return Corrupt("the answer is not a JSON list of files", RedactUrl(url));
    for (const json& entry : entries) {
      if (std::optional<HubFile> file = FileFromEntry(entry))
        repository.files.push_back(*std::move(file));
    }
    const std::string next = NextPage(body.head);
    // A page elsewhere would be asked with the token: it is not followed.
    url = SameOrigin(next, settings.endpoint) ? next : std::string();
  }
  return {};
}

std::string LicenceOf(const json& info) {
  std::string from_card =
      info.contains("cardData") ? StringField(info["cardData"], "license") : std::string();
  if (!from_card.empty() || !info.contains("tags") || !info["tags"].is_array())
    return from_card;
  constexpr std::string_view kPrefix = "license:";
  for (const json& tag : info["tags"]) {
    if (tag.is_string() && tag.get<std::string>().starts_with(kPrefix))
      return tag.get<std::string>().substr(kPrefix.size());
  }
  return {};
}

// All files of one model: itself, or its shards. `key` is the path without the shard number.
using Groups = std::map<std::string, std::vector<HubFile>>;

Groups GroupShards(const std::vector<HubFile>& files) {
  Groups groups;
  for (const HubFile& file : files) {
    if (!IsModelFile(file.path))
      continue;
    const std::string_view base = BaseName(file.path);
    const std::string_view folder =
        std::string_view(file.path).substr(0, file.path.size() - base.size());
    const ShardName shard = ParseShardName(base);
    groups[fmt::format("{}{} {}", folder, shard.prefix, shard.count)].push_back(file);
  }
  return groups;
}

// Shards 1 to count, each once.
Status CheckShards(std::vector<HubFile>& shards) {
  std::sort(shards.begin(), shards.end(),
            [](const HubFile& a, const HubFile& b) { return a.path < b.path; });
  const int count = ParseShardName(BaseName(shards.front().path)).count;
  for (size_t i = 0; i < shards.size(); ++i) {
    if (ParseShardName(BaseName(shards[i].path)).index != static_cast<int>(i) + 1)
      return Corrupt(fmt::format("shard {} of {} is missing", i + 1, count), shards.front().path);
  }
  if (shards.size() != static_cast<size_t>(count))
    return Corrupt(fmt::format("{} of {} shards are there", shards.size(), count),
                   shards.front().path);
  return {};
}

// The group with the shortest name that matches: "X-Q4_K_M" rather than "X-UD-Q4_K_M".
const std::vector<HubFile>* FindGroup(const Groups& groups, std::string_view selector) {
  const std::vector<HubFile>* best = nullptr;
  for (const auto& [key, files] : groups) {
    const bool matches = std::any_of(files.begin(), files.end(), [&](const HubFile& file) {
      return MatchesSelector(file.path, selector);
    });
    if (!matches)
      continue;
    if (best == nullptr || files.front().path.size() < best->front().path.size())
      best = &files;
  }
  return best;
}

std::string ListGroups(const Groups& groups) {
  std::string list;
  for (const auto& [key, files] : groups)
    list += fmt::format("{}{}", list.empty() ? "" : ", ", files.front().path);
  return list;
}

}  // namespace

HubSettings ReadHubSettings(const Environment& environment) {
  HubSettings settings;
  if (std::string endpoint = environment("HF_ENDPOINT"); !endpoint.empty())
    settings.endpoint = std::move(endpoint);
  while (settings.endpoint.ends_with('/'))
    settings.endpoint.pop_back();
  settings.token = TrimAscii(environment("HF_TOKEN"));
  // A line end in a token would be a second header.
  const auto printable = [](unsigned char c) { return c > 0x20 && c < 0x7F; };
  if (!std::all_of(settings.token.begin(), settings.token.end(), printable)) {
    Log(LogLevel::kWarning, "HF_TOKEN has characters that no token has; it is not used");
    settings.token.clear();
  }
  if (IsTruthy(environment("HF_HUB_OFFLINE")))
    settings.network = Network::kOffline;
  return settings;
}

std::optional<HubName> ParseHubName(std::string_view text) {
  if (text.starts_with("hf:"))
    text.remove_prefix(3);
  const size_t colon = text.find(':');
  HubName name;
  name.repository = text.substr(0, colon);
  if (colon != std::string_view::npos)
    name.selector = text.substr(colon + 1);
  const bool selector_ok = colon == std::string_view::npos || IsSafePath(name.selector);
  return IsRepositoryName(name.repository) && selector_ok ? std::optional(name) : std::nullopt;
}

std::optional<HubName> ParseHubUrl(std::string_view url, std::string_view endpoint) {
  const std::string plain = RedactUrl(url);
  if (!SameOrigin(url, endpoint) || !plain.starts_with(endpoint))
    return std::nullopt;
  // org/repo/resolve/revision/path
  std::vector<std::string> parts;
  std::string_view rest = std::string_view(plain).substr(endpoint.size());
  while (parts.size() < 4 && rest.starts_with('/')) {
    rest.remove_prefix(1);
    const size_t end = std::min(rest.find('/'), rest.size());
    parts.push_back(DecodeUrl(rest.substr(0, end)));
    rest.remove_prefix(end);
  }
  if (parts.size() < 4 || rest.size() < 2 || (parts[2] != "resolve" && parts[2] != "blob"))
    return std::nullopt;
  HubName name{parts[0] + "/" + parts[1], DecodeUrl(rest.substr(1)), parts[3]};
  return IsRepositoryName(name.repository) && IsSafePath(name.selector) ? std::optional(name)
                                                                        : std::nullopt;
}

Result<HubRepository> FetchHubRepository(HttpClient& client, const HubSettings& settings,
                                         const HubName& name) {
  const std::string url = fmt::format("{}/api/models/{}/revision/{}", settings.endpoint,
                                      name.repository, EncodeUrlPath(name.revision));
  TENON_ASSIGN_OR_RETURN(HttpBody body, Ask(client, settings, name, url));
  const json info = json::parse(body.text, nullptr, /*allow_exceptions=*/false);
  if (!info.is_object())
    return Corrupt("the answer is not a JSON object", RedactUrl(url));
  HubRepository repository;
  repository.licence = LicenceOf(info);
  const std::string commit = StringField(info, "sha");
  repository.revision = IsNamePart(commit) ? commit : name.revision;
  TENON_RETURN_IF_ERROR(FetchTree(client, settings, name, repository));
  return repository;
}

bool MatchesSelector(std::string_view path, std::string_view selector) {
  if (EqualIgnoringCase(path, selector) || EqualIgnoringCase(BaseName(path), selector))
    return true;
  // A whole word of the path: "Q4_K" does not stand for "Q4_K_M", and "4_K_M" for nothing.
  const std::string text = LowerCaseAscii(path);
  const std::string word = LowerCaseAscii(selector);
  const auto inside = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_';
  };
  for (size_t at = text.find(word); at != std::string::npos && !word.empty();
       at = text.find(word, at + 1)) {
    const size_t end = at + word.size();
    if ((at == 0 || !inside(text[at - 1])) && (end == text.size() || !inside(text[end])))
      return true;
  }
  return false;
}

Result<std::vector<HubFile>> ChooseHubFiles(const std::vector<HubFile>& files,
                                            const HubName& name) {
  const Groups groups = GroupShards(files);
  if (groups.empty()) {
    return NotFound(fmt::format("none of its {} files is a GGUF model", files.size()),
                    name.repository);
  }
  const std::vector<HubFile>* chosen = nullptr;
  if (!name.selector.empty()) {
    chosen = FindGroup(groups, name.selector);
    if (chosen == nullptr) {
      return NotFound(
          fmt::format("no file for '{}'; there are: {}", name.selector, ListGroups(groups)),
          name.repository);
    }
  }
  for (size_t i = 0; i < kPreferred.size() && chosen == nullptr; ++i)
    chosen = FindGroup(groups, kPreferred[i]);
  if (chosen == nullptr && groups.size() == 1)
    chosen = &groups.begin()->second;
  if (chosen == nullptr) {
    return NotFound(fmt::format("several files; add ':' and one of: {}", ListGroups(groups)),
                    name.repository);
  }
  std::vector<HubFile> shards = *chosen;
  TENON_RETURN_IF_ERROR(CheckShards(shards));
  return shards;
}

bool IsHubSource(std::string_view source, const HubName& name) {
  constexpr std::string_view kPrefix = "hf:";
  const size_t colon = source.find(':', kPrefix.size());
  if (!source.starts_with(kPrefix) || colon == std::string_view::npos)
    return false;
  return EqualIgnoringCase(source.substr(kPrefix.size(), colon - kPrefix.size()),
                           name.repository) &&
         (name.selector.empty() || MatchesSelector(source.substr(colon + 1), name.selector));
}

FetchRequest HubFileRequest(const HubSettings& settings, const HubName& name,
                            std::string_view revision, std::string_view path) {
  FetchRequest request;
  request.url = fmt::format("{}/{}/resolve/{}/{}", settings.endpoint, name.repository,
                            EncodeUrlPath(revision), EncodeUrlPath(path));
  request.bearer_token = settings.token;
  request.access_hint = AccessHint(settings, name);
  return request;
}

ShardName ParseShardName(std::string_view file_name) {
  if (LowerCaseAscii(file_name).ends_with(kGguf))
    file_name.remove_suffix(kGguf.size());
  ShardName whole{std::string(file_name)};
  // "-00002-of-00003": fixed width.
  constexpr size_t kSuffixBytes = 15;
  if (file_name.size() <= kSuffixBytes)
    return whole;
  const std::string_view suffix = file_name.substr(file_name.size() - kSuffixBytes);
  ShardName shard{std::string(file_name.substr(0, file_name.size() - kSuffixBytes))};
  const auto number = [](std::string_view digits, int& value) {
    const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    return parsed.ec == std::errc() && parsed.ptr == digits.data() + digits.size() && value > 0;
  };
  const bool matches = suffix[0] == '-' && suffix.substr(6, 4) == "-of-" &&
                       number(suffix.substr(1, 5), shard.index) &&
                       number(suffix.substr(10, 5), shard.count) && shard.index <= shard.count;
  return matches ? shard : whole;
}

}  // namespace tenon
