// ApiError: what a client is told when a request fails, in the shape that its API uses.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "frontend/server/api/json.h"
#include "frontend/server/http/http_server.h"

namespace tenon {

// Whose clients read the answer.
enum class ApiStyle : uint8_t { kOpenAi, kAnthropic, kOllama };

struct ApiError {
  int status = 500;
  std::string message;
  std::string type;   // OpenAI's names: "invalid_request_error", ...
  std::string param;  // the field; may be empty
  std::string code;   // may be empty
  // A prompt that does not fit:
  std::optional<int64_t> prompt_tokens;
  std::optional<int64_t> context_tokens;
};

// By the error's code: 400, 404, 429, 503 or 500. kCancelled is 503: the server is stopping.
ApiError ToApiError(const Error& error);
ApiError PromptTooLong(int64_t prompt_tokens, int64_t context_tokens);
// 501, for a whole endpoint that is known and not there.
ApiError NotImplemented(std::string message);
ApiError StillLoading();

// Seconds after which to come again; 0 where waiting makes no sense.
int RetryAfterSeconds(const ApiError& error);

Json ErrorBody(ApiStyle style, const ApiError& error);
// With Retry-After where waiting makes sense.
HttpResponse ToResponse(ApiStyle style, const ApiError& error);
HttpResponse JsonResponse(const Json& body);

}  // namespace tenon
