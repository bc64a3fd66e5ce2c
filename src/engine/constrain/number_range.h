// Decimal numbers between two bounds, as grammars. Threading: one thread at a time for each
// grammar.
#pragma once

#include <optional>

#include "base/result.h"
#include "engine/constrain/grammar.h"

namespace tenon {

struct NumberBound {
  double value = 0.0;
  bool is_exclusive = false;
};

enum class NumberKind : uint8_t { kInteger, kAny };

// JSON numbers. Without bounds they may have an exponent; with bounds they have at most 15
// significant digits, so that reading them as a double moves none over its bound. Fails with
// kUnsupported for a bound of 1e15 or more, or that has more digits than that.
Result<Grammar::Term> NumberBetween(Grammar& grammar, NumberKind kind,
                                    std::optional<NumberBound> low,
                                    std::optional<NumberBound> high);

}  // namespace tenon
