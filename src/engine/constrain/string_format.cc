#include "engine/constrain/string_format.h"

#include <array>
#include <utility>

namespace tenon {
namespace {

// Dates that exist, but for the 29th of February; RFC 3339.
#define TENON_DATE                                                                \
  "[1-9][0-9]{3}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-" \
  "(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))"
#define TENON_TIME                                               \
  "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]{1,6})?" \
  "(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
#define TENON_OCTET "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
#define TENON_LABEL "[A-Za-z0-9](?:[A-Za-z0-9-]{0,30}[A-Za-z0-9])?"
#define TENON_HOST TENON_LABEL "(?:\\." TENON_LABEL "){0,5}"

constexpr std::array<std::pair<std::string_view, std::string_view>, 9> kPatterns = {{
    {"date", TENON_DATE},
    {"time", TENON_TIME},
    {"date-time", TENON_DATE "T" TENON_TIME},
    {"uuid", "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"},
    {"ipv4", TENON_OCTET "(?:\\." TENON_OCTET "){3}"},
    {"hostname", TENON_HOST},
    {"email", "[A-Za-z0-9_+-]{1,30}(?:\\.[A-Za-z0-9_+-]{1,30})?@" TENON_HOST},
    {"uri", "https?://" TENON_HOST "(?:/[A-Za-z0-9._~-]{0,64}){0,16}"},
    {"duration", "P(?:[1-9][0-9]{0,3}D|T[1-9][0-9]{0,3}[HMS]|[1-9][0-9]{0,3}W)"},
}};

#undef TENON_DATE
#undef TENON_TIME
#undef TENON_OCTET
#undef TENON_LABEL
#undef TENON_HOST

}  // namespace

std::string_view FormatPattern(std::string_view format) {
  for (const auto& [name, pattern] : kPatterns) {
    if (name == format)
      return pattern;
  }
  return {};
}

}  // namespace tenon
