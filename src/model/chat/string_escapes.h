// The backslash escapes of a string literal.
#pragma once

#include <string>
#include <string_view>

namespace tenon::chat {

// Resolves the escapes as Python's "unicode-escape" codec does; unknown ones keep their backslash.
// Throws TemplateFailure with the line.
std::string ResolveEscapes(std::string_view body, int line);

}  // namespace tenon::chat
