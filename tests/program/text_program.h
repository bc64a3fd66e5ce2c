// Programs from text, for tests of passes. A line each:
//
//   input %x f32 [batch, 4]            a declared input; * for a dimension that is not known
//   const %w f32 [4, 2]                a constant with made-up values
//   const %s i64 [2] = 0 -1            a constant with these values
//   %y, %z = Op(%x, %w, _) axis=1 perm=[1, 0] name="text" alpha=0.5
//   output %y
#pragma once

#include <string>

#include "base/result.h"
#include "graph/program/program.h"

namespace tenon {

Result<Program> ParseProgram(const std::string& text);

// The nodes as text, one a line, values renamed by order so that two programs can be compared:
// "1 = Gelu(x)". Inputs and constants keep their names.
std::string NodesText(const Program& program);

}  // namespace tenon
