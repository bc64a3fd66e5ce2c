// Environment: the variables of the process, or a test's.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace tenon {

// The value of a variable, "" if it is not set.
using Environment = std::function<std::string(std::string_view name)>;

// The process's own variables.
Environment ProcessEnvironment();

// True for "1", "on", "yes" and "true" in any case.
bool IsTruthy(std::string_view value);

}  // namespace tenon
