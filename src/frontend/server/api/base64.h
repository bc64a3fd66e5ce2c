// Base64 (RFC 4648, section 4) with padding.
#pragma once

#include <string>
#include <string_view>

namespace tenon {

std::string EncodeBase64(std::string_view bytes);

}  // namespace tenon
