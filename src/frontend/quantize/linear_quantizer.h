// Quantizing one matrix, given what calibration knows of its input: the part that all linears of a
// model share, experts' too.
//
// Threading: as the engine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "frontend/quantize/fold_plan.h"
#include "frontend/quantize/quantize_options.h"
#include "quant/factorize.h"
#include "quant/input_statistics.h"
#include "quant/matrix.h"
#include "quant/matrix_engine.h"
#include "quant/quantized_matrix.h"

namespace tenon {

// A tensor as the output holds it.
struct EncodedTensor {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;  // outermost first
  std::vector<std::byte> bytes;
};

// One row of the table of errors.
struct LinearReport {
  std::string name;
  std::string type;
  int64_t rows = 0;
  int64_t columns = 0;
  double relative_error = 0.0;  // ||X (W' - W)^T|| / ||X W^T|| on the sample; 0 without calibration
  double exponent = 0.0;        // of smoothing; 0: none
  double damping = 0.0;         // share of mean(diag H) that was added; 0: not compensated
  std::string note;             // what is out of the ordinary; mostly empty
};

struct LinearContext {
  const QuantizeOptions& options;
  MatrixEngine& engine;
};

// A collector of what the options' method needs to know of an input that `rows` rows will come of.
InputStatistics MakeStatistics(int64_t columns, int64_t rows, const QuantizeOptions& options);

// Input rows, importance of columns, Hessian and its factor, all of the smoothed input.
struct InputModel {
  Matrix sample;  // no rows without calibration
  std::vector<float> importance;
  Matrix hessian;                      // only where scales are refined
  std::optional<DampedFactor> factor;  // with compensation
  double exponent = 0.0;
};

// `scales` of smoothing: empty for none.
InputModel ModelInput(const InputStatistics& statistics, std::span<const float> scales,
                      const LinearContext& context);
// Without calibration.
InputModel UnknownInput(int64_t columns);

struct QuantizedLinear {
  QuantizedMatrix levels;
  Matrix values;        // that the levels stand for
  LinearReport report;  // without its name
};
QuantizedLinear QuantizeLinear(const Matrix& weights, const GridSpec& grid, const InputModel& input,
                               const LinearContext& context);

struct SmoothingScope {
  const InputStatistics& statistics;
  std::vector<const Matrix*> weights;  // that read the input; for a search, some rows of them
  GridSpec grid;
  const FoldTarget* fold = nullptr;  // null: every column has a source of its own
};
struct SmoothingFactors {
  std::vector<float> scales;  // empty: none
  float exponent = 0.0F;
};
// By the options' method, which has to be one that smooths.
SmoothingFactors ChooseFactors(const SmoothingScope& scope, const LinearContext& context);

// At most `count` rows, evenly spread.
Matrix SampleRows(const Matrix& matrix, int64_t count);
// Rows of the stacked weights that a search takes.
inline constexpr int64_t kSearchRows = 256;

void MultiplyColumns(Matrix& matrix, std::span<const float> factors);

std::vector<std::byte> EncodeRows(const QuantizedMatrix& levels, MatrixEngine& engine);

// One matrix on its own, without calibration: embeddings and heads.
EncodedTensor EncodeMatrix(const TensorInfo& tensor, const Matrix& weights, const GridSpec& grid,
                           MatrixEngine& engine);

}  // namespace tenon
