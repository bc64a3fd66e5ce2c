// Arithmetic with sizes that are numbers or names (symbolic_shapes.h).
//
// Threading: free functions.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "graph/program/passes/symbolic_shapes.h"

namespace tenon {

using Symbols = std::vector<Symbol>;

inline Symbol Number(int64_t value) {
  return {value, {}};
}

// a `op` b of "Add", "Sub", "Mul" and "Div". Names of results: equal operations on equal names have
// equal names.
Symbol Combine(std::string_view op, const Symbol& a, const Symbol& b);

// 1, 0, or not known.
std::optional<int64_t> AreEqual(const Symbol& a, const Symbol& b);

// The dimension that -1 stands for: what is left of `from` without the others of `to`.
std::optional<Symbol> OpenDimension(const Symbols& from, const Symbols& to);

}  // namespace tenon
