// ExpertsQuantizer: quantizes a layer's experts one after the other, each on the tokens that its
// router sends to it.
//
// An expert's H sees about tokens * used / experts rows. One with too few ("cold") takes the
// layer's instead: gate and up the inputs of all tokens, down what the expert makes of some of
// them. Keeps the layer's input rows and routes in memory; weights of one expert at a time. Holds
// references. One thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "frontend/quantize/fold_plan.h"
#include "frontend/quantize/layered_weights.h"
#include "frontend/quantize/linear_quantizer.h"
#include "model/model_source.h"

namespace tenon {

// Fewer rows than an eighth of the columns, or 32 at all: H would be mostly damping.
bool IsCold(int64_t rows, int64_t columns);

class ExpertsQuantizer {
 public:
  struct Environment {
    const ModelSource& source;
    LayeredWeights& weights;
    const TypePlan& types;
    LinearContext context;
  };
  ExpertsQuantizer(const Environment& environment, const ExpertLayer& layer);

  // Rows [n, K] of the input and [n, experts] of the routes, of the same tokens in the same order.
  void AddInputs(const MatrixView& rows);
  void AddRoutes(const MatrixView& rows);

  // What a choice of factors for the layer's input looks at: rows of gate and up of all experts,
  // all of them folded to one of their largest magnitudes for a closed form. Empty when none is
  // quantized.
  Result<std::vector<Matrix>> SmoothingWeights() const;

  struct Output {
    std::vector<EncodedTensor> tensors;  // gate, up, down
    std::vector<LinearReport> reports;
  };
  // `all` are the inputs of all tokens, as they come (null: no calibration); `factors` of smoothing
  // their shared input. Puts the values in the place of the model's weights.
  Result<Output> Quantize(const InputStatistics* all, const SmoothingFactors& factors);

 private:
  // The three matrices of one expert.
  struct Expert {
    int64_t index = 0;
    Matrix gate;  // [M, K]
    Matrix up;    // [M, K]
    Matrix down;  // [K, M]
  };
  // A tensor that grows by one expert at a time.
  struct Stack {
    const TensorInfo* tensor = nullptr;
    EncodedTensor encoded;
    Matrix values;
  };
  struct Inputs;  // of one expert's matrices

  Result<Expert> Load(int64_t index) const;
  std::vector<int64_t> TokensOf(int64_t expert) const;
  Matrix Middle(const Expert& expert, const Matrix& rows) const;
  Inputs ModelInputs(Expert& expert, const InputStatistics* all, const SmoothingFactors& factors);
  void SmoothDown(Expert& expert, const InputStatistics& middle, SmoothingFactors& factors) const;
  void Append(const Matrix& weights, const InputModel& input, const std::string& note, Stack& stack,
              Output& output) const;
  Status QuantizeExpert(int64_t index, const InputStatistics* all, const SmoothingFactors& factors,
                        Output& output);
  Stack StackOf(const std::string& name) const;

  Environment environment_;
  ExpertLayer layer_;
  Stack gate_;
  Stack up_;
  Stack down_;
  int64_t columns_;
  std::vector<float> inputs_;  // [tokens, K]
  std::vector<float> routes_;  // [tokens, experts]
};

}  // namespace tenon
