#include "frontend/server/http/answer_text.h"

#include <fmt/format.h>
#include <openssl/rand.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <nlohmann/json.hpp>

namespace tenon {
namespace {

constexpr std::array kReasons = {
    std::pair{100, "Continue"},
    std::pair{101, "Switching Protocols"},
    std::pair{200, "OK"},
    std::pair{201, "Created"},
    std::pair{202, "Accepted"},
    std::pair{204, "No Content"},
    std::pair{301, "Moved Permanently"},
    std::pair{302, "Found"},
    std::pair{304, "Not Modified"},
    std::pair{307, "Temporary Redirect"},
    std::pair{308, "Permanent Redirect"},
    std::pair{400, "Bad Request"},
    std::pair{401, "Unauthorized"},
    std::pair{403, "Forbidden"},
    std::pair{404, "Not Found"},
    std::pair{405, "Method Not Allowed"},
    std::pair{408, "Request Timeout"},
    std::pair{409, "Conflict"},
    std::pair{413, "Content Too Large"},
    std::pair{415, "Unsupported Media Type"},
    std::pair{417, "Expectation Failed"},
    std::pair{422, "Unprocessable Content"},
    std::pair{426, "Upgrade Required"},
    std::pair{429, "Too Many Requests"},
    std::pair{431, "Request Header Fields Too Large"},
    std::pair{500, "Internal Server Error"},
    std::pair{501, "Not Implemented"},
    std::pair{502, "Bad Gateway"},
    std::pair{503, "Service Unavailable"},
    std::pair{504, "Gateway Timeout"},
};

// Headers that this file writes itself.
constexpr std::array<std::string_view, 6> kOwnHeaders = {
    "connection", "content-length", "content-type", "date", "transfer-encoding", "x-request-id"};

bool IsOwnHeader(std::string_view name) {
  const HeaderLess less;
  return std::any_of(kOwnHeaders.begin(), kOwnHeaders.end(),
                     [&](std::string_view own) { return !less(name, own) && !less(own, name); });
}

void AppendHeader(std::string& head, std::string_view name, std::string_view value) {
  head += name;
  head += ": ";
  for (const char c : value)
    head += c == '\r' || c == '\n' || c == '\0' ? ' ' : c;
  head += "\r\n";
}

std::string HttpDate() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  std::array<char, 40> text;
  const size_t size = std::strftime(text.data(), text.size(), "%a, %d %b %Y %H:%M:%S GMT", &utc);
  return std::string(text.data(), size);
}

void AppendBodyHeaders(std::string& head, const AnswerForm& form, const HttpResponse& response,
                       std::optional<size_t> length) {
  if (response.status == 204 || response.status == 304)
    return;
  if (!response.content_type.empty())
    AppendHeader(head, "Content-Type", response.content_type);
  if (length)
    AppendHeader(head, "Content-Length", std::to_string(*length));
  else if (form.version == AnswerForm::Version::kHttp11)
    AppendHeader(head, "Transfer-Encoding", "chunked");
  // Proxies must hand events on as they come.
  if (response.content_type.starts_with("text/event-stream")) {
    AppendHeader(head, "Cache-Control", "no-cache");
    AppendHeader(head, "X-Accel-Buffering", "no");
  }
}

void AppendCorsHeaders(std::string& head, const std::string& origin) {
  AppendHeader(head, "Access-Control-Allow-Origin", origin);
  AppendHeader(head, "Access-Control-Expose-Headers", "X-Request-Id, Retry-After");
  AppendHeader(head, "Vary", "Origin");
}

}  // namespace

std::string_view ReasonPhrase(int status) {
  for (const auto& [code, phrase] : kReasons) {
    if (code == status)
      return phrase;
  }
  return "Status";
}

std::string AnswerHead(const AnswerForm& form, const HttpResponse& response,
                       std::optional<size_t> length) {
  const bool old = form.version == AnswerForm::Version::kHttp10;
  const bool keep = form.connection == AnswerForm::Connection::kKeepAlive;
  std::string head = fmt::format("HTTP/1.{} {} {}\r\n", old ? 0 : 1, response.status,
                                 ReasonPhrase(response.status));
  AppendHeader(head, "Date", HttpDate());
  AppendBodyHeaders(head, form, response, length);
  if (!form.request_id.empty())
    AppendHeader(head, "X-Request-Id", form.request_id);
  if (!form.cors_origin.empty())
    AppendCorsHeaders(head, form.cors_origin);
  for (const auto& [name, value] : response.headers) {
    if (!IsOwnHeader(name))
      AppendHeader(head, name, value);
  }
  if (old || !keep)
    AppendHeader(head, "Connection", keep ? "keep-alive" : "close");
  head += "\r\n";
  return head;
}

std::string Chunk(std::string_view data) {
  return fmt::format("{:x}\r\n{}\r\n", data.size(), data);
}

std::string NewRequestId() {
  std::array<unsigned char, 16> bytes{};
  RAND_bytes(bytes.data(), static_cast<int>(bytes.size()));
  std::string id;
  for (const unsigned char byte : bytes)
    id += fmt::format("{:02x}", byte);
  return id;
}

bool HeaderLess::operator()(std::string_view a, std::string_view b) const {
  const auto lower = [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  };
  return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end(),
                                      [&](char x, char y) { return lower(x) < lower(y); });
}

HttpResponse ErrorResponse(int status, std::string_view message, std::string_view type,
                           std::string_view param, std::string_view code) {
  using nlohmann::json;
  json error;
  error["message"] = message;
  error["type"] = type;
  error["param"] = param.empty() ? json(nullptr) : json(param);
  error["code"] = code.empty() ? json(nullptr) : json(code);
  HttpResponse response;
  response.status = status;
  response.body =
      json{{"error", std::move(error)}}.dump(-1, ' ', false, json::error_handler_t::replace);
  return response;
}

void Router::Add(std::string method, std::string pattern, HttpHandler handler, Access access) {
  routes_.push_back(
      Route{std::move(method), std::move(pattern), std::move(handler), nullptr, access});
}

void Router::AddWebSocket(std::string pattern, WebSocketFactory factory, Access access) {
  routes_.push_back(Route{"GET", std::move(pattern), nullptr, std::move(factory), access});
}

}  // namespace tenon
