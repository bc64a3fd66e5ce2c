#include "frontend/server/api/api_error.h"

#include <fmt/format.h>

#include "model/tokenizer/utf8.h"

namespace tenon {
namespace {

constexpr const char* kInvalidRequest = "invalid_request_error";

// A full queue of short requests is through in about this time; clients add their own back-off.
constexpr int kRetryAfterSeconds = 1;

// What a client has sent may stand in a message, but not all of it.
constexpr size_t kMaxErrorBytes = 1024;

std::string Shortened(const std::string& text) {
  if (text.size() <= kMaxErrorBytes)
    return text;
  return std::string(Utf8Prefix(text, kMaxErrorBytes)) + "...";
}

std::string_view AnthropicType(int status) {
  switch (status) {
    case 400:
    case 413:
      return kInvalidRequest;
    case 401:
      return "authentication_error";
    case 404:
      return "not_found_error";
    case 429:
      return "rate_limit_error";
    case 503:
      return "overloaded_error";
    default:
      return "api_error";
  }
}

// What is missing: the model that a request names, or something else.
std::string_view NotFoundCode(std::string_view where) {
  const bool is_model =
      where == "model" || where.ends_with(".model") || where == "modules.routing.small";
  return is_model ? "model_not_found" : "not_found";
}

Json OpenAiBody(const ApiError& error) {
  Json inner;
  inner["message"] = error.message;
  inner["type"] = error.type;
  inner["param"] = error.param.empty() ? Json(nullptr) : Json(error.param);
  inner["code"] = error.code.empty() ? Json(nullptr) : Json(error.code);
  if (error.prompt_tokens.has_value()) {
    inner["n_prompt"] = *error.prompt_tokens;
    inner["n_prompt_tokens"] = *error.prompt_tokens;  // llama-server's spelling
    inner["n_ctx"] = *error.context_tokens;
  }
  return {{"error", std::move(inner)}};
}

}  // namespace

ApiError ToApiError(const Error& given) {
  const Error error{given.code, Shortened(given.message), Shortened(given.where)};
  const std::string message = error.ToString();
  switch (error.code) {
    case ErrorCode::kInvalidArgument:
    case ErrorCode::kUnsupported:
      return {400, message, kInvalidRequest, error.where, {}, {}, {}};
    case ErrorCode::kNotFound:
      return {404, message, "not_found_error", error.where, std::string(NotFoundCode(error.where)),
              {},  {}};
    case ErrorCode::kResourceExhausted:
      return {429, message, "rate_limit_error", error.where, "queue_full", {}, {}};
    case ErrorCode::kCancelled:
      return {503, message, "unavailable_error", {}, "unavailable", {}, {}};
    default:
      return {500, message, "server_error", error.where, "internal_error", {}, {}};
  }
}

ApiError PromptTooLong(int64_t prompt_tokens, int64_t context_tokens) {
  ApiError error;
  error.status = 400;
  error.message = fmt::format(
      "the prompt has {} tokens and the context {}: no room for an answer; nothing was cut",
      prompt_tokens, context_tokens);
  error.type = "exceed_context_size_error";
  error.param = "prompt";
  error.code = "context_length_exceeded";
  error.prompt_tokens = prompt_tokens;
  error.context_tokens = context_tokens;
  return error;
}

ApiError NotImplemented(std::string message) {
  return {501, std::move(message), "not_supported_error", {}, "not_implemented", {}, {}};
}

ApiError StillLoading() {
  return {503, "Loading model", "unavailable_error", {}, "loading", {}, {}};
}

int RetryAfterSeconds(const ApiError& error) {
  return error.status == 429 || error.status == 503 ? kRetryAfterSeconds : 0;
}

Json ErrorBody(ApiStyle style, const ApiError& error) {
  if (style == ApiStyle::kOllama)
    return {{"error", error.message}};
  Json body = OpenAiBody(error);
  if (style == ApiStyle::kAnthropic) {
    body["error"]["type"] = AnthropicType(error.status);
    body["type"] = "error";
  }
  return body;
}

HttpResponse ToResponse(ApiStyle style, const ApiError& error) {
  HttpResponse response = JsonResponse(ErrorBody(style, error));
  response.status = error.status;
  if (const int seconds = RetryAfterSeconds(error); seconds > 0)
    response.headers.emplace("Retry-After", std::to_string(seconds));
  return response;
}

HttpResponse JsonResponse(const Json& body) {
  HttpResponse response;
  response.body = DumpJson(body);
  return response;
}

}  // namespace tenon
