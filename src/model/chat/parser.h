// The parser: tokens to a Template whose names are not yet resolved.
#pragma once

#include <string_view>

#include "model/chat/ast.h"

namespace tenon::chat {

// Throws TemplateFailure.
Template ParseTemplate(std::string_view source);

}  // namespace tenon::chat
