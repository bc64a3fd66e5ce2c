// JSON Schema's formats as regular expressions.
#pragma once

#include <string_view>

namespace tenon {

// Whole strings of the format, or a part of them where the whole would take a parser (URIs, mail
// addresses, hosts); empty for a format that is not known here. A static text.
std::string_view FormatPattern(std::string_view format);

}  // namespace tenon
