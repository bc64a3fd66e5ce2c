// Spellings that other engines' users type: single-dash flags of several letters, such as -ub.
#pragma once

#include <string>
#include <vector>

namespace tenon {

// The arguments (without the program's name) with such flags replaced by their long form.
std::vector<std::string> NormalizeArguments(int argc, const char* const* argv);

}  // namespace tenon
