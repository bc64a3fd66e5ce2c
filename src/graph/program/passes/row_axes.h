// Which operators compute each row by itself, and along which dimension of each input the rows lie.
//
// Threading: free functions.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "graph/program/program.h"

namespace tenon {

inline constexpr int64_t kWhole = -1;

// For a node whose only output has rows along dimension `axis` (from the front): the dimension of
// the same rows of each input, or kWhole for an input that is the same for all rows. None when rows
// depend on each other, when a shape that is needed is not declared, and for operators that are not
// known. REQUIRES: the rank of the output is declared.
std::optional<std::vector<int64_t>> RowAxes(const Program& program, const ProgramNode& node,
                                            int64_t axis);

// A product or attention: what makes it worth computing fewer rows.
bool IsProduct(const ProgramNode& node);

}  // namespace tenon
