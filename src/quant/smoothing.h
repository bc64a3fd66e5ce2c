// Smoothing: moving the range of activations' columns into the weights that read them.
//
// Linears that share an input x get W[:, j] *= s[j] while x[:, j] /= s[j] is folded into whatever
// makes x. SmoothQuant (arXiv 2211.10438) computes s from both ranges; AWQ (arXiv 2306.00978)
// searches its exponent; HAQ (arXiv 2508.07329) does so with both quantizers in the loop.
// Threading: as the engine.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "quant/grid.h"
#include "quant/matrix.h"
#include "quant/matrix_engine.h"

namespace tenon {

enum class ActivationGrid : uint8_t {
  kFloat,         // 16 bits: taken as exact
  kPerTokenInt8,  // quant/activation_round.h
};

struct SmoothingProblem {
  const Matrix& sample;                // [samples, columns] rows of the shared input
  std::vector<const Matrix*> weights;  // [rows_i, columns]
  GridSpec grid;                       // of the weights
  ActivationGrid activations = ActivationGrid::kFloat;
};

// s = max(x^e, 1e-4) for magnitudes x, then divided by sqrt(max(s) min(s)). e = 0 gives exactly 1.
std::vector<float> SmoothingScales(std::span<const float> magnitudes, float exponent);

// SmoothQuant's closed form: s = range^alpha / max(weight range, 1e-5)^(1 - alpha), at least 1e-5.
std::vector<float> ClosedFormScales(std::span<const float> ranges,
                                    std::span<const Matrix* const> weights, float alpha);

// Mean squared error of the outputs for quantized s-smoothed weights and activations against exact
// ones. Empty scales: no smoothing.
double SmoothingLoss(const SmoothingProblem& problem, std::span<const float> scales,
                     MatrixEngine& engine);

struct SmoothingChoice {
  std::vector<float> scales;  // [columns]
  float exponent = 0.0F;
  double loss = 0.0;
  double unsmoothed_loss = 0.0;
};

// Steps of the search grid, exponents i / (kSmoothingSteps - 1).
inline constexpr int kSmoothingSteps = 20;

// The exponent with the least loss over the grid for each of the given magnitudes (mean|x|,
// max|x|, ...); of equals the smallest.
SmoothingChoice SearchSmoothing(const SmoothingProblem& problem,
                                std::span<const std::vector<float>> magnitudes,
                                MatrixEngine& engine);

}  // namespace tenon
