// What `tenon quantize` is asked for, and which format each tensor of the output gets.
//
// Threading: free functions over const data.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "model/model_source.h"
#include "quant/grid.h"
#include "quant/smoothing.h"

namespace tenon {

enum class QuantizeMethod : uint8_t {
  kRtn,          // round to nearest
  kGptq,         // error compensation
  kAwq,          // exponent search on weights, scale search
  kSmoothQuant,  // closed-form smoothing of inputs that norms make
  kHaq,          // exponent search with both quantizers, compensation, scale search
  kKQuant,       // scale search, formats with two levels of scales
};
Result<QuantizeMethod> ParseQuantizeMethod(std::string_view name);
std::string_view QuantizeMethodName(QuantizeMethod method);

struct QuantizeOptions {
  QuantizeMethod method = QuantizeMethod::kHaq;
  int weight_bits = 8;
  int activation_bits = 16;
  int64_t group_size = -1;    // values with one scale; 0: the row; -1: 32, or the row for W8A8
  std::string type;           // a block format or mix by name instead of bits; empty: by bits
  float damping = 0.01F;      // share of mean(diag H)
  float alpha = 0.5F;         // SmoothQuant's exponent
  int refine_steps = 0;       // of the layer-wise refinement of scales; 0: none
  float refine_from = 1e-3F;  // its step size, relative to a scale, at the start and at the end
  float refine_to = 1e-5F;
  std::filesystem::path calibration;
  int64_t calibration_tokens = 32768;
  int64_t max_memory = 0;    // bytes; 0: what the machine has
  uint64_t shard_bytes = 0;  // of tensors in one file of the output; 0: all
  int threads = 0;
};

// Whether the method looks at activations.
inline bool NeedsCalibration(const QuantizeOptions& options) {
  return options.method != QuantizeMethod::kRtn && options.method != QuantizeMethod::kKQuant;
}
inline bool Compensates(QuantizeMethod method) {
  return method == QuantizeMethod::kGptq || method == QuantizeMethod::kHaq;
}
inline ActivationGrid ActivationGridOf(const QuantizeOptions& options) {
  return options.activation_bits == 8 ? ActivationGrid::kPerTokenInt8 : ActivationGrid::kFloat;
}

// The formats of a model's tensors under some options.
class TypePlan {
 public:
  // Fails with kInvalidArgument for an unknown type, and bits that no format holds.
  static Result<TypePlan> Create(const QuantizeOptions& options, const ModelSource& source);

  // The grid of a matrix; none when it stays as it is (vectors, routers, rows that are no multiple
  // of 32).
  std::optional<GridSpec> GridOf(const TensorInfo& tensor) const;

  // The number for general.file_type: of the format that most tensors have.
  uint32_t FileType() const;
  // Such as "Q4_0" or "Q4_K_M".
  std::string Name() const;

 private:
  DType ContainerOf(const TensorInfo& tensor) const;

  DType base_ = DType::kQ8_0;
  bool mixed_ = false;  // more bits for some tensors of a K format
  int bits_ = 8;
  int64_t group_ = 32;
  ScaleRule rule_ = ScaleRule::kRange;
  int64_t layers_ = 0;
  bool tied_ = false;  // the embedding is the output head too
};

}  // namespace tenon
