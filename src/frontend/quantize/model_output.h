// Writing the quantized model: its tensors from where they are, everything else from the input.
//
// Threading: one thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"
#include "frontend/convert/tensor_supply.h"
#include "frontend/quantize/linear_quantizer.h"
#include "frontend/quantize/quantize_options.h"
#include "frontend/quantize/segment_store.h"
#include "model/model_source.h"
#include "quant/matrix_engine.h"

namespace tenon {

struct OutputContext {
  const ModelSource& source;
  const TypePlan& types;
  const SegmentStore& store;
  const QuantizeOptions& options;
  MatrixEngine& engine;
};

// The tensors as the output holds them, one at a time in memory. Matrices that no piece quantized
// (the embedding, the head) are quantized here, vectors become F32.
class QuantizedSupply final : public TensorSupply {
 public:
  explicit QuantizedSupply(const OutputContext& context) : context_(context) {}

  TensorForm FormOf(const TensorInfo& tensor) const override;
  Status ReadRows(const TensorInfo& tensor, int64_t first, std::span<std::byte> out) override;
  void Release(const TensorInfo& tensor) override;

 private:
  Result<std::vector<std::byte>> Encode(const TensorInfo& tensor) const;

  const OutputContext& context_;
  std::string cached_;  // name of the tensor whose bytes these are
  std::vector<std::byte> bytes_;
};

// Whether the output can be made of this input: a .gguf file, or otherwise a directory of
// safetensors in the formats of compressed-tensors.
Status CheckOutput(const ModelSource& source, const QuantizeOptions& options,
                   const std::filesystem::path& path);

struct WrittenModel {
  std::filesystem::path path;  // to open it: the directory, the file or the first of several
  int64_t bytes = 0;           // of all tensors
};
// The file appears when it is whole; of a directory, config.json comes last.
Result<WrittenModel> WriteModel(const OutputContext& context, const std::filesystem::path& path);

}  // namespace tenon
