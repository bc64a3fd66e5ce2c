#include "engine/exec/steps/embed_step.h"

#include <fmt/format.h>

#include <mutex>

#include "quant/dequantize.h"

namespace tenon {

std::string EmbedStep::Describe() const {
  return fmt::format("embed {} rows from the file", DTypeName(args_.dtype));
}

int64_t EmbedStep::WorkerScratchBytes() const {
  return DTypeRowBytes(args_.dtype, args_.out.columns);
}

Status EmbedStep::FillRow(const StepContext& context, int64_t row, std::byte* scratch) const {
  const int32_t token = context.batch.tokens[static_cast<size_t>(row)];
  if (token < 0 || token >= args_.vocab) {
    return InvalidArgument(
        fmt::format("token id {} is outside the vocabulary of {}", token, args_.vocab), "tokens");
  }
  const int64_t bytes = DTypeRowBytes(args_.dtype, args_.out.columns);
  const std::span<std::byte> raw(scratch, static_cast<size_t>(bytes));
  TENON_RETURN_IF_ERROR(
      args_.weights->ReadAt(args_.table, static_cast<uint64_t>(token) * raw.size(), raw));
  float* out = context.FloatRow(args_.out, row);
  DequantizeRow(args_.dtype, raw, {out, static_cast<size_t>(args_.out.columns)});
  if (args_.scale != 1.0F)
    args_.scale_row(out, args_.scale, args_.out.columns, out);
  return {};
}

Status EmbedStep::Run(const StepContext& context) const {
  std::mutex mutex;
  Status first_error;
  context.pool.ParallelFor(context.RowCount(args_.out.rows), 16,
                           [&](int64_t begin, int64_t end, int worker) {
                             for (int64_t row = begin; row < end; ++row) {
                               Status status = FillRow(context, row, context.Scratch(worker));
                               if (status.ok())
                                 continue;
                               const std::lock_guard lock(mutex);
                               first_error = std::move(status);
                               return;
                             }
                           });
  return first_error;
}

}  // namespace tenon
