// CodeSet: Unicode code points as sorted ranges, for character classes. Threading: values.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <vector>

namespace tenon {

struct CodeRange {
  uint32_t low = 0;
  uint32_t high = 0;
};

inline constexpr uint32_t kLastCodePoint = 0x10FFFF;

class CodeSet {
 public:
  CodeSet() = default;
  CodeSet(std::initializer_list<CodeRange> ranges);

  void Add(CodeRange range) { ranges_.push_back(range); }
  void Add(const CodeSet& other);
  CodeSet Complement() const;
  // Sorted, without overlaps.
  std::vector<CodeRange> Ranges() const;

 private:
  std::vector<CodeRange> ranges_;
};

}  // namespace tenon
