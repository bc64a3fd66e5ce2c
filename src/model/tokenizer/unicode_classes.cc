#include "model/tokenizer/unicode_classes.h"

#include <map>

#include "model/tokenizer/unicode_tables.h"

namespace tenon {
namespace {

constexpr size_t kPageSize = 256;
constexpr size_t kCodes = 0x110000;

// Flags of the packed value, beside the class index in its low four bits.
constexpr uint32_t kDigitFlag = 16;
constexpr uint32_t kPunctuationFlag = 32;

uint16_t BitsOf(uint32_t value) {
  uint32_t bits = 1u << (value & 15);
  if (value & kDigitFlag)
    bits |= char_class::kDigitsStep;
  if (value & kPunctuationFlag)
    bits |= char_class::kPunctuationStep;
  return static_cast<uint16_t>(bits);
}

}  // namespace

UnicodeClasses::UnicodeClasses() {
  std::map<uint16_t, uint32_t> uniform;  // where a page of one class alone is stored
  const auto runs = ClassRuns();
  size_t next = 0;  // index of the first run that starts after the current character
  uint16_t bits = 0;
  for (size_t first = 0; first < kCodes; first += kPageSize) {
    const bool same = next < runs.size() && next > 0 && runs[next] >> 8 >= first + kPageSize;
    const auto place = static_cast<uint32_t>(pages_.size());
    index_.push_back(same ? uniform.try_emplace(bits, place).first->second : place);
    if (index_.back() != place)
      continue;
    for (size_t code = first; code < first + kPageSize; ++code) {
      while (next < runs.size() && runs[next] >> 8 <= code)
        bits = BitsOf(runs[next++] & 0xFF);
      pages_.push_back(bits);
    }
  }
}

}  // namespace tenon
