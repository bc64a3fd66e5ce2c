// The ops of a decoder's graph as ONNX operators.
//
// Threading: one thread.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "frontend/convert/onnx_export.h"
#include "frontend/convert/weight_file.h"
#include "graph/graph.h"
#include "model/onnx/onnx_builder.h"

namespace tenon {

class OnnxGraphWriter {
 public:
  // `frequency_factors` are the values of the weight of that name, where the model has one.
  OnnxGraphWriter(const Graph& graph, OnnxWeights weights, std::vector<float> frequency_factors,
                  WeightFile& file, OnnxBuilder& builder)
      : graph_(graph),
        weights_(weights),
        frequency_factors_(std::move(frequency_factors)),
        file_(file),
        builder_(builder) {}

  // Everything but the logits' declaration; returns the name of their value.
  Result<std::string> Write();

 private:
  using Names = std::vector<std::string>;

  Status WriteOp(const Op& op);
  Result<std::string> Vector(ValueId weight);
  // A matrix ready for MatMul: [columns, rows].
  Result<std::string> Matrix(ValueId weight);
  Status Embed(const Op& op, const EmbedAttrs& attrs);
  Status Norm(const Op& op, const RmsNormAttrs& attrs);
  Status Linear(const Op& op, const LinearAttrs& attrs);
  Status Rope(const Op& op, const RopeAttrs& attrs);
  Status Attention(const Op& op, const AttentionAttrs& attrs);
  std::string Gelu(const std::string& x);
  std::string Softcap(const std::string& x, float cap);
  // [batch, 1, 1, queries, keys] to add to scores.
  std::string Mask(int64_t window);
  // cos and sin [batch, rows, 1, pairs] of the positions.
  std::pair<std::string, std::string> RotaryTables(const RopeParams& rope);
  std::string Present(std::string_view what, int64_t layer, const std::string& rows,
                      const AttentionAttrs& attrs);

  const std::string& In(const Op& op, size_t i) { return names_[op.inputs[i]]; }
  void Out(const Op& op, std::string name) { names_[op.outputs[0]] = std::move(name); }
  std::string Mul(const std::string& x, float factor) {
    return factor == 1.0F ? x : builder_.Node("Mul", {x, builder_.Number(factor)});
  }
  // One extent of a value's shape, as a scalar.
  std::string Extent(const std::string& x, int64_t dimension) {
    return builder_.Node("Gather", {builder_.Node("Shape", {x}), builder_.Integer(dimension)});
  }

  const Graph& graph_;
  OnnxWeights weights_;
  std::vector<float> frequency_factors_;
  WeightFile& file_;
  OnnxBuilder& builder_;
  std::map<ValueId, std::string> names_;
  std::map<std::string, std::string> matrices_;  // by tensor
  std::map<int64_t, std::string> masks_;         // by window
  std::vector<std::pair<RopeParams, std::pair<std::string, std::string>>> tables_;
};

}  // namespace tenon
