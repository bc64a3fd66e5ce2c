// RouterNet: the trained router, a small network on the small model's last hidden state that says
// how likely it is that the small model's token is good enough.
//
// Layers H -> 2H -> H -> 1 with ReLU and a sigmoid at the end (CITER, arXiv 2502.01976). Inputs are
// standardised by constants of the training set, which takes the place of batch normalisation:
// nothing depends on what else is in the batch, in training as in use.
//
// Threading: const after construction; any thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "accel/routing/float_products.h"

namespace tenon {

struct RouterNet {
  std::vector<float> mean;   // [H]
  std::vector<float> scale;  // [H], 1 / standard deviation
  FloatMatrix weight1;       // [2H, H]
  std::vector<float> bias1;  // [2H]
  FloatMatrix weight2;       // [H, 2H]
  std::vector<float> bias2;  // [H]
  FloatMatrix weight3;       // [1, H]
  float bias3 = 0.0F;

  int64_t hidden_size() const { return static_cast<int64_t>(mean.size()); }
};

// hidden [rows, H] standardised in place.
void Standardise(const RouterNet& net, FloatMatrix& hidden);

double Sigmoid(double x);

// A RouterNet ready for few rows at a time: its weights are packed once.
class RouterScorer {
 public:
  RouterScorer(RouterNet net, const KernelSet& kernels);

  // Scores in 0..1 for hidden [rows, H]; `scores` has a place for each row.
  void Score(std::span<const float> hidden, std::span<double> scores) const;

  int64_t hidden_size() const { return net_.hidden_size(); }
  int64_t bytes() const;

 private:
  using Panels = std::vector<std::byte>;
  void Multiply(const Panels& panels, const FloatMatrix& in, std::span<const float> bias,
                FloatMatrix& out) const;

  RouterNet net_;
  GemmFn gemm_;
  Panels panels1_;
  Panels panels2_;
};

}  // namespace tenon
