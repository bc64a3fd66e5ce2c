// The tensors of a Hugging Face directory, each as rows of the tensors that a ModelSource has.
//
// Everything that is taken apart, joined, permuted or stacked for the graph is put back here.
// Threading: free functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/hf/hf_family.h"
#include "model/model_source.h"

namespace tenon {

// `count` rows of a tensor from `first` on. A vector's values are rows of one; a stack of experts
// counts the rows of all.
struct RowRange {
  const TensorInfo* tensor = nullptr;
  int64_t first = 0;
  int64_t count = 0;
};

struct HfTensorLayout {
  std::string name;  // "model.layers.3.mlp.up_proj.weight"
  std::vector<int64_t> shape;
  std::vector<RowRange> rows;  // in the order of the file
  float addend = 0.0F;         // to every value
  bool transposed = false;     // rows are the file's columns (GPT-2)
  bool linear = false;         // the weight of a module that quantizers take

  // "model.layers.3.mlp.up_proj".
  std::string module() const { return name.substr(0, name.rfind('.')); }
};

// The family that a model is written as. kUnsupported for one that has none.
Result<const HfFamily*> FindHfFamilyOf(const ModelConfig& config);

// kUnsupported, naming the tensor, when the family has no place for one.
Result<std::vector<HfTensorLayout>> LayOutHfTensors(const ModelSource& source,
                                                    const HfFamily& family);

}  // namespace tenon
