// Writing the quantized model: its tensors from where they are, everything else from the input.
//
// Threading: one thread.
#pragma once

#include <cstdint>
#include <filesystem>

#include "base/result.h"
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

// Whether the path's kind of file can be made of this input: a .gguf file of GGUF.
Status CheckOutput(const ModelSource& source, const std::filesystem::path& path);

// Returns the bytes of all tensors. The file appears when it is whole.
Result<int64_t> WriteModel(const OutputContext& context, const std::filesystem::path& path);

// Parts of WriteModel: the tensor as the output holds it. Matrices that no piece quantized (the
// embedding, the head) are quantized here, vectors become F32.
Result<EncodedTensor> OutputTensor(const OutputContext& context, const TensorInfo& tensor);
// The same without its bytes.
EncodedTensor OutputTensorPlan(const OutputContext& context, const TensorInfo& tensor);

}  // namespace tenon
