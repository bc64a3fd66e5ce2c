#include "frontend/quantize/experts_quantizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "base/check.h"

namespace tenon {
namespace {

// Tokens that a cold expert's down projection is calibrated on, whoever they were sent to.
constexpr int64_t kColdTokens = 1024;
// Rows that go through an expert at a time.
constexpr int64_t kChunk = 512;

// The tanh form, as the engine computes it.
float Gelu(float x) {
  return 0.5F * x * (1.0F + std::tanh(0.7978845608F * (x + 0.044715F * x * x * x)));
}

float Silu(float x) {
  return x / (1.0F + std::exp(-x));
}

void Append(std::vector<float>& target, const MatrixView& rows) {
  for (int64_t i = 0; i < rows.rows; ++i)
    target.insert(target.end(), &rows.At(i, 0), &rows.At(i, 0) + rows.columns);
}

// The largest magnitude of each column, as one row.
void TakeRanges(const Matrix& weights, Matrix& ranges) {
  for (int64_t i = 0; i < weights.rows(); ++i) {
    for (int64_t j = 0; j < weights.columns(); ++j)
      ranges.At(0, j) = std::max(ranges.At(0, j), std::fabs(weights.At(i, j)));
  }
}

}  // namespace

bool IsCold(int64_t rows, int64_t columns) {
  return rows < std::max<int64_t>(32, columns / 8);
}

struct ExpertsQuantizer::Inputs {
  InputModel outer;   // of gate and up
  InputModel middle;  // of down
  std::string note;
};

ExpertsQuantizer::ExpertsQuantizer(const Environment& environment, const ExpertLayer& layer)
    : environment_(environment),
      layer_(layer),
      gate_(StackOf(layer.gate)),
      up_(StackOf(layer.up)),
      down_(StackOf(layer.down)),
      columns_(gate_.tensor->columns()) {}

ExpertsQuantizer::Stack ExpertsQuantizer::StackOf(const std::string& name) const {
  Stack stack;
  stack.tensor = environment_.source.Find(name);
  TENON_CHECK(stack.tensor != nullptr);
  const std::optional<GridSpec> grid = environment_.types.GridOf(*stack.tensor);
  stack.encoded = {name, grid ? grid->container : DType::kF32, stack.tensor->shape, {}};
  stack.values = Matrix(stack.tensor->rows(), stack.tensor->columns());
  return stack;
}

void ExpertsQuantizer::AddInputs(const MatrixView& rows) {
  tenon::Append(inputs_, rows);
}

void ExpertsQuantizer::AddRoutes(const MatrixView& rows) {
  tenon::Append(routes_, rows);
}

Result<ExpertsQuantizer::Expert> ExpertsQuantizer::Load(int64_t index) const {
  const auto load = [&](const Stack& stack) {
    const int64_t rows = stack.tensor->rows() / layer_.experts;
    return LoadRows(environment_.weights, stack.tensor->name, index * rows, rows);
  };
  Expert expert;
  expert.index = index;
  TENON_ASSIGN_OR_RETURN(expert.gate, load(gate_));
  TENON_ASSIGN_OR_RETURN(expert.up, load(up_));
  TENON_ASSIGN_OR_RETURN(expert.down, load(down_));
  return expert;
}

Result<std::vector<Matrix>> ExpertsQuantizer::SmoothingWeights() const {
  std::vector<Matrix> weights;
  if (!environment_.types.GridOf(*gate_.tensor))
    return weights;
  const bool closed = environment_.context.options.method == QuantizeMethod::kSmoothQuant;
  if (closed)
    weights.emplace_back(1, columns_);
  // Both matrices of every expert.
  const int64_t rows = std::max<int64_t>(1, kSearchRows / (2 * layer_.experts));
  for (int64_t index = 0; index < layer_.experts; ++index) {
    TENON_ASSIGN_OR_RETURN(const Expert expert, Load(index));
    for (const Matrix* matrix : {&expert.gate, &expert.up}) {
      if (closed)
        TakeRanges(*matrix, weights.front());
      else
        weights.push_back(SampleRows(*matrix, rows));
    }
  }
  return weights;
}

std::vector<int64_t> ExpertsQuantizer::TokensOf(int64_t expert) const {
  std::vector<int64_t> tokens;
  const auto count = static_cast<int64_t>(routes_.size()) / layer_.experts;
  for (int64_t token = 0; token < count; ++token) {
    if (routes_[static_cast<size_t>(token * layer_.experts + expert)] != 0.0F)
      tokens.push_back(token);
  }
  return tokens;
}

// act(gate(x)) * up(x) of the rows.
Matrix ExpertsQuantizer::Middle(const Expert& expert, const Matrix& rows) const {
  MatrixEngine& engine = environment_.context.engine;
  Matrix gate(rows.rows(), expert.gate.rows());
  Matrix up(rows.rows(), expert.up.rows());
  engine.AddProduct(1.0F, rows.view(), expert.gate.view().Transposed(), gate.view());
  engine.AddProduct(1.0F, rows.view(), expert.up.view().Transposed(), up.view());
  for (size_t i = 0; i < gate.values().size(); ++i) {
    const float x = gate.values()[i];
    gate.values()[i] = (layer_.gelu ? Gelu(x) : Silu(x)) * up.values()[i];
  }
  return gate;
}

// The factors of down's input go into the rows of up: x / s = act(g) * (u / s).
void ExpertsQuantizer::SmoothDown(Expert& expert, const InputStatistics& middle,
                                  SmoothingFactors& factors) const {
  const LinearContext& context = environment_.context;
  const bool searches = context.options.method == QuantizeMethod::kHaq ||
                        context.options.method == QuantizeMethod::kAwq;
  const std::optional<GridSpec> grid = environment_.types.GridOf(*down_.tensor);
  if (!searches || !grid)
    return;
  const Matrix sample = SampleRows(expert.down, kSearchRows);
  factors = ChooseFactors({middle, {&sample}, *grid}, context);
  MultiplyColumns(expert.down, factors.scales);
  for (size_t row = 0; row < factors.scales.size(); ++row) {
    float* values = expert.up.Row(static_cast<int64_t>(row));
    for (int64_t j = 0; j < columns_; ++j)
      values[j] /= factors.scales[row];
  }
}

// Statistics come from the weights as they are; then the factors are folded into them.
ExpertsQuantizer::Inputs ExpertsQuantizer::ModelInputs(Expert& expert, const InputStatistics* all,
                                                       const SmoothingFactors& factors) {
  const LinearContext& context = environment_.context;
  Inputs inputs;
  if (all == nullptr) {
    inputs.outer = UnknownInput(columns_);
    inputs.middle = UnknownInput(expert.down.columns());
    return inputs;
  }
  std::vector<int64_t> tokens = TokensOf(expert.index);
  const bool is_cold = IsCold(static_cast<int64_t>(tokens.size()), columns_);
  if (is_cold) {
    inputs.note = fmt::format("cold: {} tokens, calibrated on the layer's", tokens.size());
    const int64_t count = all->rows();
    const int64_t kept = std::min(kColdTokens, count);
    tokens.clear();
    for (int64_t i = 0; i < kept; ++i)
      tokens.push_back(i * count / kept);
  }
  const auto rows = static_cast<int64_t>(tokens.size());
  InputStatistics outer = MakeStatistics(columns_, rows, context.options);
  InputStatistics middle = MakeStatistics(expert.down.columns(), rows, context.options);
  for (int64_t first = 0; first < rows; first += kChunk) {
    Matrix chunk(std::min(kChunk, rows - first), columns_);
    for (int64_t i = 0; i < chunk.rows(); ++i)
      std::copy_n(inputs_.data() + tokens[static_cast<size_t>(first + i)] * columns_, columns_,
                  chunk.Row(i));
    if (!is_cold)
      outer.Add(std::as_const(chunk).view(), context.engine);
    const Matrix between = Middle(expert, chunk);
    middle.Add(between.view(), context.engine);
  }
  SmoothingFactors down_factors;
  SmoothDown(expert, middle, down_factors);
  inputs.outer = ModelInput(is_cold ? *all : outer, factors.scales, context);
  inputs.outer.exponent = static_cast<double>(factors.exponent);
  inputs.middle = ModelInput(middle, down_factors.scales, context);
  inputs.middle.exponent = static_cast<double>(down_factors.exponent);
  return inputs;
}

void ExpertsQuantizer::Append(const Matrix& weights, const InputModel& input,
                              const std::string& note, Stack& stack, Output& output) const {
  const int64_t rows = weights.rows();
  const auto index = static_cast<int64_t>(stack.encoded.bytes.size()) /
                     (rows * DTypeRowBytes(stack.encoded.dtype, weights.columns()));
  float* target = stack.values.Row(index * rows);
  const std::optional<GridSpec> grid = environment_.types.GridOf(*stack.tensor);
  if (!grid) {  // smoothing may have changed it all the same
    const auto bytes = std::as_bytes(weights.values());
    stack.encoded.bytes.insert(stack.encoded.bytes.end(), bytes.begin(), bytes.end());
    std::copy(weights.values().begin(), weights.values().end(), target);
    return;
  }
  QuantizedLinear linear = QuantizeLinear(weights, *grid, input, environment_.context);
  linear.report.name = fmt::format("{}[{}]", stack.tensor->name, index);
  linear.report.note = note;
  output.reports.push_back(std::move(linear.report));
  const std::vector<std::byte> bytes = EncodeRows(linear.levels, environment_.context.engine);
  stack.encoded.bytes.insert(stack.encoded.bytes.end(), bytes.begin(), bytes.end());
  const std::span<const float> values = std::as_const(linear.values).values();
  std::copy(values.begin(), values.end(), target);
}

Status ExpertsQuantizer::QuantizeExpert(int64_t index, const InputStatistics* all,
                                        const SmoothingFactors& factors, Output& output) {
  TENON_ASSIGN_OR_RETURN(Expert expert, Load(index));
  const Inputs inputs = ModelInputs(expert, all, factors);
  MultiplyColumns(expert.gate, factors.scales);
  MultiplyColumns(expert.up, factors.scales);
  Append(expert.gate, inputs.outer, inputs.note, gate_, output);
  Append(expert.up, inputs.outer, inputs.note, up_, output);
  Append(expert.down, inputs.middle, inputs.note, down_, output);
  return {};
}

Result<ExpertsQuantizer::Output> ExpertsQuantizer::Quantize(const InputStatistics* all,
                                                            const SmoothingFactors& factors) {
  Output output;
  for (int64_t index = 0; index < layer_.experts; ++index)
    TENON_RETURN_IF_ERROR(QuantizeExpert(index, all, factors, output));
  for (Stack* stack : {&gate_, &up_, &down_}) {
    environment_.weights.Replace(stack->tensor->name, std::move(stack->values));
    output.tensors.push_back(std::move(stack->encoded));
  }
  return output;
}

}  // namespace tenon
