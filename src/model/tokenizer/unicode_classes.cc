#include "model/tokenizer/unicode_classes.h"

#include <array>
#include <map>

#include "model/tokenizer/unicode_tables.h"

namespace tenon {
namespace {

constexpr size_t kPageSize = 256;
constexpr size_t kPages = 0x110000 / kPageSize;
using Page = std::array<uint16_t, kPageSize>;

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
  std::map<Page, uint32_t> seen;
  const auto runs = ClassRuns();
  size_t next = 0;  // index of the first run that starts after the current character
  uint16_t bits = 0;
  for (size_t page_number = 0; page_number < kPages; ++page_number) {
    Page page;
    for (size_t i = 0; i < kPageSize; ++i) {
      while (next < runs.size() && runs[next] >> 8 <= page_number * kPageSize + i)
        bits = BitsOf(runs[next++] & 0xFF);
      page[i] = bits;
    }
    auto [place, is_new] = seen.try_emplace(page, static_cast<uint32_t>(pages_.size()));
    if (is_new)
      pages_.insert(pages_.end(), page.begin(), page.end());
    index_.push_back(place->second);
  }
}

}  // namespace tenon
