// POST /slots/{id}?action=save|restore|erase, as llama-server has it.
#pragma once

#include "frontend/server/api/api_context.h"
#include "frontend/server/http/http_server.h"

namespace tenon {

// Answers when the engine has done it.
HttpHandler SlotHandler(ApiContext& context);

}  // namespace tenon
