// Budget: what one rendering may still spend. Every evaluated node, list element and 256 bytes of
// scanned text is a step; every byte of text or storage that is created counts as output.
#pragma once

#include <cstddef>
#include <cstdint>

#include "model/chat/template_failure.h"

namespace tenon::chat {

class Budget {
 public:
  Budget(int64_t steps, int64_t bytes) : steps_(steps), bytes_(bytes) {}

  // Fails once more than the budget is asked for. `count` is at least 0.
  void Step(int64_t count = 1) {
    if (count > steps_)
      Fail("the template needs more evaluation steps than its budget allows");
    steps_ -= count;
  }
  void Bytes(size_t count) {
    if (count > static_cast<uint64_t>(bytes_ < 0 ? 0 : bytes_))
      Fail("the template produces more text than its budget allows");
    bytes_ -= static_cast<int64_t>(count);
  }
  // The same for `count` pieces of `size` bytes, without overflow.
  void Bytes(size_t count, size_t size) {
    size_t total = 0;
    if (__builtin_mul_overflow(count, size, &total))
      total = SIZE_MAX;
    Bytes(total);
  }
  // Work on `bytes` of text, in steps of some 100 ns: a pass of memory bandwidth, one that looks at
  // every character, and one that maps every character to others.
  void Scan(size_t bytes) { Step(static_cast<int64_t>(bytes >> 8)); }
  void Decode(size_t bytes) { Step(static_cast<int64_t>(bytes >> 4)); }
  void Convert(size_t bytes) { Step(static_cast<int64_t>(bytes >> 3)); }

 private:
  int64_t steps_;
  int64_t bytes_;
};

}  // namespace tenon::chat
