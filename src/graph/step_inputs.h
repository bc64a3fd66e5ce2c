// Names of a step graph's inputs.
#pragma once

#include <string_view>

namespace tenon {

inline constexpr std::string_view kTokensInput = "tokens";        // I32 [N]
inline constexpr std::string_view kPositionsInput = "positions";  // I32 [N]
inline constexpr std::string_view kRowsInput = "output_rows";     // I32 [R]: rows of the step

}  // namespace tenon
