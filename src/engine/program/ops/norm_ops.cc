// Normalisations: of rows (LayerNormalization, RMSNormalization and ONNX Runtime's variants), of
// channels (Batch-, Instance-, GroupNormalization), and over all (MeanVarianceNormalization, LRN).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "engine/program/float_input.h"
#include "engine/program/number_convert.h"
#include "engine/program/op_table.h"
#include "engine/program/strides.h"

namespace tenon {
namespace {

enum class Centre : uint8_t { kMean, kNone };

struct RowStatistics {
  float mean;
  float inverse;  // 1 / standard deviation
};

RowStatistics Statistics(const float* x, int64_t n, Centre centre, double eps) {
  double sum = 0.0;
  for (int64_t i = 0; i < n; ++i)
    sum += double{x[i]};
  const double mean = centre == Centre::kMean ? sum / static_cast<double>(n) : 0.0;
  double squares = 0.0;
  for (int64_t i = 0; i < n; ++i)
    squares += (double{x[i]} - mean) * (double{x[i]} - mean);
  return {static_cast<float>(mean),
          static_cast<float>(1.0 / std::sqrt(squares / static_cast<double>(n) + eps))};
}

// A scale or bias of one row: its last `n` elements' shape repeated as broadcasting says.
Result<std::vector<float>> RowParameter(const NodeCall& call, size_t input, const Extents& row) {
  std::vector<float> out;
  if (!call.Has(input))
    return out;
  const TensorView& view = call.input(input);
  const auto joined = BroadcastShape(view.shape, row);
  if (!joined.ok() || *joined != row)
    return call.Wrong(fmt::format("input {} does not fit the normalised dimensions", input));
  const FloatInput values(view);
  const RowWalk walk(row, {BroadcastStrides(view.shape, row)});
  walk.ForEachRow([&](const int64_t* o) {
    for (int64_t i = 0; i < walk.inner(); ++i)
      out.push_back(values.data()[o[0] + i * walk.inner_stride(0)]);
  });
  return out;
}

struct RowNorm {
  Centre centre = Centre::kMean;
  double eps = 1e-5;
  int64_t rows = 1;
  int64_t n = 1;
  std::vector<float> scale;
  std::vector<float> bias;
};

void NormalizeRow(const RowNorm& norm, const RowStatistics& s, const float* x, float* out) {
  const float* scale = norm.scale.empty() ? nullptr : norm.scale.data();
  const float* bias = norm.bias.empty() ? nullptr : norm.bias.data();
  for (int64_t i = 0; i < norm.n; ++i) {
    const float value = (x[i] - s.mean) * s.inverse * (scale == nullptr ? 1.0F : scale[i]);
    out[i] = value + (bias == nullptr ? 0.0F : bias[i]);
  }
}

// [rows] each; null: not wanted.
struct StatisticsRows {
  float* means = nullptr;
  float* inverses = nullptr;
};

void RunRows(NodeCall& call, const RowNorm& norm, const float* x, float* out,
             const StatisticsRows& wanted) {
  call.pool().ParallelFor(norm.rows, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      const RowStatistics s = Statistics(x + r * norm.n, norm.n, norm.centre, norm.eps);
      NormalizeRow(norm, s, x + r * norm.n, out + r * norm.n);
      if (wanted.means != nullptr)
        wanted.means[r] = s.mean;
      if (wanted.inverses != nullptr)
        wanted.inverses[r] = s.inverse;
    }
  });
}

// The optional output `i` of statistics, one for each row.
Result<float*> StatisticsOutput(NodeCall& call, size_t i, const Extents& shape) {
  if (!call.Wants(i))
    return nullptr;
  TENON_ASSIGN_OR_RETURN(const TensorView view, call.Output(i, ElementType::kF32, shape));
  return view.As<float>();
}

Status LayerNorm(NodeCall& call) {
  TENON_RETURN_IF_ERROR(call.Need(2));
  const TensorView x = call.input(0);
  if (!IsFloat(x.type))
    return call.NotSupported("elements that are no floats");
  TENON_ASSIGN_OR_RETURN(const int64_t axis, call.Axis(call.node().Integer("axis", -1), x.rank()));
  const Extents row(x.shape.begin() + axis, x.shape.end());
  RowNorm norm;
  norm.centre = call.node().op == "LayerNormalization" ? Centre::kMean : Centre::kNone;
  norm.eps = double{call.node().Float("epsilon", 1e-5F)};
  norm.n = ElementCount(row);
  norm.rows = norm.n == 0 ? 0 : x.count() / norm.n;
  TENON_ASSIGN_OR_RETURN(norm.scale, RowParameter(call, 1, row));
  TENON_ASSIGN_OR_RETURN(norm.bias, RowParameter(call, 2, row));
  const FloatInput values(x);
  TENON_ASSIGN_OR_RETURN(const TensorView out, call.Output(0, x.type, x.shape));
  Extents statistics(x.shape.begin(), x.shape.begin() + axis);
  statistics.resize(x.shape.size(), 1);
  const bool centred = norm.centre == Centre::kMean;
  float* means = nullptr;
  if (centred) {
    TENON_ASSIGN_OR_RETURN(means, StatisticsOutput(call, 1, statistics));
  }
  TENON_ASSIGN_OR_RETURN(float* inverses, StatisticsOutput(call, centred ? 2 : 1, statistics));
  FloatOutput result(out);
  RunRows(call, norm, values.data(), result.data(), {means, inverses});
  result.Finish();
  return {};
}

// com.microsoft: the norm of input + skip (+ bias); output 3 is that sum.
Status SkipLayerNorm(NodeCall& call) {
  TENON_RETURN_IF_ERROR(call.Need(3));
  const TensorView x = call.input(0);
  const bool simplified = call.node().op == "SkipSimplifiedLayerNormalization";
  const size_t bias_input = simplified ? 3 : 4;
  if (!IsFloat(x.type) || x.rank() < 1 || call.input(1).shape != x.shape)
    return call.NotSupported("a skip input of another shape");
  const Extents row = {x.shape.back()};
  RowNorm norm;
  norm.centre = simplified ? Centre::kNone : Centre::kMean;
  norm.eps = double{call.node().Float("epsilon", 1e-12F)};
  norm.n = row[0];
  norm.rows = norm.n == 0 ? 0 : x.count() / norm.n;
  TENON_ASSIGN_OR_RETURN(norm.scale, RowParameter(call, 2, row));
  if (!simplified) {
    TENON_ASSIGN_OR_RETURN(norm.bias, RowParameter(call, 3, row));
  }
  TENON_ASSIGN_OR_RETURN(const std::vector<float> added, RowParameter(call, bias_input, row));
  const FloatInput a(x);
  const FloatInput b(call.input(1));
  TENON_ASSIGN_OR_RETURN(const TensorView sum, call.Output(3, x.type, x.shape));
  FloatOutput total(sum);
  for (int64_t i = 0; i < x.count(); ++i) {
    const float bias = added.empty() ? 0.0F : added[static_cast<size_t>(i % norm.n)];
    total.data()[i] = a.data()[i] + b.data()[i] + bias;
  }
  TENON_ASSIGN_OR_RETURN(const TensorView out, call.Output(0, x.type, x.shape));
  FloatOutput result(out);
  RunRows(call, norm, total.data(), result.data(), {});
  result.Finish();
  total.Finish();
  return {};
}

// [n, channels, ...]: elements of one channel after the first two dimensions.
Status CheckChannels(const NodeCall& call, std::initializer_list<size_t> parameters) {
  const TensorView& x = call.input(0);
  if (x.rank() < 2 || !IsFloat(x.type))
    return call.Wrong("floats with a channel dimension expected");
  for (const size_t i : parameters) {
    if (call.input(i).count() != x.shape[1])
      return call.Wrong(fmt::format("input {} of {} elements for {} channels", i,
                                    call.input(i).count(), x.shape[1]));
  }
  return {};
}

Status BatchNorm(NodeCall& call) {
  TENON_RETURN_IF_ERROR(call.Need(5));
  TENON_RETURN_IF_ERROR(CheckChannels(call, {1, 2, 3, 4}));
  if (call.node().Integer("training_mode", 0) != 0)
    return call.NotSupported("training mode");
  const TensorView x = call.input(0);
  const FloatInput values(x);
  const FloatInput scale(call.input(1));
  const FloatInput bias(call.input(2));
  const FloatInput mean(call.input(3));
  const FloatInput variance(call.input(4));
  const auto eps = double{call.node().Float("epsilon", 1e-5F)};
  TENON_ASSIGN_OR_RETURN(const TensorView out, call.Output(0, x.type, x.shape));
  FloatOutput result(out);
  const int64_t channels = x.shape[1];
  const int64_t inner = x.count() == 0 ? 1 : x.count() / (x.shape[0] * channels);
  for (int64_t i = 0; i < x.count(); ++i) {
    const int64_t c = i / inner % channels;
    const double factor = double{scale.data()[c]} / std::sqrt(double{variance.data()[c]} + eps);
    result.data()[i] = static_cast<float>(
        (double{values.data()[i]} - double{mean.data()[c]}) * factor + double{bias.data()[c]});
  }
  result.Finish();
  return {};
}

// InstanceNormalization: groups of one channel. GroupNormalization: `num_groups` groups, whose
// scale and bias are by group before operator set 21, by channel after.
Status GroupNorm(NodeCall& call) {
  TENON_RETURN_IF_ERROR(call.Need(3));
  const TensorView x = call.input(0);
  if (x.rank() < 2 || !IsFloat(x.type) || x.shape[1] < 1)
    return call.Wrong("floats with a channel dimension expected");
  const int64_t channels = x.shape[1];
  const bool instance = call.node().op == "InstanceNormalization";
  const int64_t groups = instance ? channels : call.node().Integer("num_groups", 0);
  if (groups < 1 || channels % groups != 0 || call.input(1).count() != call.input(2).count() ||
      (call.input(1).count() != channels && call.input(1).count() != groups))
    return call.Wrong(fmt::format("{} groups of {} channels", groups, channels));
  const int64_t per_parameter = channels / call.input(1).count();
  const auto eps = double{call.node().Float("epsilon", 1e-5F)};
  const FloatInput values(x);
  const FloatInput scale(call.input(1));
  const FloatInput bias(call.input(2));
  TENON_ASSIGN_OR_RETURN(const TensorView out, call.Output(0, x.type, x.shape));
  FloatOutput result(out);
  if (x.count() == 0)
    return {};
  const int64_t inner = x.count() / (x.shape[0] * channels);
  const int64_t n = channels / groups * inner;
  for (int64_t row = 0; row < x.count() / n; ++row) {
    const float* from = values.data() + row * n;
    const RowStatistics s = Statistics(from, n, Centre::kMean, eps);
    for (int64_t i = 0; i < n; ++i) {
      const int64_t c = (row * n + i) / inner % channels / per_parameter;
      result.data()[row * n + i] =
          (from[i] - s.mean) * s.inverse * scale.data()[c] + bias.data()[c];
    }
  }
  result.Finish();
  return {};
}

Status LocalResponse(NodeCall& call) {
  TENON_RETURN_IF_ERROR(call.Need(1));
  TENON_RETURN_IF_ERROR(CheckChannels(call, {}));
  const TensorView x = call.input(0);
  const auto alpha = double{call.node().Float("alpha", 1e-4F)};
  const auto beta = double{call.node().Float("beta", 0.75F)};
  const auto bias = double{call.node().Float("bias", 1.0F)};
  const int64_t size = call.node().Integer("size", 1);
  if (size < 1 || size > 1 << 20)
    return call.Wrong("a size");
  const FloatInput values(x);
  TENON_ASSIGN_OR_RETURN(const TensorView out, call.Output(0, x.type, x.shape));
  FloatOutput result(out);
  const int64_t channels = x.shape[1];
  const int64_t inner = x.count() == 0 ? 1 : x.count() / (x.shape[0] * channels);
  for (int64_t i = 0; i < x.count(); ++i) {
    const int64_t c = i / inner % channels;
    double squares = 0.0;
    for (int64_t o = std::max<int64_t>(c - (size - 1) / 2, 0);
         o <= std::min(c + size / 2, channels - 1); ++o) {
      const auto value = double{values.data()[i + (o - c) * inner]};
      squares += value * value;
    }
    result.data()[i] =
        static_cast<float>(double{values.data()[i]} /
                           std::pow(bias + alpha / static_cast<double>(size) * squares, beta));
  }
  result.Finish();
  return {};
}

constexpr ProgramOp kOps[] = {
    {"", "LayerNormalization", 1, kEveryVersion, LayerNorm, kInPlaceOp},
    {"", "RMSNormalization", 1, kEveryVersion, LayerNorm, kInPlaceOp},
    {"", "SimplifiedLayerNormalization", 1, kEveryVersion, LayerNorm, kInPlaceOp},
    {"com.microsoft", "SimplifiedLayerNormalization", 1, kEveryVersion, LayerNorm, kInPlaceOp},
    {"com.microsoft", "SkipLayerNormalization", 1, kEveryVersion, SkipLayerNorm, kPlainOp},
    {"com.microsoft", "SkipSimplifiedLayerNormalization", 1, kEveryVersion, SkipLayerNorm,
     kPlainOp},
    {"", "BatchNormalization", 7, kEveryVersion, BatchNorm, kPlainOp},
    {"", "InstanceNormalization", 6, kEveryVersion, GroupNorm, kPlainOp},
    {"", "GroupNormalization", 18, kEveryVersion, GroupNorm, kPlainOp},
    {"", "LRN", 1, kEveryVersion, LocalResponse, kPlainOp},
};

}  // namespace

std::span<const ProgramOp> NormOps() {
  return kOps;
}

}  // namespace tenon
