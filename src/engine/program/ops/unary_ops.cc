// Operators of one tensor, element by element (ONNX operators of the same names).
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>
#include <numbers>

#include "engine/program/number_convert.h"
#include "engine/program/op_table.h"

namespace tenon {
namespace {

// Elements converted at a time: two buffers of 2 KiB stay in the first cache.
constexpr int64_t kChunk = 256;

// Attribute values in the order of UnaryRow::attributes.
using Params = std::array<double, 2>;
using FloatFn = double (*)(double x, const Params& p);
using IntegerFn = int64_t (*)(int64_t x);

struct UnaryAttribute {
  std::string_view name;
  float otherwise = 0.0F;
};

struct UnaryRow {
  std::string_view name;
  FloatFn function;
  std::array<UnaryAttribute, 2> attributes = {};
  IntegerFn integer = nullptr;  // of integer types; null: floats only
};

double Erf(double x) {
  return std::erf(x);
}

double Gelu(double x) {
  return 0.5 * x * (1.0 + Erf(x / std::numbers::sqrt2));
}

double GeluTanh(double x) {
  return 0.5 * x *
         (1.0 + std::tanh(std::sqrt(2.0 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}

double Sigmoid(double x) {
  return 1.0 / (1.0 + std::exp(-x));
}

double Softplus(double x) {
  return std::max(x, 0.0) + std::log1p(std::exp(-std::fabs(x)));
}

constexpr UnaryRow kRows[] = {
    {"Abs",
     [](double x, const Params&) { return std::fabs(x); },
     {},
     [](int64_t x) { return x < 0 ? -x : x; }},
    {"Neg",
     [](double x, const Params&) { return -x; },
     {},
     [](int64_t x) { return static_cast<int64_t>(0 - static_cast<uint64_t>(x)); }},
    {"Sign",
     [](double x, const Params&) { return std::isnan(x) ? x : (x > 0.0) - (x < 0.0) + 0.0; },
     {},
     [](int64_t x) { return int64_t{x > 0} - int64_t{x < 0}; }},
    {"Relu",
     [](double x, const Params&) { return x > 0.0 || std::isnan(x) ? x : 0.0; },
     {},
     [](int64_t x) { return std::max<int64_t>(x, 0); }},
    {"Floor", [](double x, const Params&) { return std::floor(x); }},
    {"Ceil", [](double x, const Params&) { return std::ceil(x); }},
    {"Round", [](double x, const Params&) { return std::nearbyint(x); }},
    {"Reciprocal", [](double x, const Params&) { return 1.0 / x; }},
    {"Sqrt", [](double x, const Params&) { return std::sqrt(x); }},
    {"Exp", [](double x, const Params&) { return std::exp(x); }},
    {"Log", [](double x, const Params&) { return std::log(x); }},
    {"Sin", [](double x, const Params&) { return std::sin(x); }},
    {"Cos", [](double x, const Params&) { return std::cos(x); }},
    {"Tan", [](double x, const Params&) { return std::tan(x); }},
    {"Asin", [](double x, const Params&) { return std::asin(x); }},
    {"Acos", [](double x, const Params&) { return std::acos(x); }},
    {"Atan", [](double x, const Params&) { return std::atan(x); }},
    {"Sinh", [](double x, const Params&) { return std::sinh(x); }},
    {"Cosh", [](double x, const Params&) { return std::cosh(x); }},
    {"Tanh", [](double x, const Params&) { return std::tanh(x); }},
    {"Asinh", [](double x, const Params&) { return std::asinh(x); }},
    {"Acosh", [](double x, const Params&) { return std::acosh(x); }},
    {"Atanh", [](double x, const Params&) { return std::atanh(x); }},
    {"Erf", [](double x, const Params&) { return Erf(x); }},
    {"Sigmoid", [](double x, const Params&) { return Sigmoid(x); }},
    {"Softplus", [](double x, const Params&) { return Softplus(x); }},
    {"Softsign", [](double x, const Params&) { return x / (1.0 + std::fabs(x)); }},
    {"Mish", [](double x, const Params&) { return x * std::tanh(Softplus(x)); }},
    {"HardSwish", [](double x, const Params&) { return x * std::clamp(x / 6.0 + 0.5, 0.0, 1.0); }},
    {"Swish", [](double x, const Params& p) { return x * Sigmoid(p[0] * x); }, {{{"alpha", 1.0F}}}},
    {"Elu",
     [](double x, const Params& p) { return x < 0.0 ? p[0] * std::expm1(x) : x; },
     {{{"alpha", 1.0F}}}},
    {"Celu",
     [](double x, const Params& p) { return x < 0.0 ? p[0] * std::expm1(x / p[0]) : x; },
     {{{"alpha", 1.0F}}}},
    {"Selu",
     [](double x, const Params& p) { return p[1] * (x > 0.0 ? x : p[0] * std::expm1(x)); },
     {{{"alpha", 1.67326319217681884765625F}, {"gamma", 1.05070102214813232421875F}}}},
    {"LeakyRelu",
     [](double x, const Params& p) { return x < 0.0 ? p[0] * x : x; },
     {{{"alpha", 0.01F}}}},
    {"ThresholdedRelu",
     [](double x, const Params& p) { return x > p[0] ? x : 0.0; },
     {{{"alpha", 1.0F}}}},
    {"HardSigmoid",
     [](double x, const Params& p) { return std::clamp(p[0] * x + p[1], 0.0, 1.0); },
     {{{"alpha", 0.2F}, {"beta", 0.5F}}}},
    {"Shrink",
     [](double x, const Params& p) { return x < -p[1] ? x + p[0] : (x > p[1] ? x - p[0] : 0.0); },
     {{{"bias", 0.0F}, {"lambd", 0.5F}}}},
    {"Gelu", [](double x, const Params& p) { return p[0] == 0.0 ? Gelu(x) : GeluTanh(x); }},
    {"FastGelu", [](double x, const Params&) { return GeluTanh(x); }},
    {"QuickGelu",
     [](double x, const Params& p) { return x * Sigmoid(p[0] * x); },
     {{{"alpha", 1.702F}}}},
};

const UnaryRow* FindRow(std::string_view name) {
  const auto* found = std::find_if(std::begin(kRows), std::end(kRows),
                                   [&](const auto& r) { return r.name == name; });
  return found == std::end(kRows) ? nullptr : found;
}

template <class Body>
void ForChunks(NodeCall& call, int64_t count, Body body) {
  call.pool().ParallelFor((count + kChunk - 1) / kChunk, 16, [&](int64_t begin, int64_t end, int) {
    for (int64_t chunk = begin; chunk < end; ++chunk) {
      const int64_t first = chunk * kChunk;
      body(first, std::min(kChunk, count - first));
    }
  });
}

Params ReadParams(const NodeCall& call, const UnaryRow& row) {
  Params params = {};
  for (size_t i = 0; i < params.size(); ++i) {
    if (!row.attributes[i].name.empty())
      params[i] = double{call.node().Float(row.attributes[i].name, row.attributes[i].otherwise)};
  }
  if (row.name == "Gelu" && call.node().Text("approximate", "none") == "tanh")
    params[0] = 1.0;
  return params;
}

Status Unary(NodeCall& call) {
  TENON_RETURN_IF_ERROR(call.Need(1));
  const UnaryRow& row = *FindRow(call.node().op);
  const TensorView x = call.input(0);
  const bool is_float = IsFloat(x.type);
  if (!is_float && (row.integer == nullptr || !IsInteger(x.type)))
    return call.NotSupported("elements of type " + std::string(ElementTypeName(x.type)));
  TENON_ASSIGN_OR_RETURN(const TensorView y, call.Output(0, x.type, x.shape));
  const Params params = ReadParams(call, row);
  const int64_t size = ElementBytes(x.type);
  const bool is_unsigned = ClassOf(x.type) == NumberClass::kUnsigned;
  ForChunks(call, x.count(), [&](int64_t first, int64_t n) {
    if (is_float) {
      double values[kChunk];
      LoadDoubles(x.type, x.data + first * size, n, values);
      for (int64_t i = 0; i < n; ++i)
        values[i] = row.function(values[i], params);
      StoreDoubles(x.type, values, n, y.data + first * size);
      return;
    }
    int64_t values[kChunk];
    LoadIntegers(x.type, x.data + first * size, n, values);
    for (int64_t i = 0; i < n; ++i) {
      const bool keep = is_unsigned && row.name != "Neg" && row.name != "Sign";
      values[i] = keep ? values[i]
                       : (is_unsigned && row.name == "Sign" ? int64_t{values[i] != 0}
                                                            : row.integer(values[i]));
    }
    StoreIntegers(x.type, values, n, y.data + first * size);
  });
  return {};
}

// Not of bools, BitwiseNot of integers.
Status NotKernel(NodeCall& call) {
  TENON_RETURN_IF_ERROR(call.Need(1));
  const TensorView x = call.input(0);
  const bool logical = call.node().op == "Not";
  if (logical ? x.type != ElementType::kBool : !IsInteger(x.type))
    return call.NotSupported("elements of type " + std::string(ElementTypeName(x.type)));
  TENON_ASSIGN_OR_RETURN(const TensorView y, call.Output(0, x.type, x.shape));
  for (int64_t i = 0; i < x.bytes(); ++i)
    y.data[i] = logical ? static_cast<std::byte>(x.data[i] == std::byte{0}) : ~x.data[i];
  return {};
}

Status Classify(NodeCall& call) {
  TENON_RETURN_IF_ERROR(call.Need(1));
  const TensorView x = call.input(0);
  if (!IsFloat(x.type))
    return call.NotSupported("elements of type " + std::string(ElementTypeName(x.type)));
  const bool nan = call.node().op == "IsNaN";
  const bool positive = call.node().Integer("detect_positive", 1) != 0;
  const bool negative = call.node().Integer("detect_negative", 1) != 0;
  TENON_ASSIGN_OR_RETURN(const TensorView y, call.Output(0, ElementType::kBool, x.shape));
  for (int64_t i = 0; i < x.count(); ++i) {
    double value = 0.0;
    LoadDoubles(x.type, x.data + i * ElementBytes(x.type), 1, &value);
    const bool found =
        nan ? std::isnan(value) : std::isinf(value) && (value > 0.0 ? positive : negative);
    y.data[i] = static_cast<std::byte>(found);
  }
  return {};
}

// A bound of Clip: input `i`, or the attribute of operator sets before 11.
Result<double> Bound(const NodeCall& call, size_t i, std::string_view attribute, double otherwise) {
  if (!call.Has(i)) {
    const ProgramAttribute* found = call.node().Find(attribute);
    return found == nullptr ? otherwise : double{call.node().Float(attribute, 0.0F)};
  }
  TENON_ASSIGN_OR_RETURN(const auto bound, call.Numbers(i));
  if (bound.size() != 1)
    return call.Wrong("a bound that is no scalar");
  return bound[0];
}

Status Clip(NodeCall& call) {
  TENON_RETURN_IF_ERROR(call.Need(1));
  const TensorView x = call.input(0);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  TENON_ASSIGN_OR_RETURN(const double low, Bound(call, 1, "min", -kInfinity));
  TENON_ASSIGN_OR_RETURN(const double high, Bound(call, 2, "max", kInfinity));
  TENON_ASSIGN_OR_RETURN(const TensorView y, call.Output(0, x.type, x.shape));
  const int64_t size = ElementBytes(x.type);
  ForChunks(call, x.count(), [&](int64_t first, int64_t n) {
    double values[kChunk];
    LoadDoubles(x.type, x.data + first * size, n, values);
    for (int64_t i = 0; i < n; ++i) {
      // NaN stays; the upper bound wins where bounds cross.
      values[i] = values[i] < low ? low : values[i];
      values[i] = values[i] > high ? high : values[i];
    }
    StoreDoubles(x.type, values, n, y.data + first * size);
  });
  return {};
}

std::vector<ProgramOp> MakeOps() {
  std::vector<ProgramOp> ops;
  for (const UnaryRow& row : kRows) {
    const bool contrib = row.name == "FastGelu" || row.name == "QuickGelu";
    ops.push_back({contrib ? "com.microsoft" : "", row.name, 1, kEveryVersion, Unary, kInPlaceOp});
  }
  ops.push_back({"com.microsoft", "Gelu", 1, kEveryVersion, Unary, kInPlaceOp});
  ops.push_back({"", "Not", 1, kEveryVersion, NotKernel, kInPlaceOp});
  ops.push_back({"", "BitwiseNot", 1, kEveryVersion, NotKernel, kInPlaceOp});
  ops.push_back({"", "IsNaN", 1, kEveryVersion, Classify, kPlainOp});
  ops.push_back({"", "IsInf", 1, kEveryVersion, Classify, kPlainOp});
  ops.push_back({"", "Clip", 6, kEveryVersion, Clip, kInPlaceOp});
  return ops;
}

}  // namespace

std::span<const ProgramOp> UnaryOps() {
  static const std::vector<ProgramOp> ops = MakeOps();
  return ops;
}

}  // namespace tenon
