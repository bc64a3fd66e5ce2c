#include "engine/exec/steps/row_steps.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <vector>

namespace tenon {
namespace {

// Rows that one task takes: a few microseconds of elementwise work, worth waking a thread for.
constexpr int64_t kRowGrain = 16;

template <class F>
void ForEachRow(const StepContext& context, Symbol rows, F&& body) {
  context.pool.ParallelFor(context.RowCount(rows), kRowGrain,
                           [&](int64_t begin, int64_t end, int worker) {
                             for (int64_t row = begin; row < end; ++row)
                               body(row, worker);
                           });
}

}  // namespace

std::string RmsNormStep::Describe() const {
  return fmt::format("rms_norm groups of {}{}{}", args_.group,
                     args_.has_residual ? " + residual" : "",
                     args_.quantize != nullptr ? " -> int8" : "");
}

int64_t RmsNormStep::WorkerScratchBytes() const {
  return args_.x.columns * static_cast<int64_t>(sizeof(float));
}

void RmsNormStep::RunRow(const StepContext& context, int64_t row, float* scratch) const {
  const int64_t columns = args_.x.columns;
  const float* x = context.FloatRow(args_.x, row);
  const bool direct = args_.quantize == nullptr && !args_.has_residual;
  float* normed = direct ? context.FloatRow(args_.out, row) : scratch;
  for (int64_t i = 0; i < columns; i += args_.group)
    args_.norm(x + i, args_.weight, args_.group, args_.eps, normed + i);
  if (direct)
    return;
  if (args_.has_residual) {
    float* sum = args_.quantize != nullptr ? scratch : context.FloatRow(args_.out, row);
    args_.add(normed, context.FloatRow(args_.residual, row), columns, sum);
  }
  if (args_.quantize != nullptr)
    args_.quantize(scratch, columns, context.Row(args_.out, row));
}

Status RmsNormStep::Run(const StepContext& context) const {
  ForEachRow(context, args_.x.rows, [&](int64_t row, int worker) {
    RunRow(context, row, reinterpret_cast<float*>(context.Scratch(worker)));
  });
  return {};
}

namespace {

// The sum of `n` values of f(i): 16 lanes (i mod 16), which machines with vectors add at once; then
// the upper half of the lanes is added to the lower one until one is left.
template <class F>
float LaneSum(int64_t n, F&& f) {
  constexpr int64_t kLanes = 16;
  float lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane)
      lanes[lane] += f(i + lane);
  }
  for (; i < n; ++i)
    lanes[i % kLanes] += f(i);
  for (int64_t half = kLanes / 2; half > 0; half /= 2) {
    for (int64_t lane = 0; lane < half; ++lane)
      lanes[lane] += lanes[lane + half];
  }
  return lanes[0];
}

void LayerNormRow(const LayerNormStep::Args& args, const float* x, float* out) {
  const int64_t n = args.x.columns;
  const auto count = static_cast<float>(n);
  const float mean = LaneSum(n, [&](int64_t i) { return x[i]; }) / count;
  const float variance =
      LaneSum(n, [&](int64_t i) { return (x[i] - mean) * (x[i] - mean); }) / count;
  const float inverse = 1.0F / std::sqrt(variance + args.eps);
  for (int64_t i = 0; i < n; ++i)
    out[i] = (x[i] - mean) * inverse * args.weight[i] + args.bias[i];
}

}  // namespace

std::string LayerNormStep::Describe() const {
  return args_.quantize != nullptr ? "layer_norm -> int8" : "layer_norm";
}

int64_t LayerNormStep::WorkerScratchBytes() const {
  return args_.x.columns * static_cast<int64_t>(sizeof(float));
}

Status LayerNormStep::Run(const StepContext& context) const {
  ForEachRow(context, args_.x.rows, [&](int64_t row, int worker) {
    const float* x = context.FloatRow(args_.x, row);
    if (args_.quantize == nullptr)
      return LayerNormRow(args_, x, context.FloatRow(args_.out, row));
    float* scratch = reinterpret_cast<float*>(context.Scratch(worker));
    LayerNormRow(args_, x, scratch);
    args_.quantize(scratch, args_.x.columns, context.Row(args_.out, row));
  });
  return {};
}

void ReluRow(const float* x, int64_t n, float* out) {
  for (int64_t i = 0; i < n; ++i)
    out[i] = x[i] > 0.0F ? x[i] : 0.0F;
}

void GeluErfRow(const float* x, int64_t n, float* out) {
  constexpr float kSqrtHalf = 0.70710678F;
  for (int64_t i = 0; i < n; ++i)
    out[i] = 0.5F * x[i] * (1.0F + std::erf(x[i] * kSqrtHalf));
}

Status QuantizeStep::Run(const StepContext& context) const {
  ForEachRow(context, args_.x.rows, [&](int64_t row, int) {
    args_.quantize(context.FloatRow(args_.x, row), args_.x.columns, context.Row(args_.out, row));
  });
  return {};
}

Status BinaryStep::Run(const StepContext& context) const {
  ForEachRow(context, args_.out.rows, [&](int64_t row, int) {
    args_.function(context.FloatRow(args_.a, row), context.FloatRow(args_.b, row),
                   args_.out.columns, context.FloatRow(args_.out, row));
  });
  return {};
}

Status UnaryStep::Run(const StepContext& context) const {
  ForEachRow(context, args_.out.rows, [&](int64_t row, int) {
    const float* x = context.FloatRow(args_.x, row);
    float* out = context.FloatRow(args_.out, row);
    if (args_.function != nullptr)
      args_.function(x, args_.out.columns, out);
    else
      args_.scale(x, args_.factor, args_.out.columns, out);
  });
  return {};
}

Status SoftcapStep::Run(const StepContext& context) const {
  ForEachRow(context, args_.out.rows, [&](int64_t row, int) {
    const float* x = context.FloatRow(args_.x, row);
    float* out = context.FloatRow(args_.out, row);
    for (int64_t i = 0; i < args_.out.columns; ++i)
      out[i] = args_.cap * std::tanh(x[i] / args_.cap);
  });
  return {};
}

Status RopeStep::Run(const StepContext& context) const {
  ForEachRow(context, args_.out.rows, [&](int64_t row, int) {
    float* out = context.FloatRow(args_.out, row);
    if (args_.out.offset != args_.x.offset)
      std::memcpy(out, context.FloatRow(args_.x, row), static_cast<size_t>(args_.x.row_bytes));
    for (int64_t i = 0; i < args_.out.columns; i += args_.head_dim) {
      args_.rope(out + i, context.rotary.Cos(args_.table, row),
                 context.rotary.Sin(args_.table, row), context.rotary.pairs(args_.table));
    }
  });
  return {};
}

// The mean, or the first, of the rows of the source row's sequence. In double: a text is hundreds
// of rows.
void SelectRowsStep::Pool(const StepContext& context, int64_t source, float* out) const {
  const std::span<const int32_t> sequences = context.batch.sequences;
  const int32_t own = sequences[static_cast<size_t>(source)];
  std::vector<double> sums(static_cast<size_t>(args_.x.columns), 0.0);
  double count = 0.0;
  for (size_t row = 0; row < sequences.size(); ++row) {
    if (sequences[row] != own)
      continue;
    const float* x = context.FloatRow(args_.x, static_cast<int64_t>(row));
    for (size_t i = 0; i < sums.size(); ++i)
      sums[i] += static_cast<double>(x[i]);
    count += 1.0;
    if (args_.attrs.pooling == 2)
      break;
  }
  for (size_t i = 0; i < sums.size(); ++i)
    out[i] = static_cast<float>(sums[i] / count);
}

Status SelectRowsStep::Run(const StepContext& context) const {
  ForEachRow(context, args_.out.rows, [&](int64_t row, int) {
    const int32_t source = context.batch.output_rows[static_cast<size_t>(row)];
    if (args_.attrs.pooling != 0)
      return Pool(context, source, context.FloatRow(args_.out, row));
    std::memcpy(context.Row(args_.out, row), context.Row(args_.x, source),
                static_cast<size_t>(args_.out.row_bytes));
  });
  return {};
}

}  // namespace tenon
