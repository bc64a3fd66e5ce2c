#include "frontend/server/api/api_context.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>

namespace tenon {

ApiContext::ApiContext(ApiOptions options)
    : options_(std::move(options)),
      metrics_(options_.model_names.front(), options_.metrics_aliases),
      start_time_(UnixSeconds()) {}

Result<std::string> ApiContext::ResolveModelName(const std::string& requested) const {
  constexpr std::string_view kLatest = ":latest";
  if (requested.empty())
    return model_name();
  std::string_view name = requested;
  if (name.ends_with(kLatest))
    name.remove_suffix(kLatest.size());
  for (const std::string& known : options_.model_names) {
    if (known == "*" || known == name || known == requested)
      return requested;
  }
  return NotFound(fmt::format("'{}' is not served here; served is '{}'", requested, model_name()),
                  "model");
}

std::chrono::steady_clock::time_point RequestDeadline(const ApiContext& context) {
  const auto timeout = context.options().request_timeout;
  return timeout.count() > 0 ? std::chrono::steady_clock::now() + timeout
                             : std::chrono::steady_clock::time_point::max();
}

ApiError EndError(const Error& error, Health health) {
  ApiError result = ToApiError(error);
  if (error.code == ErrorCode::kCancelled && health != Health::kDraining &&
      health != Health::kStopped) {
    result.status = 504;
    result.type = "timeout_error";
    result.code = "cancelled";
  }
  return result;
}

int64_t SequenceContext(const ServingEngine& engine) {
  const Model& model = engine.model();
  const int64_t trained = model.source().config.context_length;
  // A model that is not loaded has reserved nothing yet.
  return model.context_tokens() == 0 ? trained : std::min(model.context_tokens(), trained);
}

int64_t UnixSeconds() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::string NewId() {
  std::random_device device;
  return fmt::format("{:08x}{:08x}{:08x}", device(), device(), device());
}

std::string CacheSalt(const std::string& key_name, const std::string& salt) {
  if (key_name.empty() && salt.empty())
    return {};
  // Lengths in front, so that no two pairs of key and salt run into the same text.
  return fmt::format("{}:{}{}", key_name.size(), key_name, salt);
}

Caller CallerOf(const HttpRequest& request) {
  return {request.request_id, request.path, request.key_name};
}

}  // namespace tenon
