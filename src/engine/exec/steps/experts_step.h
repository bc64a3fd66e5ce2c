// ExpertsStep: a mixture of gated feed-forward networks.
//
// Tokens are grouped by expert, so that an expert's panels are read once for all of its tokens and
// prompts run through the matrix kernels in tiles; experts without tokens are not read. Results are
// added per token in ascending order of experts, from products that do not depend on what else is
// in the step: a token's result is the same alone or in a batch. Two parallel passes, gate and up,
// then down. Source: graph op `experts` (graph/ops/attrs.h).
#pragma once

#include <string>

#include "engine/exec/step_context.h"
#include "engine/plan/weight_store.h"

namespace tenon {

class ExpertsStep final : public PlanStep {
 public:
  // What rows of float are put through before they are multiplied.
  enum class Rounding : uint8_t {
    kNone,       // quantized in groups of 16 where the weights take that
    kWholeRows,  // quantized with one scale a row where the weights take that
    kFloatRows,  // rounded as kWholeRows does, but multiplied in float
  };
  struct Args {
    ExpertsAttrs attrs;
    const PackedMatrix* gate = nullptr;
    const PackedMatrix* up = nullptr;
    const PackedMatrix* down = nullptr;
    BinaryFn activate = nullptr;  // act(a) * b
    // For weights that take quantized activations:
    QuantizeRowFn quantize = nullptr;          // the input
    QuantizeRowFn quantize_middle = nullptr;   // the middle, in whole rows
    QuantizeBlockFn quantize_block = nullptr;  // the middle, where it is made
    Rounding rounding = Rounding::kNone;
    Operand x;      // F32 or quantized [N, K]
    Operand route;  // [N, experts]
    Operand out;    // [N, K]
  };
  ExpertsStep(std::string name, const Args& args) : PlanStep(std::move(name)), args_(args) {}

  std::string Describe() const override;
  int64_t WorkspaceBytes(int64_t tokens) const override;
  int64_t WorkerScratchBytes() const override;
  Status Run(const StepContext& context) const override;

 private:
  // Rows as the kernels take them.
  struct Rows {
    std::byte* data = nullptr;
    int64_t stride = 0;
  };
  // Where products go: 16 floats a panel, `stride` floats from pair to pair.
  struct Outputs {
    float* data = nullptr;
    int64_t stride = 0;
  };
  // Pairs of a token and an expert, ordered by expert, then by token.
  struct Pairs {
    int32_t* tokens = nullptr;   // [pairs]
    float* weights = nullptr;    // [pairs]
    int32_t* begins = nullptr;   // [experts + 1] first pair of each expert
    int32_t* experts = nullptr;  // [active] experts that have tokens
    int64_t active = 0;
    int64_t Count(int64_t expert) const { return begins[expert + 1] - begins[expert]; }
  };
  // Where things lie in the workspace of `tokens` tokens, in bytes.
  struct Layout {
    int64_t x = 0;  // quantized or rounded input, when this step does that
    int64_t middle = 0;
    int64_t floats = 0;  // the middle before it is quantized in whole rows
    int64_t tokens = 0;
    int64_t weights = 0;
    int64_t begins = 0;
    int64_t experts = 0;
    int64_t total = 0;
  };
  // Some panels of one expert for some of its pairs.
  struct Tile {
    int64_t expert = 0;
    int64_t first_panel = 0;
    int64_t last_panel = 0;
    int64_t first_pair = 0;
    int64_t pairs = 0;
  };

  bool QuantizesInput() const;
  bool KeepsFloatMiddle() const;
  bool QuantizesMiddle() const;
  int64_t PanelsAtOnce() const;
  int64_t MiddleBytes() const;
  int64_t InputBytes() const;
  Layout LayoutFor(int64_t tokens) const;
  Rows PrepareInput(const StepContext& context, std::byte* workspace) const;
  Pairs SortPairs(const StepContext& context, const Layout& layout) const;
  Rows Gather(const Rows& x, const Pairs& pairs, const Tile& tile, std::byte* scratch) const;
  void Multiply(const PackedMatrix& matrix, const Rows& rows, const Tile& tile, int64_t panel,
                const Outputs& out) const;
  void RunGateUp(const Rows& x, const Rows& middle, const Pairs& pairs, const Tile& tile,
                 std::byte* scratch) const;
  void StoreMiddle(const Rows& middle, const Tile& tile, int64_t first, const Outputs& gate,
                   const Outputs& up) const;
  void RunDown(const StepContext& context, const Rows& middle, const Pairs& pairs, const Tile& tile,
               float* scratch) const;
  void GateUp(const StepContext& context, const Rows& x, const Rows& middle,
              const Pairs& pairs) const;
  void FinishMiddle(const StepContext& context, const Rows& floats, const Rows& middle,
                    int64_t pairs) const;
  void Down(const StepContext& context, const Rows& middle, const Pairs& pairs) const;

  Args args_;
};

}  // namespace tenon
