// How /v1/responses writes an answer: output items, and the typed events of its stream.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "frontend/server/api/answer.h"
#include "frontend/server/api/json.h"

namespace tenon {

// Fields of the request that the answer repeats.
struct ResponsesEcho {
  std::string instructions;
  Json tools = Json::array();
  Json tool_choice = "auto";
  Json metadata = Json::object();
  int64_t max_output_tokens = -1;
  float temperature = 0.0F;
  float top_p = 0.0F;
};

std::unique_ptr<AnswerFormat> MakeResponsesFormat(ResponsesEcho echo);

}  // namespace tenon
