#include "engine/exec/steps/permute_step.h"

#include <fmt/format.h>

namespace tenon {
namespace {

// As row_steps.cc's: a few microseconds of work.
constexpr int64_t kRowGrain = 16;

}  // namespace

std::string PermuteStep::Describe() const {
  return args_.quantize != nullptr ? "permute columns -> int8" : "permute columns";
}

int64_t PermuteStep::WorkerScratchBytes() const {
  return args_.x.columns * static_cast<int64_t>(sizeof(float));
}

Status PermuteStep::Run(const StepContext& context) const {
  const auto columns = static_cast<size_t>(args_.x.columns);
  const auto rows = [&](int64_t begin, int64_t end, int worker) {
    for (int64_t row = begin; row < end; ++row) {
      const float* x = context.FloatRow(args_.x, row);
      float* out = args_.quantize != nullptr ? reinterpret_cast<float*>(context.Scratch(worker))
                                             : context.FloatRow(args_.out, row);
      for (size_t i = 0; i < columns; ++i)
        out[i] = x[args_.order[i]];
      if (args_.quantize != nullptr)
        args_.quantize(out, args_.x.columns, context.Row(args_.out, row));
    }
  };
  context.pool.ParallelFor(context.RowCount(args_.x.rows), kRowGrain, rows);
  return {};
}

Result<std::vector<int32_t>> ReadColumnOrder(std::span<const float> order,
                                             const std::string& tensor) {
  std::vector<int32_t> columns;
  std::vector<bool> seen(order.size(), false);
  for (const float number : order) {
    // Compared as floats first: a cast of what is no column would be undefined.
    const bool inside = number >= 0.0F && number < static_cast<float>(order.size());
    const size_t column = inside ? static_cast<size_t>(number) : 0;
    if (!inside || static_cast<float>(column) != number || seen[column])
      return Corrupt(
          fmt::format("{} found, each column from 0 to {} once expected", number, order.size() - 1),
          tensor);
    seen[column] = true;
    columns.push_back(static_cast<int32_t>(column));
  }
  return columns;
}

}  // namespace tenon
