// When waiting requests may enter the running batch.
//
// Continuous batching (Yu et al., "Orca", OSDI 2022): at every step, as long as there is room. When
// nothing runs, the first request waits for company, but only while others keep coming: a request
// that is alone starts after `quiet`, and none waits longer than `window`. Static batching, for
// comparison: when a batch is full or the window is over, and then not again before its last
// request is done.
//
// Pure functions over plain data; a time is whatever clock the caller has. Threading: values.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

namespace tenon {

// How the steps are filled. kStatic waits for a full batch or the window's end and runs that batch
// until its last request is done: for comparison.
enum class BatchingPolicy : uint8_t { kContinuous, kStatic };

using SchedTime = std::chrono::steady_clock::time_point;

struct BatchWindow {
  int64_t max_batch = 32;
  int64_t enough = 32;  // waiting sequences that wait for no others
  std::chrono::nanoseconds window = std::chrono::milliseconds(50);
  // Requests of one burst come within a millisecond or two of each other; a longer silence means
  // that waiting on would only delay the ones that are here.
  std::chrono::nanoseconds quiet = std::chrono::milliseconds(2);
};

// REQUIRES: waiting > 0 for the times to mean anything.
struct ArrivalState {
  int64_t running = 0;  // sequences in the batch
  int64_t waiting = 0;  // sequences that want to enter
  SchedTime oldest;     // arrival of the first and the last waiting request
  SchedTime newest;
};

// The time from which waiting requests may enter: SchedTime::min() for at once, nullopt when only
// the end of running requests can change it.
std::optional<SchedTime> EntryTime(BatchingPolicy policy, const BatchWindow& limits,
                                   const ArrivalState& state);

}  // namespace tenon
