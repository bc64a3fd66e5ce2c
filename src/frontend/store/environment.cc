#include "frontend/store/environment.h"

#include <cstdlib>

#include "frontend/store/ascii.h"

namespace tenon {

Environment ProcessEnvironment() {
  return [](std::string_view name) {
    const char* value = std::getenv(std::string(name).c_str());
    return value == nullptr ? std::string() : std::string(value);
  };
}

bool IsTruthy(std::string_view value) {
  const std::string lower = LowerCaseAscii(TrimAscii(value));
  return lower == "1" || lower == "on" || lower == "yes" || lower == "true";
}

}  // namespace tenon
