#include "engine/exec/steps/row_steps.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>

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

Status SelectRowsStep::Run(const StepContext& context) const {
  ForEachRow(context, args_.out.rows, [&](int64_t row, int) {
    const int32_t source = context.batch.output_rows[static_cast<size_t>(row)];
    std::memcpy(context.Row(args_.out, row), context.Row(args_.x, source),
                static_cast<size_t>(args_.out.row_bytes));
  });
  return {};
}

}  // namespace tenon
