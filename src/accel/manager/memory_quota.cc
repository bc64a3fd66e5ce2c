#include "accel/manager/memory_quota.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace tenon {
namespace {

// Shares are written in percent, and thirds of 100% don't add up exactly.
constexpr double kRounding = 1e-6;
constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

MemoryGrant Grant(int64_t limit, const MemoryRequest& request) {
  if (request.wanted <= limit)
    return {MemoryVerdict::kGranted, request.wanted, limit};
  if (request.least <= limit)
    return {MemoryVerdict::kShrunk, limit, limit};
  return {MemoryVerdict::kRefused, 0, limit};
}

}  // namespace

Result<std::vector<MemoryGrant>> GrantMemory(int64_t module_memory,
                                             std::span<const MemoryRequest> requests) {
  double sum = 0.0;
  std::vector<MemoryGrant> grants;
  for (const MemoryRequest& request : requests) {
    const std::string where = fmt::format("module_memory_quota.{}", request.module);
    if (!(request.share >= 0.0 && request.share <= 1.0)) {
      return InvalidArgument(fmt::format("found {}%, expected 0% to 100%", request.share * 100.0),
                             where);
    }
    if (request.least < 0 || request.wanted < request.least) {
      return InvalidArgument(
          fmt::format("wants {} bytes and needs at least {}", request.wanted, request.least),
          where);
    }
    if (request.limit == MemoryLimit::kNone) {
      grants.push_back({MemoryVerdict::kGranted, request.wanted, kNoLimit});
      continue;
    }
    sum += request.share;
    const double limit =
        std::floor(static_cast<double>(std::max<int64_t>(module_memory, 0)) * request.share);
    grants.push_back(Grant(static_cast<int64_t>(limit), request));
  }
  if (sum > 1.0 + kRounding) {
    return InvalidArgument(
        fmt::format("the shares sum to {:.1f}%, expected 100% or less", sum * 100.0),
        "module_memory_quota");
  }
  return grants;
}

}  // namespace tenon
