// Poolings (ONNX MaxPool, AveragePool, LpPool, GlobalAveragePool, GlobalMaxPool, GlobalLpPool).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/program/number_convert.h"
#include "engine/program/op_table.h"
#include "engine/program/window.h"

namespace tenon {
namespace {

// What becomes of the values of a window.
struct Pooling {
  enum class Kind : uint8_t { kMax, kMean, kNorm };
  Kind kind = Kind::kMax;
  bool counts_padding = false;  // kMean
  double power = 2.0;           // kNorm
};

// The value of a window over one plane; `best` is the input index of a maximum.
double Pool(const Pooling& pooling, const std::vector<WindowTap>& taps, const double* plane,
            int64_t& best) {
  double sum = 0.0;
  double largest = -std::numeric_limits<double>::infinity();
  int64_t count = 0;
  best = -1;
  for (const WindowTap& tap : taps) {
    count += pooling.counts_padding ? (tap.counted ? 1 : 0) : (tap.input >= 0 ? 1 : 0);
    if (tap.input < 0)
      continue;
    const double value = plane[tap.input];
    sum += pooling.kind == Pooling::Kind::kNorm ? std::pow(std::fabs(value), pooling.power) : value;
    if (best < 0 || value > largest) {
      largest = value;
      best = tap.input;
    }
  }
  switch (pooling.kind) {
    case Pooling::Kind::kMax:
      return largest;
    case Pooling::Kind::kMean:
      return count > 0 ? sum / static_cast<double>(count) : 0.0;
    case Pooling::Kind::kNorm:
      return std::pow(sum, 1.0 / pooling.power);
  }
  return 0.0;
}

// An input index with the first spatial dimension innermost (storage_order 1).
int64_t ColumnMajor(const WindowPlan& plan, int64_t index) {
  int64_t out = 0;
  int64_t scale = ElementCount(plan.in);
  for (size_t d = plan.in.size(); d-- > 0;) {
    scale /= plan.in[d];
    out += index % plan.in[d] * scale;
    index /= plan.in[d];
  }
  return out;
}

Status RunPool(NodeCall& call, const Pooling& pooling, const WindowPlan& plan) {
  const TensorView x = call.input(0);
  Extents shape = {x.shape[0], x.shape[1]};
  shape.insert(shape.end(), plan.out.begin(), plan.out.end());
  TENON_ASSIGN_OR_RETURN(const TensorView y, call.Output(0, x.type, shape));
  int64_t* indices = nullptr;
  if (call.Wants(1)) {
    TENON_ASSIGN_OR_RETURN(const TensorView where, call.Output(1, ElementType::kI64, shape));
    indices = where.As<int64_t>();
  }
  const bool columns = call.node().Integer("storage_order", 0) != 0;
  const int64_t in_size = ElementCount(plan.in);
  const int64_t out_size = ElementCount(plan.out);
  std::vector<double> plane(static_cast<size_t>(in_size));
  std::vector<double> row(static_cast<size_t>(out_size));
  std::vector<WindowTap> taps;
  for (int64_t p = 0; p < x.shape[0] * x.shape[1]; ++p) {
    LoadDoubles(x.type, x.data + p * in_size * ElementBytes(x.type), in_size, plane.data());
    for (int64_t i = 0; i < out_size; ++i) {
      FindTaps(plan, i, taps);
      int64_t best = -1;
      row[static_cast<size_t>(i)] = Pool(pooling, taps, plane.data(), best);
      if (indices != nullptr)
        indices[p * out_size + i] =
            p * in_size + (columns && best >= 0 ? ColumnMajor(plan, best) : best);
    }
    StoreDoubles(y.type, row.data(), out_size, y.data + p * out_size * ElementBytes(y.type));
  }
  return {};
}

Status Windowed(NodeCall& call, const Pooling& pooling) {
  TENON_RETURN_IF_ERROR(call.Need(1));
  const std::vector<int64_t>* kernel = call.node().Integers("kernel_shape");
  if (kernel == nullptr)
    return call.Wrong("kernel_shape is missing");
  TENON_ASSIGN_OR_RETURN(const WindowPlan plan,
                         PlanWindows(call, call.input(0).shape, *kernel, CeilMode::kAllowed));
  return RunPool(call, pooling, plan);
}

// One window over everything.
Status Global(NodeCall& call, const Pooling& pooling) {
  TENON_RETURN_IF_ERROR(call.Need(1));
  const Extents& shape = call.input(0).shape;
  if (shape.size() < 3 || ElementCount(shape) == 0)
    return call.Wrong(fmt::format("a tensor of rank {}, 3 or more expected", shape.size()));
  WindowPlan plan;
  plan.in.assign(shape.begin() + 2, shape.end());
  plan.kernel = plan.in;
  plan.out.assign(plan.in.size(), 1);
  plan.strides = plan.out;
  plan.dilations = plan.out;
  plan.begin.assign(plan.in.size(), 0);
  plan.end = plan.begin;
  return RunPool(call, pooling, plan);
}

double Power(const NodeCall& call) {
  return static_cast<double>(call.node().Integer("p", 2));
}

Status MaxPool(NodeCall& call) {
  return Windowed(call, {Pooling::Kind::kMax});
}
Status AveragePool(NodeCall& call) {
  return Windowed(call, {Pooling::Kind::kMean, call.node().Integer("count_include_pad", 0) != 0});
}
Status LpPool(NodeCall& call) {
  return Windowed(call, {Pooling::Kind::kNorm, false, Power(call)});
}
Status GlobalMaxPool(NodeCall& call) {
  return Global(call, {Pooling::Kind::kMax});
}
Status GlobalAveragePool(NodeCall& call) {
  return Global(call, {Pooling::Kind::kMean});
}
Status GlobalLpPool(NodeCall& call) {
  return Global(call, {Pooling::Kind::kNorm, false, Power(call)});
}

constexpr ProgramOp kOps[] = {
    {"", "MaxPool", 1, kEveryVersion, MaxPool, kPlainOp},
    {"", "AveragePool", 1, kEveryVersion, AveragePool, kPlainOp},
    {"", "LpPool", 2, kEveryVersion, LpPool, kPlainOp},
    {"", "GlobalMaxPool", 1, kEveryVersion, GlobalMaxPool, kPlainOp},
    {"", "GlobalAveragePool", 1, kEveryVersion, GlobalAveragePool, kPlainOp},
    {"", "GlobalLpPool", 2, kEveryVersion, GlobalLpPool, kPlainOp},
};

}  // namespace

std::span<const ProgramOp> PoolOps() {
  return kOps;
}

}  // namespace tenon
