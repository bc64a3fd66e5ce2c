// TENON_CHECK(condition): a broken invariant of our own ends the process with its place. Never for
// input, files or requests: those get a Result (result.h).
#pragma once

namespace tenon {

// Prints the place and the condition to stderr and aborts.
[[noreturn]] void CheckFailed(const char* condition, const char* file, int line);

}  // namespace tenon

#define TENON_CHECK(condition)                              \
  do {                                                      \
    if (!(condition)) [[unlikely]]                          \
      ::tenon::CheckFailed(#condition, __FILE__, __LINE__); \
  } while (false)
