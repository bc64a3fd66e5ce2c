// The bytes of answers: status line, headers, chunks (RFC 9112).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "frontend/server/http/http_server.h"

namespace tenon {

// What an answer's form depends on beside the handler's own words.
struct AnswerForm {
  enum class Version : uint8_t { kHttp10, kHttp11 };
  enum class Body : uint8_t { kSent, kLeftOut };           // kLeftOut: the answer to HEAD
  enum class Connection : uint8_t { kKeepAlive, kClose };  // what happens after the answer

  Version version = Version::kHttp11;
  Body body = Body::kSent;
  Connection connection = Connection::kKeepAlive;
  std::string request_id;
  std::string cors_origin;  // empty: no CORS headers
};

std::string_view ReasonPhrase(int status);

// The head with its empty line. `length` nullopt: the body is streamed, chunked in HTTP/1.1.
// Headers of `response` that frame the message are left out, line ends in values become spaces.
std::string AnswerHead(const AnswerForm& form, const HttpResponse& response,
                       std::optional<size_t> length);

// `data` as one chunk. REQUIRES: not empty (an empty chunk ends the body).
std::string Chunk(std::string_view data);
inline constexpr std::string_view kLastChunk = "0\r\n\r\n";

// 32 hex digits.
std::string NewRequestId();

}  // namespace tenon
