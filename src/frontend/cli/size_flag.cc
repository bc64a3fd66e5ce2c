#include "frontend/cli/size_flag.h"

#include <fmt/format.h>

#include <charconv>
#include <string_view>

namespace tenon {

Result<int64_t> ParseSize(const std::string& text, const std::string& flag) {
  double number = 0.0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  const std::string_view unit(rest, static_cast<size_t>(end - rest));
  double factor = 0.0;
  if (unit.empty() || unit == "B")
    factor = 1.0;
  else if (unit == "KB" || unit == "K")
    factor = 0x1p10;
  else if (unit == "MB" || unit == "M")
    factor = 0x1p20;
  else if (unit == "GB" || unit == "G")
    factor = 0x1p30;
  const double bytes = number * factor;
  if (error != std::errc() || !(bytes >= 1.0) || bytes > 0x1p60)
    return InvalidArgument(fmt::format("'{}'; a size such as 2GB or 512MB expected", text), flag);
  return static_cast<int64_t>(bytes);
}

}  // namespace tenon
