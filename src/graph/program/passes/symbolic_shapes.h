// Types, shapes and small integer tensors of a program's values, as far as they are known before it
// runs. A dimension that is not a known number has a name: equal names are equal numbers.
//
// Threading: free functions.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "graph/program/program.h"

namespace tenon {

// A number, or the name of one that is not negative.
struct Symbol {
  std::optional<int64_t> number;
  std::string name;
  bool operator==(const Symbol&) const = default;
};

struct SymbolicValue {
  ElementType type = ElementType::kUndefined;
  std::optional<std::vector<Symbol>> shape;
  // Elements of an integer or bool tensor of rank 0 or 1, where all are known or named.
  std::optional<std::vector<Symbol>> elements;
};

// One entry for each value of the program.
std::vector<SymbolicValue> InferSymbolic(const Program& program);

}  // namespace tenon
