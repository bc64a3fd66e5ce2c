// TailMeter: the 99th percentile of a module's latency per token against its own baseline.
//
// The baseline is the first full window after the module became active, kept for each number of
// sequences: a busier server is slower and that is no fault of the module. Later full windows may
// lower it, never raise it, so a slow drift is seen as well as a jump.
//
// Plain data, no clock. Threading: one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace tenon {

class TailMeter {
 public:
  // A token of one of `sequences` sequences took `seconds` since the one before it.
  void Observe(int64_t sequences, double seconds);
  // Forgets what is not yet a full window, and the rise; keeps the baselines.
  void Interrupt();

  // By how much the latest full window's P99 lies above the baseline, 0.4 for 40%; the worst over
  // the numbers of sequences. None before a window after the baseline's is full.
  std::optional<double> Rise() const { return rise_; }
  // Rises with every full window, so that a caller judges each one once.
  uint64_t windows() const { return windows_; }
  double p99_s() const { return p99_s_; }  // of the latest full window; 0: none yet

  // The 99th percentile is then the third largest value: one stray value does not make it.
  static constexpr size_t kWindow = 256;

 private:
  struct Track {
    std::vector<double> window;
    std::optional<double> baseline;
  };
  void CloseWindow(Track& track);

  std::map<int, Track> tracks_;  // by the number of sequences, in powers of two
  std::optional<double> rise_;
  uint64_t windows_ = 0;
  double p99_s_ = 0.0;
};

}  // namespace tenon
