#include "engine/exec/steps/experts_step.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "quant/activation_round.h"

namespace tenon {
namespace {

// As in linear_step.cc: tokens in a tile, and ranges for each worker.
constexpr int64_t kTilePairs = 64;
constexpr int64_t kRangesPerWorker = 8;

constexpr int64_t kFloat = static_cast<int64_t>(sizeof(float));

int64_t AlignUp(int64_t bytes) {
  constexpr int64_t kLine = 64;  // cache line: vectors of workers are apart
  return (bytes + kLine - 1) / kLine * kLine;
}

bool TakesFloats(const PackedMatrix& matrix) {
  return FormFor(matrix.kind) == ActivationForm::kFloat;
}

// 16 outputs of one expert to the token's sums. Plain products and sums, which every machine rounds
// alike.
void AddWeighted(const float* values, float weight, int64_t width, float* sums) {
  for (int64_t i = 0; i < width; ++i)
    sums[i] += weight * values[i];
}

}  // namespace

std::string ExpertsStep::Describe() const {
  return fmt::format("{} experts [{},{}], {} a token{}", args_.attrs.experts, args_.gate->rows,
                     args_.gate->columns, args_.attrs.used,
                     QuantizesInput() ? " (quantizes its input)" : "");
}

bool ExpertsStep::QuantizesInput() const {
  return !TakesFloats(*args_.gate) && args_.x.dtype == DType::kF32;
}

bool ExpertsStep::KeepsFloatMiddle() const {
  return FormFor(args_.down->kind) == ActivationForm::kInt8 &&
         args_.rounding == Rounding::kWholeRows;
}

// Whether the middle is quantized where it is made: in whole blocks, of two panels each.
bool ExpertsStep::QuantizesMiddle() const {
  return !TakesFloats(*args_.down) && !KeepsFloatMiddle();
}

int64_t ExpertsStep::PanelsAtOnce() const {
  return QuantizesMiddle() ? kActivationBlockValues / kPanelRows : 1;
}

int64_t ExpertsStep::InputBytes() const {
  return ActivationRowBytes(FormFor(args_.gate->kind), args_.gate->columns);
}

int64_t ExpertsStep::MiddleBytes() const {
  return ActivationRowBytes(FormFor(args_.down->kind), args_.down->columns);
}

ExpertsStep::Layout ExpertsStep::LayoutFor(int64_t tokens) const {
  const int64_t pairs = tokens * args_.attrs.used;
  Layout layout;
  const bool changes_input = QuantizesInput() || args_.rounding == Rounding::kFloatRows;
  layout.middle = changes_input ? AlignUp(tokens * InputBytes()) : 0;
  layout.floats = layout.middle + AlignUp(pairs * MiddleBytes());
  layout.tokens =
      layout.floats + (KeepsFloatMiddle() ? AlignUp(pairs * args_.down->columns * kFloat) : 0);
  layout.weights = layout.tokens + AlignUp(pairs * kFloat);
  layout.begins = layout.weights + AlignUp(pairs * kFloat);
  layout.experts = layout.begins + AlignUp((args_.attrs.experts + 1) * kFloat);
  layout.total = layout.experts + AlignUp(args_.attrs.experts * kFloat);
  return layout;
}

int64_t ExpertsStep::WorkspaceBytes(int64_t tokens) const {
  return LayoutFor(tokens).total;
}

// The results of gate and up, and a tile of gathered rows.
int64_t ExpertsStep::WorkerScratchBytes() const {
  return 2 * kTilePairs * PanelsAtOnce() * kPanelRows * kFloat + kTilePairs * InputBytes();
}

Status ExpertsStep::Run(const StepContext& context) const {
  const int64_t tokens = context.RowCount(args_.x.rows);
  const Layout layout = LayoutFor(tokens);
  const Pairs pairs = SortPairs(context, layout);
  const Rows x = PrepareInput(context, context.workspace + layout.x);
  const Rows middle{context.workspace + layout.middle, MiddleBytes()};
  const Rows floats{context.workspace + layout.floats, args_.down->columns * kFloat};
  GateUp(context, x, KeepsFloatMiddle() ? floats : middle, pairs);
  if (args_.rounding != Rounding::kNone)
    FinishMiddle(context, floats, middle, pairs.begins[args_.attrs.experts]);
  Down(context, middle, pairs);
  return {};
}

ExpertsStep::Rows ExpertsStep::PrepareInput(const StepContext& context,
                                            std::byte* workspace) const {
  const bool rounds = args_.rounding == Rounding::kFloatRows;
  if (!QuantizesInput() && !rounds)
    return {context.Row(args_.x, 0), args_.x.row_bytes};
  const int64_t stride = InputBytes();
  const int64_t columns = args_.x.columns;
  context.pool.ParallelFor(context.RowCount(args_.x.rows), 16,
                           [&](int64_t begin, int64_t end, int) {
                             for (int64_t row = begin; row < end; ++row) {
                               std::byte* target = workspace + row * stride;
                               if (rounds) {
                                 auto* values = reinterpret_cast<float*>(target);
                                 std::copy_n(context.FloatRow(args_.x, row), columns, values);
                                 RoundActivationRow({values, static_cast<size_t>(columns)});
                               } else {
                                 args_.quantize(context.FloatRow(args_.x, row), columns, target);
                               }
                             }
                           });
  return {workspace, stride};
}

// A counting sort: experts' counts, their first pairs, then the pairs themselves.
ExpertsStep::Pairs ExpertsStep::SortPairs(const StepContext& context, const Layout& layout) const {
  const int64_t tokens = context.RowCount(args_.x.rows);
  const int64_t experts = args_.attrs.experts;
  Pairs pairs;
  pairs.tokens = reinterpret_cast<int32_t*>(context.workspace + layout.tokens);
  pairs.weights = reinterpret_cast<float*>(context.workspace + layout.weights);
  pairs.begins = reinterpret_cast<int32_t*>(context.workspace + layout.begins);
  pairs.experts = reinterpret_cast<int32_t*>(context.workspace + layout.experts);
  std::fill_n(pairs.begins, experts + 1, 0);
  for (int64_t token = 0; token < tokens; ++token) {
    const float* route = context.FloatRow(args_.route, token);
    for (int64_t expert = 0; expert < experts; ++expert)
      pairs.begins[expert + 1] += route[expert] != 0.0F ? 1 : 0;
  }
  for (int64_t expert = 0; expert < experts; ++expert) {
    if (pairs.begins[expert + 1] > 0)
      pairs.experts[pairs.active++] = static_cast<int32_t>(expert);
    pairs.begins[expert + 1] += pairs.begins[expert];
  }
  TENON_CHECK(pairs.begins[experts] <= tokens * args_.attrs.used);
  // Each pair moves its expert's begin on; afterwards every begin is the next expert's.
  for (int64_t token = 0; token < tokens; ++token) {
    const float* route = context.FloatRow(args_.route, token);
    for (int64_t expert = 0; expert < experts; ++expert) {
      if (route[expert] == 0.0F)
        continue;
      const int32_t pair = pairs.begins[expert]++;
      pairs.tokens[pair] = static_cast<int32_t>(token);
      pairs.weights[pair] = route[expert];
    }
  }
  for (int64_t expert = experts; expert > 0; --expert)
    pairs.begins[expert] = pairs.begins[expert - 1];
  pairs.begins[0] = 0;
  return pairs;
}

// The input rows of a tile's tokens, one after the other. A single one stays where it is.
ExpertsStep::Rows ExpertsStep::Gather(const Rows& x, const Pairs& pairs, const Tile& tile,
                                      std::byte* scratch) const {
  const int32_t* tokens = pairs.tokens + tile.first_pair;
  if (tile.pairs == 1)
    return {x.data + tokens[0] * x.stride, x.stride};
  for (int64_t i = 0; i < tile.pairs; ++i)
    std::memcpy(scratch + i * x.stride, x.data + tokens[i] * x.stride,
                static_cast<size_t>(x.stride));
  return {scratch, x.stride};
}

void ExpertsStep::Multiply(const PackedMatrix& matrix, const Rows& rows, const Tile& tile,
                           int64_t panel, const Outputs& out) const {
  GemmArgs gemm;
  gemm.panel = matrix.Panel(tile.expert, panel);
  gemm.k = matrix.columns;
  gemm.activations = rows.data;
  gemm.activation_stride = rows.stride;
  gemm.tokens = tile.pairs;
  gemm.codebook = matrix.codebook;
  gemm.out = out.data;
  gemm.out_stride = out.stride;
  matrix.gemm(gemm);
}

void ExpertsStep::RunGateUp(const Rows& x, const Rows& middle, const Pairs& pairs, const Tile& tile,
                            std::byte* scratch) const {
  const int64_t at_once = PanelsAtOnce();
  const int64_t stride = at_once * kPanelRows;
  float* gate = reinterpret_cast<float*>(scratch);
  float* up = gate + kTilePairs * stride;
  const Rows rows = Gather(x, pairs, tile, reinterpret_cast<std::byte*>(up + kTilePairs * stride));
  for (int64_t panel = tile.first_panel; panel < tile.last_panel; panel += at_once) {
    for (int64_t i = 0; i < at_once; ++i) {
      Multiply(*args_.gate, rows, tile, panel + i, {gate + i * kPanelRows, stride});
      Multiply(*args_.up, rows, tile, panel + i, {up + i * kPanelRows, stride});
    }
    StoreMiddle(middle, tile, panel * kPanelRows, {gate, stride}, {up, stride});
  }
}

// The gated values from column `first` on of all pairs of a tile.
void ExpertsStep::StoreMiddle(const Rows& middle, const Tile& tile, int64_t first,
                              const Outputs& gate, const Outputs& up) const {
  const int64_t width = std::min(gate.stride, args_.down->columns - first);
  const bool quantized = QuantizesMiddle();
  for (int64_t i = 0; i < tile.pairs; ++i) {
    float* values = gate.data + i * gate.stride;
    args_.activate(values, up.data + i * up.stride, width, values);
    std::byte* out = middle.data + (tile.first_pair + i) * middle.stride;
    if (quantized)
      args_.quantize_block(values, out, args_.down->columns, first / kActivationBlockValues);
    else
      std::copy_n(values, width, reinterpret_cast<float*>(out) + first);
  }
}

// Work is split over the panels of all experts that have tokens.
void ExpertsStep::GateUp(const StepContext& context, const Rows& x, const Rows& middle,
                         const Pairs& pairs) const {
  const int64_t at_once = PanelsAtOnce();
  const int64_t units = args_.gate->panels() / at_once;
  const int64_t all = pairs.active * units;
  const int64_t grain = std::max<int64_t>(1, all / (context.pool.threads() * kRangesPerWorker));
  context.pool.ParallelFor(all, grain, [&](int64_t begin, int64_t end, int worker) {
    while (begin < end) {
      Tile tile;
      tile.expert = pairs.experts[begin / units];
      const int64_t first = begin % units;
      const int64_t last = std::min(units, first + end - begin);
      tile.first_panel = first * at_once;
      tile.last_panel = last * at_once;
      const int64_t last_pair = pairs.begins[tile.expert + 1];
      for (int64_t pair = pairs.begins[tile.expert]; pair < last_pair; pair += kTilePairs) {
        tile.first_pair = pair;
        tile.pairs = std::min(kTilePairs, last_pair - pair);
        RunGateUp(x, middle, pairs, tile, context.Scratch(worker));
      }
      begin += last - first;
    }
  });
}

// Rows of the middle, which come in pieces, whole: quantized with one scale, or rounded.
void ExpertsStep::FinishMiddle(const StepContext& context, const Rows& floats, const Rows& middle,
                               int64_t pairs) const {
  const int64_t columns = args_.down->columns;
  context.pool.ParallelFor(pairs, 16, [&](int64_t begin, int64_t end, int) {
    for (int64_t pair = begin; pair < end; ++pair) {
      std::byte* row = middle.data + pair * middle.stride;
      if (KeepsFloatMiddle()) {
        args_.quantize_middle(reinterpret_cast<const float*>(floats.data + pair * floats.stride),
                              columns, row);
      } else if (args_.rounding == Rounding::kFloatRows) {
        RoundActivationRow({reinterpret_cast<float*>(row), static_cast<size_t>(columns)});
      }
    }
  });
}

void ExpertsStep::RunDown(const StepContext& context, const Rows& middle, const Pairs& pairs,
                          const Tile& tile, float* scratch) const {
  const Rows rows{middle.data + tile.first_pair * middle.stride, middle.stride};
  for (int64_t panel = tile.first_panel; panel < tile.last_panel; ++panel) {
    Multiply(*args_.down, rows, tile, panel, {scratch, kPanelRows});
    const int64_t first = panel * kPanelRows;
    const int64_t width = std::min(kPanelRows, args_.out.columns - first);
    for (int64_t i = 0; i < tile.pairs; ++i) {
      const int64_t pair = tile.first_pair + i;
      AddWeighted(scratch + i * kPanelRows, pairs.weights[pair], width,
                  context.FloatRow(args_.out, pairs.tokens[pair]) + first);
    }
  }
}

// Work is split over the panels of the output: whoever has one goes through all experts in order.
void ExpertsStep::Down(const StepContext& context, const Rows& middle, const Pairs& pairs) const {
  const int64_t panels = args_.down->panels();
  const int64_t grain = std::max<int64_t>(1, panels / (context.pool.threads() * kRangesPerWorker));
  context.pool.ParallelFor(panels, grain, [&](int64_t begin, int64_t end, int worker) {
    const int64_t first = begin * kPanelRows;
    const int64_t width = std::min(args_.out.columns, end * kPanelRows) - first;
    for (int64_t row = 0; row < context.RowCount(args_.out.rows); ++row)
      std::fill_n(context.FloatRow(args_.out, row) + first, width, 0.0F);
    for (int64_t i = 0; i < pairs.active; ++i) {
      Tile tile{pairs.experts[i], begin, end, 0, 0};
      const int64_t last_pair = pairs.begins[tile.expert + 1];
      for (int64_t pair = pairs.begins[tile.expert]; pair < last_pair; pair += kTilePairs) {
        tile.first_pair = pair;
        tile.pairs = std::min(kTilePairs, last_pair - pair);
        RunDown(context, middle, pairs, tile, reinterpret_cast<float*>(context.Scratch(worker)));
      }
    }
  });
}

}  // namespace tenon
