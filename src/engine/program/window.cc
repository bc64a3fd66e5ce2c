#include "engine/program/window.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace tenon {
namespace {

// Sizes, strides and paddings up to here keep all products inside 64 bits.
constexpr int64_t kLargest = int64_t{1} << 24;
// Taps of a window, and outputs of a plane, that are listed at a time.
constexpr int64_t kMostTaps = int64_t{1} << 24;

// The attribute, or as many `otherwise` as there are spatial dimensions.
Result<Extents> Listed(const NodeCall& call, std::string_view name, size_t count,
                       int64_t otherwise) {
  const std::vector<int64_t>* given = call.node().Integers(name);
  if (given == nullptr)
    return Extents(count, otherwise);
  const int64_t least = name == "pads" ? 0 : 1;
  const bool fits = given->size() == count && std::ranges::all_of(*given, [&](int64_t value) {
                      return value >= least && value <= kLargest;
                    });
  if (!fits)
    return call.Wrong(fmt::format("{} of {}", name, *given));
  return *given;
}

int64_t CeilDiv(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

// Padding that gives as many outputs as strides fit into the input.
void PadToSame(WindowPlan& plan, bool upper) {
  for (size_t d = 0; d < plan.in.size(); ++d) {
    const int64_t out = CeilDiv(plan.in[d], plan.strides[d]);
    const int64_t span = (plan.kernel[d] - 1) * plan.dilations[d] + 1;
    const int64_t pad = std::max<int64_t>(0, (out - 1) * plan.strides[d] + span - plan.in[d]);
    plan.begin[d] = upper ? pad / 2 : pad - pad / 2;
    plan.end[d] = pad - plan.begin[d];
  }
}

Status ReadPadding(const NodeCall& call, WindowPlan& plan) {
  const size_t rank = plan.in.size();
  const std::string_view mode = call.node().Text("auto_pad", "NOTSET");
  plan.begin.assign(rank, 0);
  plan.end.assign(rank, 0);
  if (mode == "SAME_UPPER" || mode == "SAME_LOWER") {
    PadToSame(plan, mode == "SAME_UPPER");
    return {};
  }
  if (mode == "VALID")
    return {};
  if (mode != "NOTSET")
    return call.NotSupported(fmt::format("auto_pad '{}'", mode));
  TENON_ASSIGN_OR_RETURN(const Extents pads, Listed(call, "pads", 2 * rank, 0));
  plan.begin.assign(pads.begin(), pads.begin() + static_cast<std::ptrdiff_t>(rank));
  plan.end.assign(pads.begin() + static_cast<std::ptrdiff_t>(rank), pads.end());
  return {};
}

}  // namespace

Result<WindowPlan> PlanWindows(const NodeCall& call, const Extents& shape, const Extents& kernel,
                               CeilMode ceil) {
  if (shape.size() < 3 || kernel.size() + 2 != shape.size())
    return call.Wrong(fmt::format("windows of {} over a tensor of {}", kernel, shape));
  WindowPlan plan;
  plan.in.assign(shape.begin() + 2, shape.end());
  plan.kernel = kernel;
  const size_t rank = kernel.size();
  TENON_ASSIGN_OR_RETURN(plan.strides, Listed(call, "strides", rank, 1));
  TENON_ASSIGN_OR_RETURN(plan.dilations, Listed(call, "dilations", rank, 1));
  for (size_t d = 0; d < rank; ++d) {
    if (kernel[d] < 1 || kernel[d] > kLargest || plan.in[d] > kLargest)
      return call.Wrong(fmt::format("windows of {} over a tensor of {}", kernel, shape));
  }
  TENON_RETURN_IF_ERROR(ReadPadding(call, plan));
  for (size_t d = 0; d < rank; ++d) {
    const int64_t room =
        plan.in[d] + plan.begin[d] + plan.end[d] - ((kernel[d] - 1) * plan.dilations[d] + 1);
    if (room < 0)
      return call.Wrong(fmt::format("windows of {} do not fit into a tensor of {}", kernel, shape));
    const bool up = ceil == CeilMode::kAllowed && call.node().Integer("ceil_mode", 0) != 0;
    int64_t count = (up ? CeilDiv(room, plan.strides[d]) : room / plan.strides[d]) + 1;
    // A window that begins behind the input and its padding before is none.
    if (up && (count - 1) * plan.strides[d] >= plan.in[d] + plan.begin[d])
      --count;
    plan.out.push_back(count);
  }
  if (plan.taps() > kMostTaps)
    return call.NotSupported(fmt::format("windows of {}", kernel));
  return plan;
}

void FindTaps(const WindowPlan& plan, int64_t index, std::vector<WindowTap>& taps) {
  const size_t rank = plan.in.size();
  Extents start(rank);  // of the window, in the input
  for (size_t d = rank; d-- > 0;) {
    start[d] = index % plan.out[d] * plan.strides[d] - plan.begin[d];
    index /= plan.out[d];
  }
  taps.assign(static_cast<size_t>(plan.taps()), {});
  for (size_t tap = 0; tap < taps.size(); ++tap) {
    auto rest = static_cast<int64_t>(tap);
    int64_t flat = 0;
    int64_t scale = 1;
    for (size_t d = rank; d-- > 0;) {
      const int64_t at = start[d] + rest % plan.kernel[d] * plan.dilations[d];
      rest /= plan.kernel[d];
      if (at < 0 || at >= plan.in[d])
        flat = -1;
      if (at >= plan.in[d] + plan.end[d])
        taps[tap].counted = false;
      if (flat >= 0)
        flat += at * scale;
      scale *= plan.in[d];
    }
    taps[tap].input = flat;
  }
}

}  // namespace tenon
