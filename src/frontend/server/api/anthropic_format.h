// How /v1/messages writes an answer: content blocks, and the events of its stream.
#pragma once

#include <memory>

#include "frontend/server/api/answer.h"

namespace tenon {

std::unique_ptr<AnswerFormat> MakeAnthropicFormat();

}  // namespace tenon
