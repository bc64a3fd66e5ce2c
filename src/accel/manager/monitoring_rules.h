// The limits by which modules are judged, under the names of the configuration's `monitoring`
// block.
#pragma once

#include <chrono>
#include <cstdint>

#include "base/result.h"

namespace tenon {

struct MonitoringRules {
  // A module that saves less than this share of the time per token is disabled.
  double min_latency_saving = 0.15;
  // With more failed integrity checks than this share only one module stays.
  double max_integrity_failures = 0.005;
  // A module is rolled back when its P99 rises by this share over its own baseline.
  double p99_rollback = 0.40;

  // Share of the steps that run without one of the modules (or, of a withdrawn one, with it), to
  // measure what it saves.
  double shadow_share = 0.05;
  // A withdrawn module returns when it saves this much more than min_latency_saving.
  double return_margin = 0.05;
  // First wait after a withdrawal, doubled with each further one up to the second.
  std::chrono::nanoseconds first_cool_down = std::chrono::seconds(30);
  std::chrono::nanoseconds longest_cool_down = std::chrono::hours(1);
};

// Fails with kInvalidArgument, naming the field, for values outside their range.
Status CheckRules(const MonitoringRules& rules);

}  // namespace tenon
