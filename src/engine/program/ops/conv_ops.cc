// Convolutions (ONNX Conv, ConvInteger), as products of the weights with unfolded windows.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "engine/program/float_gemm.h"
#include "engine/program/number_convert.h"
#include "engine/program/op_table.h"
#include "engine/program/window.h"

namespace tenon {
namespace {

// Weights [out_channels, channels of a group, kernel...].
struct ConvPlan {
  WindowPlan windows;
  int64_t batch = 0;
  int64_t groups = 1;
  int64_t in_channels = 0;   // of a group
  int64_t out_channels = 0;  // of a group

  int64_t depth() const { return in_channels * windows.taps(); }
  Extents out_shape() const {
    Extents shape = {batch, groups * out_channels};
    shape.insert(shape.end(), windows.out.begin(), windows.out.end());
    return shape;
  }
};

Result<ConvPlan> PlanConv(const NodeCall& call) {
  const Extents& x = call.input(0).shape;
  const Extents& w = call.input(1).shape;
  ConvPlan plan;
  plan.groups = call.node().Integer("group", 1);
  const bool fits = x.size() >= 3 && w.size() == x.size() && plan.groups >= 1 &&
                    x[1] % plan.groups == 0 && w[0] % plan.groups == 0 &&
                    w[1] == x[1] / plan.groups;
  if (!fits)
    return call.Wrong(
        fmt::format("weights of {} and {} groups for a tensor of {}", w, plan.groups, x));
  const Extents kernel(w.begin() + 2, w.end());
  const std::vector<int64_t>* given = call.node().Integers("kernel_shape");
  if (given != nullptr && *given != kernel)
    return call.Wrong(fmt::format("kernel_shape {}, but the weights are {}", *given, w));
  TENON_ASSIGN_OR_RETURN(plan.windows, PlanWindows(call, x, kernel, CeilMode::kNo));
  plan.batch = x[0];
  plan.in_channels = w[1];
  plan.out_channels = w[0] / plan.groups;
  return plan;
}

// The windows over one group's channels as columns: [channels * taps, outputs].
template <class T>
void Unfold(const ConvPlan& plan, const T* planes, T* columns) {
  const int64_t in_size = ElementCount(plan.windows.in);
  const int64_t out_size = ElementCount(plan.windows.out);
  const int64_t tap_count = plan.windows.taps();
  std::vector<WindowTap> taps;
  for (int64_t i = 0; i < out_size; ++i) {
    FindTaps(plan.windows, i, taps);
    for (int64_t c = 0; c < plan.in_channels; ++c) {
      for (int64_t t = 0; t < tap_count; ++t) {
        const int64_t from = taps[static_cast<size_t>(t)].input;
        columns[(c * tap_count + t) * out_size + i] = from < 0 ? T{} : planes[c * in_size + from];
      }
    }
  }
}

std::vector<float> Floats(const TensorView& view) {
  std::vector<double> wide(static_cast<size_t>(view.count()));
  LoadDoubles(view.type, view.data, view.count(), wide.data());
  return {wide.begin(), wide.end()};
}

void AddBias(const ConvPlan& plan, const std::vector<float>& bias, std::vector<float>& y) {
  const int64_t out_size = ElementCount(plan.windows.out);
  for (size_t i = 0; i < y.size() && !bias.empty(); ++i)
    y[i] += bias[i / static_cast<size_t>(out_size) % bias.size()];
}

// Computes in float, whatever the type.
Status Conv(NodeCall& call) {
  TENON_RETURN_IF_ERROR(call.Need(2));
  TENON_ASSIGN_OR_RETURN(const ConvPlan plan, PlanConv(call));
  TENON_ASSIGN_OR_RETURN(const TensorView out,
                         call.Output(0, call.input(0).type, plan.out_shape()));
  const std::vector<float> x = Floats(call.input(0));
  const std::vector<float> w = Floats(call.input(1));
  const std::vector<float> bias = call.Has(2) ? Floats(call.input(2)) : std::vector<float>();
  if (!bias.empty() && static_cast<int64_t>(bias.size()) != plan.groups * plan.out_channels)
    return call.Wrong(fmt::format("{} biases", bias.size()));
  const int64_t out_size = ElementCount(plan.windows.out);
  std::vector<float> columns(static_cast<size_t>(plan.depth() * out_size));
  std::vector<float> y(static_cast<size_t>(out.count()));
  const int64_t group_in = plan.in_channels * ElementCount(plan.windows.in);
  for (int64_t g = 0; g < plan.batch * plan.groups && !y.empty() && plan.depth() > 0; ++g) {
    Unfold(plan, x.data() + g * group_in, columns.data());
    Gemm(call, w.data() + g % plan.groups * plan.out_channels * plan.depth(), plan.out_channels,
         {columns.data(), plan.depth(), out_size, out_size, 1},
         y.data() + g * plan.out_channels * out_size);
  }
  call.CountFlops(2.0 * static_cast<double>(out.count()) * static_cast<double>(plan.depth()));
  AddBias(plan, bias, y);
  const std::vector<double> wide(y.begin(), y.end());
  StoreDoubles(out.type, wide.data(), out.count(), out.data);
  return {};
}

// Integers less their zero points, which are scalars; of weights one for each output channel too.
Result<std::vector<int64_t>> Centered(const NodeCall& call, size_t input, size_t zero) {
  const TensorView& view = call.input(input);
  std::vector<int64_t> values(static_cast<size_t>(view.count()));
  LoadIntegers(view.type, view.data, view.count(), values.data());
  if (!call.Has(zero))
    return values;
  TENON_ASSIGN_OR_RETURN(const std::vector<int64_t> zeros, call.Integers(zero));
  const size_t most = input == 1 ? static_cast<size_t>(view.shape[0]) : 1;
  if (zeros.empty() || (zeros.size() != 1 && zeros.size() != most))
    return call.Wrong(fmt::format("{} zero points", zeros.size()));
  const size_t each = values.size() / zeros.size();
  for (size_t i = 0; i < values.size(); ++i)
    values[i] -= zeros[i / each];
  return values;
}

Status ConvInteger(NodeCall& call) {
  TENON_RETURN_IF_ERROR(call.Need(2));
  TENON_ASSIGN_OR_RETURN(const ConvPlan plan, PlanConv(call));
  if (!IsInteger(call.input(0).type) || !IsInteger(call.input(1).type))
    return call.Wrong("integers expected");
  TENON_ASSIGN_OR_RETURN(const TensorView out, call.Output(0, ElementType::kI32, plan.out_shape()));
  TENON_ASSIGN_OR_RETURN(const std::vector<int64_t> x, Centered(call, 0, 2));
  TENON_ASSIGN_OR_RETURN(const std::vector<int64_t> w, Centered(call, 1, 3));
  const int64_t out_size = ElementCount(plan.windows.out);
  std::vector<int64_t> columns(static_cast<size_t>(plan.depth() * out_size));
  std::vector<int64_t> y(static_cast<size_t>(out.count()));
  const int64_t group_in = plan.in_channels * ElementCount(plan.windows.in);
  for (int64_t g = 0; g < plan.batch * plan.groups; ++g) {
    Unfold(plan, x.data() + g * group_in, columns.data());
    for (int64_t o = 0; o < plan.out_channels; ++o) {
      const int64_t* row = w.data() + (g % plan.groups * plan.out_channels + o) * plan.depth();
      int64_t* to = y.data() + (g * plan.out_channels + o) * out_size;
      for (int64_t d = 0; d < plan.depth(); ++d) {
        for (int64_t i = 0; i < out_size; ++i)
          to[i] += row[d] * columns[static_cast<size_t>(d * out_size + i)];
      }
    }
  }
  StoreIntegers(out.type, y.data(), out.count(), out.data);
  return {};
}

constexpr ProgramOp kOps[] = {
    {"", "Conv", 1, kEveryVersion, Conv, kPlainOp},
    {"", "ConvInteger", 10, kEveryVersion, ConvInteger, kPlainOp},
};

}  // namespace

std::span<const ProgramOp> ConvOps() {
  return kOps;
}

}  // namespace tenon
