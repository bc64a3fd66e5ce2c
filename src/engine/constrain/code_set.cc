#include "engine/constrain/code_set.h"

#include <algorithm>

namespace tenon {

CodeSet::CodeSet(std::initializer_list<CodeRange> ranges) : ranges_(ranges) {}

void CodeSet::Add(const CodeSet& other) {
  ranges_.insert(ranges_.end(), other.ranges_.begin(), other.ranges_.end());
}

std::vector<CodeRange> CodeSet::Ranges() const {
  std::vector<CodeRange> sorted = ranges_;
  std::ranges::sort(sorted, {}, &CodeRange::low);
  std::vector<CodeRange> merged;
  for (const CodeRange& range : sorted) {
    if (!merged.empty() && range.low <= merged.back().high + 1)
      merged.back().high = std::max(merged.back().high, range.high);
    else
      merged.push_back(range);
  }
  return merged;
}

CodeSet CodeSet::Complement() const {
  CodeSet out;
  uint32_t next = 0;
  for (const CodeRange& range : Ranges()) {
    if (range.low > next)
      out.Add({next, range.low - 1});
    next = range.high + 1;
  }
  if (next <= kLastCodePoint)
    out.Add({next, kLastCodePoint});
  return out;
}

}  // namespace tenon
