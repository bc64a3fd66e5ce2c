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

Result<int64_t> EmbedStep::TableRow(const StepContext& context, int64_t row) const {
  if (args_.attrs.only_row >= 0)
    return args_.attrs.only_row;
  const bool tokens = args_.ids == EmbedIds::kTokens;
  const auto& ids = tokens ? context.batch.tokens : context.batch.positions;
  const int64_t id = ids[static_cast<size_t>(row)];
  if (id >= 0 && id < args_.vocab - args_.attrs.offset)
    return id + args_.attrs.offset;
  if (tokens) {
    return InvalidArgument(
        fmt::format("token id {} is outside the vocabulary of {}", id, args_.vocab), "tokens");
  }
  return InvalidArgument(fmt::format("position {}, but the model has learned only {}", id,
                                     args_.vocab - args_.attrs.offset),
                         "positions");
}

Status EmbedStep::FillRow(const StepContext& context, int64_t row, std::byte* scratch) const {
  TENON_ASSIGN_OR_RETURN(const int64_t table_row, TableRow(context, row));
  const int64_t bytes = DTypeRowBytes(args_.dtype, args_.out.columns);
  const std::span<std::byte> raw(scratch, static_cast<size_t>(bytes));
  TENON_RETURN_IF_ERROR(
      args_.weights->ReadAt(args_.table, static_cast<uint64_t>(table_row) * raw.size(), raw));
  float* out = context.FloatRow(args_.out, row);
  DequantizeRow(args_.dtype, raw, {out, static_cast<size_t>(args_.out.columns)});
  if (args_.attrs.scale != 1.0F)
    args_.scale_row(out, args_.attrs.scale, args_.out.columns, out);
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
