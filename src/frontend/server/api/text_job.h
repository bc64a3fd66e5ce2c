// TextJob: a request for text in any API's words, parsed: what to run and how its text is read.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "frontend/server/api/answer.h"
#include "frontend/server/api/message_parser.h"
#include "frontend/serving/serving_engine.h"

namespace tenon {

enum class Delivery : uint8_t { kWhole, kStream };

struct TextJob {
  // One for each prompt, all with the same number of choices. Label, tenant, cache scope and
  // deadline are filled in later, from the caller.
  std::vector<ServingRequest> requests;
  Delivery delivery = Delivery::kWhole;
  MessageSyntax syntax;
  std::string model;     // the name that the client used
  std::string salt;      // further parts the KV cache
  int32_t priority = 0;  // as the client gives it: lower goes first
  std::unique_ptr<AnswerFormat> format;
};

}  // namespace tenon
