// From a conversation to token ids, by the model's own template.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/result.h"
#include "frontend/session/model.h"

namespace tenon {

// Ids of the rendered conversation. Control tokens that the template writes become tokens; the same
// spelling inside a message's content stays ordinary text.
Result<std::vector<int32_t>> EncodeChat(const Model& model, const nlohmann::ordered_json& messages,
                                        const nlohmann::ordered_json& variables);

}  // namespace tenon
