// One line of JSON for each request that ended.
#pragma once

#include <string_view>

#include "frontend/server/api/answer.h"
#include "frontend/server/api/api_context.h"

namespace tenon {

// nginx's number for a client that closed the connection; it stands in logs and metrics only.
inline constexpr int kClientClosed = 499;

// Counts the request and logs it. Prompts and answers only with ContentLog::kOn.
void LogAnswer(ApiContext& context, const Caller& caller, const ApiAnswer& answer, int status,
               std::string_view outcome);
void LogRequest(ApiContext& context, const Caller& caller, int status);

}  // namespace tenon
