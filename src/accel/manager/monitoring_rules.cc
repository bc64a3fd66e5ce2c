#include "accel/manager/monitoring_rules.h"

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace tenon {
namespace {

// NaN is outside every range.
Status CheckShare(double value, double high, std::string_view field) {
  if (value >= 0.0 && value <= high)
    return {};
  return InvalidArgument(fmt::format("found {}, expected 0 to {}", value, high),
                         std::string(field));
}

}  // namespace

Status CheckRules(const MonitoringRules& rules) {
  TENON_RETURN_IF_ERROR(CheckShare(rules.min_latency_saving, 1.0, "min_latency_saving"));
  TENON_RETURN_IF_ERROR(CheckShare(rules.max_integrity_failures, 1.0, "max_integrity_failures"));
  TENON_RETURN_IF_ERROR(CheckShare(rules.p99_rollback, 100.0, "p99_rollback"));
  TENON_RETURN_IF_ERROR(CheckShare(rules.shadow_share, 0.5, "shadow_share"));
  TENON_RETURN_IF_ERROR(CheckShare(rules.return_margin, 1.0, "return_margin"));
  if (rules.first_cool_down.count() < 0 || rules.longest_cool_down < rules.first_cool_down)
    return InvalidArgument("the longest one is shorter than the first", "cool_down");
  return {};
}

}  // namespace tenon
