// Base64 (RFC 4648) as JSON files carry binary tables.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tenon {

// The bytes; none when `text` is no base64. White space is not allowed.
std::optional<std::string> DecodeBase64(std::string_view text);

}  // namespace tenon
