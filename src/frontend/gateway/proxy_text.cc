#include "frontend/gateway/proxy_text.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>

namespace tenon {
namespace {

using NameSet = std::set<std::string, HeaderLess>;

constexpr std::array kConnectionHeaders = {
    "Connection", "Keep-Alive",        "Proxy-Connection", "Proxy-Authenticate",
    "TE",         "Trailer",           "Upgrade",          "Proxy-Authorization",
    "Expect",     "Transfer-Encoding", "Content-Length"};
// Pieces of a compressed stream could not be told apart, so none is asked for.
constexpr std::array kRequestHeaders = {"Host", "Origin", "X-Request-Id", "Accept-Encoding"};
// The server writes these itself.
constexpr std::array kAnswerHeaders = {"Content-Type",      "Date", "X-Request-Id", "Cache-Control",
                                       "X-Accel-Buffering", "Vary"};

// The headers of this connection only: the known ones and those that Connection names.
NameSet ConnectionNames(const HttpHeaders& headers) {
  NameSet names(kConnectionHeaders.begin(), kConnectionHeaders.end());
  const auto [first, last] = headers.equal_range(std::string_view("Connection"));
  for (auto header = first; header != last; ++header) {
    std::string_view list = header->second;
    while (!list.empty()) {
      const size_t comma = std::min(list.find(','), list.size());
      std::string_view name = list.substr(0, comma);
      name.remove_prefix(std::min(name.find_first_not_of(" \t"), name.size()));
      name = name.substr(0, name.find_first_of(" \t"));
      names.emplace(name);
      list.remove_prefix(std::min(comma + 1, list.size()));
    }
  }
  return names;
}

HttpHeaders Without(const HttpHeaders& headers, const NameSet& names) {
  HttpHeaders kept;
  for (const auto& [name, value] : headers) {
    if (!names.contains(name))
      kept.emplace(name, value);
  }
  return kept;
}

}  // namespace

HttpHeaders HeadersToReplica(const HttpRequest& request, const ReplicaAddress& replica,
                             ClientKey client_key) {
  NameSet dropped = ConnectionNames(request.headers);
  dropped.insert(kRequestHeaders.begin(), kRequestHeaders.end());
  if (client_key == ClientKey::kForGateway || !replica.api_key.empty())
    dropped.insert({"Authorization", "x-api-key"});
  HttpHeaders headers = Without(request.headers, dropped);
  if (!replica.api_key.empty())
    headers.emplace("Authorization", "Bearer " + replica.api_key);
  headers.emplace("X-Request-Id", request.request_id);
  headers.emplace("X-Forwarded-For", request.remote_address);
  return headers;
}

HttpHeaders HeadersToClient(const HttpHeaders& headers) {
  NameSet dropped = ConnectionNames(headers);
  dropped.insert(kAnswerHeaders.begin(), kAnswerHeaders.end());
  HttpHeaders kept = Without(headers, dropped);
  // Which pages may read answers is the gateway's to say.
  const HeaderLess less;
  constexpr std::string_view kCors = "Access-Control-";
  std::erase_if(kept, [&](const auto& header) {
    const std::string_view start = std::string_view(header.first).substr(0, kCors.size());
    return !less(start, kCors) && !less(kCors, start);
  });
  return kept;
}

BodyForm FormOf(std::string_view content_type) {
  if (content_type.starts_with("text/event-stream"))
    return BodyForm::kEvents;
  if (content_type.starts_with("application/x-ndjson"))
    return BodyForm::kLines;
  return BodyForm::kWhole;
}

size_t WholePieces(std::string_view text, BodyForm form) {
  if (form == BodyForm::kWhole)
    return 0;
  // An event ends with an empty line; lines end with LF or CR LF (WHATWG HTML 9.2).
  size_t whole = 0;
  const std::string_view ends[] = {form == BodyForm::kLines ? "\n" : "\n\n", "\r\n\r\n"};
  for (const std::string_view end : ends) {
    const size_t at = text.rfind(end);
    if (at != std::string_view::npos)
      whole = std::max(whole, at + end.size());
  }
  return whole;
}

int64_t CountEvents(std::string_view text, BodyForm form) {
  int64_t count = 0;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    if (form == BodyForm::kLines ? line.size() > 1 : line.starts_with("data"))
      ++count;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return count;
}

std::string ErrorPiece(std::string_view message, BodyForm form, std::string_view path) {
  using nlohmann::json;
  const auto dump = [](const json& value) {
    return value.dump(-1, ' ', false, json::error_handler_t::replace);
  };
  if (form == BodyForm::kLines)
    return dump(json{{"error", message}}) + "\n";
  if (path.starts_with("/v1/messages")) {
    const json error = {{"type", "error"},
                        {"error", {{"type", "api_error"}, {"message", message}}}};
    return "event: error\ndata: " + dump(error) + "\n\n";
  }
  return "data: " + ErrorResponse(502, message, "server_error").body + "\n\n";
}

}  // namespace tenon
