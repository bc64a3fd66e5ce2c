#include "accel/manager/tail_meter.h"

#include <algorithm>
#include <bit>

namespace tenon {
namespace {

// By the nearest rank from below: of 256 values the third largest.
double Percentile99(std::vector<double>& values) {
  const size_t rank = values.size() * 99 / 100;
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(std::min(rank, values.size() - 1));
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

}  // namespace

void TailMeter::Observe(int64_t sequences, double seconds) {
  if (sequences <= 0 || !(seconds >= 0.0))
    return;
  Track& track = tracks_[static_cast<int>(std::bit_width(static_cast<uint64_t>(sequences)))];
  track.window.push_back(seconds);
  if (track.window.size() == kWindow)
    CloseWindow(track);
}

void TailMeter::CloseWindow(Track& track) {
  p99_s_ = Percentile99(track.window);
  track.window.clear();
  ++windows_;
  if (track.baseline.has_value() && *track.baseline > 0.0)
    rise_ = p99_s_ / *track.baseline - 1.0;
  track.baseline = std::min(track.baseline.value_or(p99_s_), p99_s_);
}

void TailMeter::Interrupt() {
  for (auto& [kind, track] : tracks_)
    track.window.clear();
  rise_.reset();
}

}  // namespace tenon
