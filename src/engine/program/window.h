// Windows that slide over the spatial dimensions of a tensor [batch, channels, spatial...]: what
// convolutions and poolings have in common (ONNX Conv, MaxPool, AveragePool, LpPool).
//
// Threading: values.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "engine/program/node_call.h"

namespace tenon {

enum class CeilMode : uint8_t { kNo, kAllowed };

struct WindowPlan {
  Extents in;  // spatial
  Extents out;
  Extents kernel;
  Extents strides;
  Extents dilations;
  Extents begin;  // padding before
  Extents end;    // padding after

  int64_t taps() const { return ElementCount(kernel); }
};

// From the node's strides, dilations, pads and auto_pad, for an input of this shape. An error for
// attributes of another rank, for sizes below 1, and for windows larger than what they slide over.
Result<WindowPlan> PlanWindows(const NodeCall& call, const Extents& shape, const Extents& kernel,
                               CeilMode ceil);

// One position of one window.
struct WindowTap {
  int64_t input = -1;   // index into the spatial input; -1: in the padding
  bool counted = true;  // not beyond the padding, where rounding up may lead
};

// The taps of output `index` (a flat index into plan.out), in the kernel's order.
void FindTaps(const WindowPlan& plan, int64_t index, std::vector<WindowTap>& taps);

}  // namespace tenon
