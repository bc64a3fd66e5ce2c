#include "frontend/store/package_index.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "frontend/store/ascii.h"
#include "frontend/store/sha256.h"
#include "frontend/store/url.h"

namespace tenon {
namespace {

using nlohmann::json;

// The pages of projects with thousands of files are a few MiB.
constexpr uint64_t kMaxPageBytes = 64 << 20;
constexpr std::string_view kAccept =
    "Accept: application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, "
    "text/html;q=0.1";

std::string StringField(const json& object, const char* key) {
  if (!object.is_object())
    return {};
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

// Makes a file of a link; its fragment may hold the digest. nullopt for what is no usable link.
std::optional<IndexFile> FileFromLink(std::string_view page_url, std::string_view link) {
  const size_t hash = link.find('#');
  Result<std::string> url = ResolveUrl(page_url, link.substr(0, hash));
  if (!url.ok())
    return std::nullopt;
  IndexFile file;
  file.url = AdoptCredentials(*url, page_url);
  file.file_name = UrlFileName(file.url);
  constexpr std::string_view kPrefix = "sha256=";
  const std::string_view fragment =
      hash == std::string_view::npos ? std::string_view() : link.substr(hash + 1);
  if (fragment.starts_with(kPrefix) && IsSha256(fragment.substr(kPrefix.size())))
    file.sha256 = LowerCaseAscii(fragment.substr(kPrefix.size()));
  return file;
}

// Replaces the character references that occur in links.
std::string UnescapeHtml(std::string_view text) {
  constexpr std::pair<std::string_view, char> kReferences[] = {
      {"&amp;", '&'},  {"&lt;", '<'},   {"&gt;", '>'},
      {"&quot;", '"'}, {"&#39;", '\''}, {"&#x27;", '\''},
  };
  std::string plain;
  while (!text.empty()) {
    size_t taken = 1;
    char c = text.front();
    for (const auto& [reference, character] : kReferences) {
      if (text.starts_with(reference)) {
        taken = reference.size();
        c = character;
      }
    }
    plain += c;
    text.remove_prefix(taken);
  }
  return plain;
}

// The href of a tag such as `<a class=x href="...">`; `tag` is what stands between < and >.
std::optional<std::string> HrefOf(std::string_view tag) {
  const std::string lower = LowerCaseAscii(tag);
  for (size_t at = lower.find("href"); at != std::string::npos; at = lower.find("href", at + 4)) {
    const std::string_view rest = TrimAscii(tag.substr(at + 4));
    if (at == 0 || !IsBlankAscii(lower[at - 1]) || !rest.starts_with('='))
      continue;
    const std::string_view value = TrimAscii(rest.substr(1));
    if (value.empty())
      return std::nullopt;
    const bool quoted = value.front() == '"' || value.front() == '\'';
    const std::string_view body = value.substr(quoted ? 1 : 0);
    const size_t end = quoted ? body.find(value.front()) : body.find_first_of(" \t\r\n");
    return UnescapeHtml(body.substr(0, end));
  }
  return std::nullopt;
}

Result<std::vector<IndexFile>> FetchPage(HttpClient& client, const std::string& index_url,
                                         std::string_view project) {
  if (!IsHttpUrl(index_url))
    return Unsupported("an index that is neither http nor https");
  const size_t end = index_url.find_last_not_of('/');
  FetchRequest request;
  request.url = fmt::format("{}/{}/", std::string_view(index_url).substr(0, end + 1), project);
  request.headers.emplace_back(kAccept);
  TENON_ASSIGN_OR_RETURN(HttpBody body, client.FetchText(request, kMaxPageBytes));
  const std::string page_url = AdoptCredentials(body.head.url, request.url);
  const std::string type = LowerCaseAscii(body.head.Header("content-type"));
  if (type.find("json") != std::string::npos)
    return ParseIndexJson(page_url, body.text);
  return ParseIndexHtml(page_url, body.text);
}

}  // namespace

Result<std::vector<IndexFile>> ParseIndexJson(std::string_view page_url, std::string_view text) {
  const json page = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!page.is_object() || !page.contains("files") || !page["files"].is_array())
    return Corrupt("the page is not JSON with a list of files", RedactUrl(page_url));
  std::vector<IndexFile> files;
  for (const json& entry : page["files"]) {
    std::optional<IndexFile> file = FileFromLink(page_url, StringField(entry, "url"));
    if (!file.has_value())
      continue;
    if (std::string name = StringField(entry, "filename"); !name.empty())
      file->file_name = std::move(name);
    const std::string digest =
        entry.contains("hashes") ? StringField(entry["hashes"], "sha256") : std::string();
    if (IsSha256(digest))
      file->sha256 = LowerCaseAscii(digest);
    files.push_back(*std::move(file));
  }
  return files;
}

std::vector<IndexFile> ParseIndexHtml(std::string_view page_url, std::string_view text) {
  std::vector<IndexFile> files;
  for (size_t at = text.find('<'); at != std::string_view::npos; at = text.find('<', at + 1)) {
    const std::string_view rest = text.substr(at + 1);
    const bool anchor = rest.size() > 2 && LowerCaseAscii(rest[0]) == 'a' && IsBlankAscii(rest[1]);
    if (!anchor)
      continue;
    const std::optional<std::string> href = HrefOf(rest.substr(2 - 1, rest.find('>') - 1));
    if (!href.has_value())
      continue;
    if (std::optional<IndexFile> file = FileFromLink(page_url, *href))
      files.push_back(*std::move(file));
  }
  return files;
}

Result<IndexFile> FindWheel(HttpClient& client, const std::vector<std::string>& index_urls,
                            std::string_view project, std::string_view wheel) {
  std::string reasons;
  bool answered = index_urls.empty();
  for (const std::string& index_url : index_urls) {
    Result<std::vector<IndexFile>> files = FetchPage(client, index_url, project);
    if (!files.ok()) {
      if (files.error().code == ErrorCode::kCancelled)
        return std::move(files).error();
      reasons += fmt::format("; {}", files.error().ToString());
      answered |= files.error().code == ErrorCode::kNotFound;
      continue;
    }
    answered = true;
    for (IndexFile& file : *files) {
      if (EqualIgnoringCase(file.file_name, wheel))
        return std::move(file);
    }
    reasons += fmt::format("; {}: {} files of {}, this one not among them", RedactUrl(index_url),
                           files->size(), project);
  }
  if (index_urls.empty())
    reasons = "; pip is configured to use no index";
  if (!answered)
    return MakeError(ErrorCode::kIo, "no index could be asked" + reasons, std::string(wheel));
  return NotFound("no index has it" + reasons, std::string(wheel));
}

}  // namespace tenon
