#include "frontend/store/url.h"

#include <curl/curl.h>
#include <fmt/format.h>

#include <cctype>
#include <memory>

#include "base/check.h"
#include "frontend/store/ascii.h"

namespace tenon {
namespace {

struct CurlFree {
  void operator()(char* text) const { curl_free(text); }
};

// A parsed URL.
class ParsedUrl {
 public:
  ParsedUrl() : handle_(curl_url()) { TENON_CHECK(handle_ != nullptr); }

  CURLUcode Set(CURLUPart part, std::string_view text) {
    const std::string terminated(text);
    return curl_url_set(handle_.get(), part, terminated.empty() ? nullptr : terminated.c_str(), 0);
  }
  // The part, "" if the URL has none.
  std::string Get(CURLUPart part, unsigned flags = 0) const {
    char* text = nullptr;
    if (curl_url_get(handle_.get(), part, &text, flags) != CURLUE_OK)
      return {};
    std::unique_ptr<char, CurlFree> owner(text);
    return text;
  }

 private:
  struct Deleter {
    void operator()(CURLU* handle) const { curl_url_cleanup(handle); }
  };
  std::unique_ptr<CURLU, Deleter> handle_;
};

Result<ParsedUrl> Parse(std::string_view url) {
  ParsedUrl parsed;
  const bool text_ok = url.find('\0') == std::string_view::npos && !url.empty();
  const CURLUcode code = text_ok ? parsed.Set(CURLUPART_URL, url) : CURLUE_MALFORMED_INPUT;
  if (code != CURLUE_OK)
    return InvalidArgument(fmt::format("not a URL: {}", curl_url_strerror(code)));
  const std::string scheme = parsed.Get(CURLUPART_SCHEME);
  if (scheme != "http" && scheme != "https")
    return Unsupported(fmt::format("URL scheme '{}'; http and https are possible", scheme));
  return parsed;
}

int HexValue(char c) {
  if (c >= '0' && c <= '9')
    return c - '0';
  const char lower = static_cast<char>(c | 0x20);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

}  // namespace

bool IsHttpUrl(std::string_view text) {
  const std::string start = LowerCaseAscii(text.substr(0, 8));
  return start.starts_with("http://") || start.starts_with("https://");
}

Result<std::string> ResolveUrl(std::string_view base, std::string_view reference) {
  TENON_ASSIGN_OR_RETURN(ParsedUrl parsed, Parse(base));
  if (reference.find('\0') != std::string_view::npos)
    return InvalidArgument("a zero byte in a URL", RedactUrl(base));
  if (!reference.empty()) {
    const CURLUcode code = parsed.Set(CURLUPART_URL, reference);
    if (code != CURLUE_OK) {
      return InvalidArgument(fmt::format("a link that is not a URL: {}", curl_url_strerror(code)),
                             RedactUrl(base));
    }
  }
  std::string resolved = parsed.Get(CURLUPART_URL);
  TENON_RETURN_IF_ERROR(Parse(resolved));
  return resolved;
}

Result<std::string> UrlOrigin(std::string_view url) {
  TENON_ASSIGN_OR_RETURN(ParsedUrl parsed, Parse(url));
  return parsed.Get(CURLUPART_SCHEME) + "://" + LowerCaseAscii(parsed.Get(CURLUPART_HOST)) + ":" +
         parsed.Get(CURLUPART_PORT, CURLU_DEFAULT_PORT);
}

bool SameOrigin(std::string_view a, std::string_view b) {
  const Result<std::string> left = UrlOrigin(a);
  const Result<std::string> right = UrlOrigin(b);
  return left.ok() && right.ok() && *left == *right;
}

bool IsLoopbackUrl(std::string_view url) {
  const Result<ParsedUrl> parsed = Parse(url);
  if (!parsed.ok())
    return false;
  const std::string host = LowerCaseAscii(parsed->Get(CURLUPART_HOST));
  return host == "localhost" || host == "127.0.0.1" || host == "[::1]";
}

std::string RedactUrl(std::string_view url) {
  Result<ParsedUrl> parsed = Parse(url);
  if (!parsed.ok())
    return "(a malformed URL)";
  for (CURLUPart part : {CURLUPART_USER, CURLUPART_PASSWORD, CURLUPART_QUERY, CURLUPART_FRAGMENT}) {
    if (parsed->Set(part, "") != CURLUE_OK)
      return "(a URL)";
  }
  return parsed->Get(CURLUPART_URL);
}

std::string AdoptCredentials(std::string_view url, std::string_view from) {
  Result<ParsedUrl> target = Parse(url);
  const Result<ParsedUrl> source = Parse(from);
  if (!target.ok() || !source.ok() || !SameOrigin(url, from))
    return std::string(url);
  const std::string user = source->Get(CURLUPART_USER);
  if (user.empty() || !target->Get(CURLUPART_USER).empty())
    return std::string(url);
  // Parts are kept as they are written in the URL, so they need no second encoding.
  if (target->Set(CURLUPART_USER, user) != CURLUE_OK ||
      target->Set(CURLUPART_PASSWORD, source->Get(CURLUPART_PASSWORD)) != CURLUE_OK)
    return std::string(url);
  return target->Get(CURLUPART_URL);
}

std::string UrlFileName(std::string_view url) {
  const Result<ParsedUrl> parsed = Parse(url);
  if (!parsed.ok())
    return {};
  const std::string path = parsed->Get(CURLUPART_PATH);
  return DecodeUrl(std::string_view(path).substr(path.rfind('/') + 1));
}

std::string EncodeUrlPath(std::string_view path) {
  std::string encoded;
  for (const char c : path) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0 ||
                       std::string_view("-._~/").find(c) != std::string_view::npos;
    if (plain)
      encoded += c;
    else
      encoded += fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return encoded;
}

std::string DecodeUrl(std::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool escape = text[i] == '%' && i + 2 < text.size() && HexValue(text[i + 1]) >= 0 &&
                        HexValue(text[i + 2]) >= 0;
    if (!escape) {
      decoded += text[i];
      continue;
    }
    decoded += static_cast<char>(HexValue(text[i + 1]) * 16 + HexValue(text[i + 2]));
    i += 2;
  }
  return decoded;
}

}  // namespace tenon
