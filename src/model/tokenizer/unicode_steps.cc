#include "model/tokenizer/unicode_steps.h"

#include <algorithm>
#include <iterator>

#include "model/tokenizer/unicode_tables.h"

namespace tenon {

uint8_t StepFlagsOf(char32_t code) {
  const auto runs = StepRuns();
  const auto after = std::upper_bound(runs.begin(), runs.end(), code << 8 | 0xFF);
  return static_cast<uint8_t>(*std::prev(after) & 0xFF);
}

}  // namespace tenon
