// LinearStep: one or more weight matrices times the same rows, with a fused epilogue.
//
// Work is split by panels of 16 weight rows over all matrices at once, so Q, K and V, or gate and
// up, cost one barrier. Source: graph op `linear` (graph/ops/attrs.h).
#pragma once

#include <string>
#include <vector>

#include "engine/exec/step_context.h"
#include "engine/plan/weight_store.h"

namespace tenon {

class LinearStep final : public PlanStep {
 public:
  struct Segment {
    const PackedMatrix* matrix = nullptr;
    const float* bias = nullptr;  // [rows] or null
    Operand out;                  // with kNone; other epilogues use the first one's
  };
  // What a float row is put through before it is multiplied.
  enum class Rounding : uint8_t { kNone, kPerTokenInt8 };
  struct Args {
    Operand x;
    Rounding rounding = Rounding::kNone;  // REQUIRES kNone where x is or will be quantized
    std::vector<Segment> segments;
    Epilogue epilogue = Epilogue::kNone;
    Operand residual;                          // kAddResidual
    BinaryFn gate = nullptr;                   // kSiluMul, kGeluMul: act(a) * b
    BinaryFn add = nullptr;                    // bias and residual
    QuantizeRowFn quantize = nullptr;          // when x is F32 but the weights take another form
    QuantizeBlockFn quantize_block = nullptr;  // when out is quantized
  };
  LinearStep(std::string name, Args args);

  std::string Describe() const override;
  int64_t WorkspaceBytes(int64_t tokens) const override;
  int64_t WorkerScratchBytes() const override;
  Status Run(const StepContext& context) const override;

 private:
  // Rows of activations as the kernels take them.
  struct Activations {
    const std::byte* rows = nullptr;
    int64_t stride = 0;
  };
  // One panel, or PanelsAtOnce() of them from `panel` on, for one tile of tokens.
  struct Tile {
    const Segment* segment = nullptr;
    int64_t panel = 0;
    int64_t first_row = 0;
    int64_t rows = 0;
  };

  ActivationForm InputForm() const;
  bool QuantizesInput() const;
  bool IsGated() const;
  int64_t PanelsAtOnce() const;
  Activations RoundInput(const StepContext& context) const;
  Activations PrepareInput(const StepContext& context) const;
  void RunTile(const StepContext& context, const Activations& x, const Tile& tile,
               float* scratch) const;
  void Multiply(const Activations& x, const Tile& tile, float* out, int64_t out_stride) const;
  void AddBias(const Tile& tile, float* out, int64_t out_stride) const;
  void StorePlain(const StepContext& context, const Activations& x, const Tile& tile,
                  float* scratch) const;
  void StoreGated(const StepContext& context, const Activations& x, const Tile& tile,
                  float* scratch) const;

  Args args_;
  std::vector<int64_t> first_panel_;  // [segments + 1] running count of panels (gated: of pairs)
};

}  // namespace tenon
