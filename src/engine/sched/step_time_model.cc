#include "engine/sched/step_time_model.h"

#include <algorithm>

namespace tenon {
namespace {

// Weight of the newest value: steps of the last fraction of a second decide.
constexpr double kNewest = 0.2;
// One value moves the mean as if it were at most this many times larger: a step during which the
// machine was busy with something else says little.
constexpr double kOutlier = 3.0;

void Smooth(double& mean, double value) {
  if (mean == 0.0)
    mean = value;
  else
    mean += kNewest * (std::min(value, kOutlier * mean) - mean);
}

}  // namespace

void StepTimeModel::Observe(int64_t decodes, int64_t chunk, double seconds) {
  if (chunk == 0) {
    if (decodes > 0 && static_cast<size_t>(decodes) < decode_s_.size())
      Smooth(decode_s_[static_cast<size_t>(decodes)], seconds);
    return;
  }
  const double base = decodes > 0 ? DecodeSeconds(decodes) : 0.0;
  if (decodes > 0 && base == 0.0)
    return;  // how much of it was the chunk's is not known
  // A chunk is never free: at least a tenth of an even share.
  const double least = 0.1 * seconds / static_cast<double>(decodes + chunk);
  Smooth(chunk_token_s_, std::max(least, (seconds - base) / static_cast<double>(chunk)));
}

double StepTimeModel::DecodeSeconds(int64_t decodes) const {
  const auto at = std::min(static_cast<size_t>(decodes), decode_s_.size() - 1);
  size_t below = at;
  while (below > 0 && decode_s_[below] == 0.0)
    --below;
  size_t above = at;
  while (above < decode_s_.size() && decode_s_[above] == 0.0)
    ++above;
  if (below == 0) {
    if (above == decode_s_.size())
      return 0.0;
    // Fewer sequences than ever seen: at least their share of the time.
    return decode_s_[above] * static_cast<double>(at) / static_cast<double>(above);
  }
  if (below == at || above == decode_s_.size())
    return decode_s_[below];
  const double part = static_cast<double>(at - below) / static_cast<double>(above - below);
  return decode_s_[below] + part * (decode_s_[above] - decode_s_[below]);
}

int64_t StepTimeModel::ChunkBeside(int64_t decodes, int64_t prompts) const {
  const double decode_s = DecodeSeconds(decodes);
  if (decode_s == 0.0 || chunk_token_s_ <= 0.0)
    return kFirstChunk;
  const double shares = kShare * static_cast<double>(std::min(prompts, kMaxPrompts));
  const double chunk = shares * decode_s / chunk_token_s_;
  // 1e6 tokens stand for "any number": the caller's budget is smaller.
  return std::max(kMinChunk, static_cast<int64_t>(std::min(chunk, 1e6)));
}

}  // namespace tenon
