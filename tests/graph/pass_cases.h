// Cases of passes as data: tests/graph/passes/<pass>.txt.
//
//   case: what it shows
//   activations: float        (optional; int8 otherwise)
//   input:
//   <graph text>
//   expected:                 (or "expected: unchanged")
//   <graph text>
#pragma once

#include <string>
#include <vector>

namespace tenon {

struct PassCase {
  std::string name;
  std::string activations;
  std::string input;
  std::string expected;
};

// The cases of a file, in order. Throws std::runtime_error for a file that cannot be read.
std::vector<PassCase> ReadPassCases(const std::string& path);

}  // namespace tenon
