#include "engine/exec/steps/linear_step.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "quant/activation_round.h"

namespace tenon {
namespace {

// Tokens in a tile: with rows of 576 to 4096 values, the tile's int8 activations and one panel's
// weights stay within half a megabyte of second-level cache.
constexpr int64_t kTileTokens = 64;

// Ranges for each worker: enough that a worker that lost its core leaves little behind.
constexpr int64_t kRangesPerWorker = 4;

// Asks for one panel's columns of a tile's rows, which lie further apart than the hardware's
// prefetch looks.
void PrefetchColumns(const float* first, int64_t stride, int64_t rows) {
  for (int64_t row = 0; row < rows; ++row)
    __builtin_prefetch(first + row * stride, 1);
}

constexpr std::array<std::string_view, kPackedKindCount> kKindNames = {
    "f32",    "f16",          "bf16",  "i14s32", "f12s32", "u4s32", "u4s32m",
    "u4s16m", "codebook4s32", "u5s32", "u5s32m", "u6s16",  "u8s32"};

}  // namespace

LinearStep::LinearStep(std::string name, Args args)
    : PlanStep(std::move(name)), args_(std::move(args)) {
  first_panel_.push_back(0);
  const size_t columns = IsGated() ? 1 : args_.segments.size();
  for (size_t i = 0; i < columns; ++i)
    first_panel_.push_back(first_panel_.back() + args_.segments[i].matrix->panels());
}

bool LinearStep::IsGated() const {
  return args_.epilogue == Epilogue::kSiluMul || args_.epilogue == Epilogue::kGeluMul;
}

ActivationForm LinearStep::InputForm() const {
  return FormFor(args_.segments.front().matrix->kind);
}

bool LinearStep::QuantizesInput() const {
  return InputForm() != ActivationForm::kFloat && args_.x.dtype == DType::kF32;
}

std::string LinearStep::Describe() const {
  std::string text = "linear";
  for (const Segment& segment : args_.segments) {
    text += fmt::format(" {}[{},{}]", kKindNames[static_cast<size_t>(segment.matrix->kind)],
                        segment.matrix->rows, segment.matrix->columns);
  }
  constexpr std::array<std::string_view, 4> kEpilogues = {"", " + residual", " silu-gated",
                                                          " gelu-gated"};
  text += kEpilogues[static_cast<size_t>(args_.epilogue)];
  if (QuantizesInput())
    text += " (quantizes its input)";
  if (args_.rounding != Rounding::kNone)
    text += " (rounds its input to 8 bits a token)";
  return text;
}

int64_t LinearStep::WorkspaceBytes(int64_t tokens) const {
  if (args_.rounding != Rounding::kNone)
    return tokens * args_.x.columns * static_cast<int64_t>(sizeof(float));
  return QuantizesInput() ? tokens * ActivationRowBytes(InputForm(), args_.x.columns) : 0;
}

int64_t LinearStep::WorkerScratchBytes() const {
  return 2 * kTileTokens * PanelsAtOnce() * kPanelRows * static_cast<int64_t>(sizeof(float));
}

// A gated product that is quantized is made in whole blocks, of two panels each.
int64_t LinearStep::PanelsAtOnce() const {
  const bool quantizes = IsGated() && IsQuantizedActivation(args_.segments.front().out.dtype);
  return quantizes ? kActivationBlockValues / kPanelRows : 1;
}

LinearStep::Activations LinearStep::RoundInput(const StepContext& context) const {
  const int64_t columns = args_.x.columns;
  auto* rows = reinterpret_cast<float*>(context.workspace);
  context.pool.ParallelFor(context.RowCount(args_.x.rows), 16,
                           [&](int64_t begin, int64_t end, int) {
                             for (int64_t row = begin; row < end; ++row) {
                               float* target = rows + row * columns;
                               std::copy_n(context.FloatRow(args_.x, row), columns, target);
                               RoundActivationRow({target, static_cast<size_t>(columns)});
                             }
                           });
  return {context.workspace, columns * static_cast<int64_t>(sizeof(float))};
}

LinearStep::Activations LinearStep::PrepareInput(const StepContext& context) const {
  if (args_.rounding != Rounding::kNone)
    return RoundInput(context);
  if (!QuantizesInput())
    return {context.Row(args_.x, 0), args_.x.row_bytes};
  const int64_t stride = ActivationRowBytes(InputForm(), args_.x.columns);
  context.pool.ParallelFor(context.RowCount(args_.x.rows), 16,
                           [&](int64_t begin, int64_t end, int) {
                             for (int64_t row = begin; row < end; ++row) {
                               args_.quantize(context.FloatRow(args_.x, row), args_.x.columns,
                                              context.workspace + row * stride);
                             }
                           });
  return {context.workspace, stride};
}

Status LinearStep::Run(const StepContext& context) const {
  const Activations x = PrepareInput(context);
  const int64_t rows = context.RowCount(args_.x.rows);
  const int64_t at_once = PanelsAtOnce();
  const int64_t units = first_panel_.back() / at_once;
  const int64_t grain = std::max<int64_t>(1, units / (context.pool.threads() * kRangesPerWorker));
  context.pool.ParallelFor(units, grain, [&](int64_t begin, int64_t end, int worker) {
    float* scratch = reinterpret_cast<float*>(context.Scratch(worker));
    for (int64_t row = 0; row < rows; row += kTileTokens) {
      size_t segment = 0;
      for (int64_t panel = begin * at_once; panel < end * at_once; panel += at_once) {
        while (panel >= first_panel_[segment + 1])
          ++segment;
        RunTile(context, x,
                {&args_.segments[segment], panel - first_panel_[segment], row,
                 std::min(kTileTokens, rows - row)},
                scratch);
      }
    }
  });
  return {};
}

void LinearStep::RunTile(const StepContext& context, const Activations& x, const Tile& tile,
                         float* scratch) const {
  if (IsGated())
    StoreGated(context, x, tile, scratch);
  else
    StorePlain(context, x, tile, scratch);
}

void LinearStep::Multiply(const Activations& x, const Tile& tile, float* out,
                          int64_t out_stride) const {
  const PackedMatrix& matrix = *tile.segment->matrix;
  GemmArgs gemm;
  gemm.panel = matrix.Panel(0, tile.panel);
  gemm.k = matrix.columns;
  gemm.activations = x.rows + tile.first_row * x.stride;
  gemm.activation_stride = x.stride;
  gemm.tokens = tile.rows;
  gemm.codebook = matrix.codebook;
  gemm.out = out;
  gemm.out_stride = out_stride;
  matrix.gemm(gemm);
}

void LinearStep::AddBias(const Tile& tile, float* out, int64_t out_stride) const {
  if (tile.segment->bias == nullptr)
    return;
  const int64_t first = tile.panel * kPanelRows;
  const int64_t width = std::min(kPanelRows, tile.segment->matrix->rows - first);
  for (int64_t row = 0; row < tile.rows; ++row) {
    float* values = out + row * out_stride;
    args_.add(values, tile.segment->bias + first, width, values);
  }
}

void LinearStep::StorePlain(const StepContext& context, const Activations& x, const Tile& tile,
                            float* scratch) const {
  const Operand& target = tile.segment->out;
  const int64_t first = tile.panel * kPanelRows;
  const int64_t width = std::min(kPanelRows, tile.segment->matrix->rows - first);
  const int64_t target_stride = target.row_bytes / static_cast<int64_t>(sizeof(float));
  float* out = context.FloatRow(target, tile.first_row) + first;
  PrefetchColumns(out, target_stride, tile.rows);
  if (width == kPanelRows && args_.epilogue == Epilogue::kNone) {
    Multiply(x, tile, out, target_stride);
    AddBias(tile, out, target_stride);
    return;
  }
  Multiply(x, tile, scratch, kPanelRows);
  AddBias(tile, scratch, kPanelRows);
  for (int64_t row = 0; row < tile.rows; ++row, out += target_stride) {
    const float* values = scratch + row * kPanelRows;
    if (args_.epilogue == Epilogue::kAddResidual)
      args_.add(values, context.FloatRow(args_.residual, tile.first_row + row) + first, width, out);
    else
      std::copy_n(values, width, out);
  }
}

void LinearStep::StoreGated(const StepContext& context, const Activations& x, const Tile& tile,
                            float* scratch) const {
  const Operand& target = args_.segments.front().out;
  const int64_t stride = PanelsAtOnce() * kPanelRows;
  const int64_t first = tile.panel * kPanelRows;
  const int64_t width = std::min(stride, tile.segment->matrix->rows - first);
  float* up = scratch + kTileTokens * stride;
  for (int64_t i = 0; i < PanelsAtOnce(); ++i) {
    Tile panel = tile;
    panel.panel += i;
    Multiply(x, panel, scratch + i * kPanelRows, stride);
    AddBias(panel, scratch + i * kPanelRows, stride);
    panel.segment = &args_.segments[1];
    Multiply(x, panel, up + i * kPanelRows, stride);
    AddBias(panel, up + i * kPanelRows, stride);
  }
  for (int64_t row = 0; row < tile.rows; ++row) {
    float* gate = scratch + row * stride;
    args_.gate(gate, up + row * stride, width, gate);
    std::byte* out = context.Row(target, tile.first_row + row);
    if (args_.quantize_block != nullptr)
      args_.quantize_block(gate, out, target.columns, first / kActivationBlockValues);
    else
      std::copy_n(gate, width, reinterpret_cast<float*>(out) + first);
  }
}

}  // namespace tenon
