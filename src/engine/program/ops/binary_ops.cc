// Operators of several tensors that broadcast (ONNX operators of the same names).
#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>

#include "engine/program/number_convert.h"
#include "engine/program/op_table.h"
#include "engine/program/strides.h"

namespace tenon {
namespace {

constexpr int64_t kChunk = 256;  // elements converted at a time

using DoubleFn = double (*)(double a, double b);
using IntegerFn = int64_t (*)(int64_t a, int64_t b);
// Elements `step` apart; 0: one element for all.
template <class T>
struct Strided {
  const T* data;
  int64_t step;
};
using FloatRowFn = void (*)(const Strided<float>& a, const Strided<float>& b, int64_t n,
                            float* out);

struct BinaryRow {
  std::string_view name;
  DoubleFn floats;     // null: not for floats
  IntegerFn integers;  // of signed types, and unsigned ones where `unsigned_integers` is null
  IntegerFn unsigned_integers;  // values are bits
  bool to_bool = false;
  FloatRowFn float_row = nullptr;  // the same in float
};

int64_t Wrap(uint64_t bits) {
  return static_cast<int64_t>(bits);
}
uint64_t Bits(int64_t value) {
  return static_cast<uint64_t>(value);
}

int64_t DivideSigned(int64_t a, int64_t b) {
  if (b == 0)
    return 0;
  return b == -1 ? Wrap(0 - Bits(a)) : a / b;
}

// Python's: the sign of the divisor.
int64_t ModuloSigned(int64_t a, int64_t b) {
  if (b == 0 || b == -1)
    return 0;
  const int64_t rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

double ModuloFloat(double a, double b) {
  const double rest = std::fmod(a, b);
  return rest != 0.0 && (rest < 0.0) != (b < 0.0) ? rest + b : rest;
}

// C's: the sign of the dividend.
int64_t RemainderSigned(int64_t a, int64_t b) {
  return b == 0 || b == -1 ? 0 : a % b;
}

int64_t PowerInteger(int64_t a, int64_t b) {
  if (b < 0)
    return a == 1 ? 1 : (a == -1 ? (b % 2 == 0 ? 1 : -1) : 0);
  uint64_t result = 1;
  uint64_t base = Bits(a);
  for (uint64_t rest = Bits(b); rest != 0; rest >>= 1) {
    if ((rest & 1) != 0)
      result *= base;
    base *= base;
  }
  return Wrap(result);
}

double NanAwareMax(double a, double b) {
  return std::isnan(a) || a > b ? a : b;
}
double NanAwareMin(double a, double b) {
  return std::isnan(a) || a < b ? a : b;
}

template <class F>
void FloatRow(const Strided<float>& a, const Strided<float>& b, int64_t n, float* out, F f) {
  if (a.step == 1 && b.step == 1) {
    for (int64_t i = 0; i < n; ++i)
      out[i] = f(a.data[i], b.data[i]);
  } else {
    for (int64_t i = 0; i < n; ++i)
      out[i] = f(a.data[i * a.step], b.data[i * b.step]);
  }
}

#define TENON_FLOAT_ROW(expression)                                               \
  [](const Strided<float>& pa, const Strided<float>& pb, int64_t n, float* out) { \
    FloatRow(pa, pb, n, out, [](float a, float b) { return expression; });        \
  }
#define TENON_DOUBLE(expression) [](double a, double b) -> double { return expression; }
#define TENON_INTEGER(expression) [](int64_t a, int64_t b) -> int64_t { return expression; }

constexpr BinaryRow kRows[] = {
    {"Add", TENON_DOUBLE(a + b), TENON_INTEGER(Wrap(Bits(a) + Bits(b))), nullptr, false,
     TENON_FLOAT_ROW(a + b)},
    {"Sub", TENON_DOUBLE(a - b), TENON_INTEGER(Wrap(Bits(a) - Bits(b))), nullptr, false,
     TENON_FLOAT_ROW(a - b)},
    {"Mul", TENON_DOUBLE(a* b), TENON_INTEGER(Wrap(Bits(a) * Bits(b))), nullptr, false,
     TENON_FLOAT_ROW(a* b)},
    {"Div", TENON_DOUBLE(a / b), DivideSigned, TENON_INTEGER(b == 0 ? 0 : Wrap(Bits(a) / Bits(b))),
     false, TENON_FLOAT_ROW(a / b)},
    {"Pow", TENON_DOUBLE(std::pow(a, b)), PowerInteger, nullptr},
    {"Mod", ModuloFloat, ModuloSigned, TENON_INTEGER(b == 0 ? 0 : Wrap(Bits(a) % Bits(b)))},
    {"fmod", TENON_DOUBLE(std::fmod(a, b)), RemainderSigned,
     TENON_INTEGER(b == 0 ? 0 : Wrap(Bits(a) % Bits(b)))},
    {"Max", NanAwareMax, TENON_INTEGER(a > b ? a : b), TENON_INTEGER(Bits(a) > Bits(b) ? a : b)},
    {"Min", NanAwareMin, TENON_INTEGER(a < b ? a : b), TENON_INTEGER(Bits(a) < Bits(b) ? a : b)},
    {"PRelu", TENON_DOUBLE(a < 0.0 ? a * b : a), TENON_INTEGER(a < 0 ? a * b : a), nullptr},
    {"Equal", TENON_DOUBLE(a == b), TENON_INTEGER(a == b), nullptr, true},
    {"Less", TENON_DOUBLE(a < b), TENON_INTEGER(a < b), TENON_INTEGER(Bits(a) < Bits(b)), true},
    {"LessOrEqual", TENON_DOUBLE(a <= b), TENON_INTEGER(a <= b), TENON_INTEGER(Bits(a) <= Bits(b)),
     true},
    {"Greater", TENON_DOUBLE(a > b), TENON_INTEGER(a > b), TENON_INTEGER(Bits(a) > Bits(b)), true},
    {"GreaterOrEqual", TENON_DOUBLE(a >= b), TENON_INTEGER(a >= b),
     TENON_INTEGER(Bits(a) >= Bits(b)), true},
    {"And", nullptr, TENON_INTEGER(a != 0 && b != 0), nullptr, true},
    {"Or", nullptr, TENON_INTEGER(a != 0 || b != 0), nullptr, true},
    {"Xor", nullptr, TENON_INTEGER((a != 0) != (b != 0)), nullptr, true},
    {"BitwiseAnd", nullptr, TENON_INTEGER(a& b), nullptr},
    {"BitwiseOr", nullptr, TENON_INTEGER(a | b), nullptr},
    {"BitwiseXor", nullptr, TENON_INTEGER(a ^ b), nullptr},
    {"LEFT", nullptr, TENON_INTEGER(Bits(b) > 63 ? 0 : Wrap(Bits(a) << Bits(b))), nullptr},
    // A signed number is shifted with its sign; a shift by its width or more leaves only that.
    {"RIGHT", nullptr, TENON_INTEGER(a >> (Bits(b) > 63 ? 63 : b)),
     TENON_INTEGER(Bits(b) > 63 ? 0 : Wrap(Bits(a) >> Bits(b)))},
};

const BinaryRow& FindRow(std::string_view name) {
  return *std::find_if(std::begin(kRows), std::end(kRows),
                       [&](const BinaryRow& row) { return row.name == name; });
}

// A run of n elements of both operands, steps apart, in wide numbers.
struct Operands {
  const BinaryRow& row;
  ElementType type;    // of the operands
  ElementType b_type;  // of the second one: Pow may have another
  ElementType out_type;
};

using Bytes = Strided<std::byte>;

// What is done with the numbers of a run once they are wide.
template <class Load, class Function>
struct WideStep {
  Load load;
  Function function;
};
template <class Load, class Function>
WideStep(Load, Function) -> WideStep<Load, Function>;  // clang 14 makes none of an aggregate

template <class Wide, class Load, class Function>
void WideRun(const Operands& op, const Bytes& a, const Bytes& b,
             const WideStep<Load, Function>& step, std::span<Wide> out) {
  Wide x[kChunk];
  Wide y[kChunk];
  const auto n = static_cast<int64_t>(out.size());
  // A step of 0: one element for all.
  step.load(op.type, a.data, a.step == 0 ? 1 : n, x);
  step.load(op.b_type, b.data, b.step == 0 ? 1 : n, y);
  for (int64_t i = 0; i < n; ++i)
    out[static_cast<size_t>(i)] = step.function(x[i * a.step], y[i * b.step]);
}

void Run(const Operands& op, const Bytes& a, const Bytes& b, int64_t n, std::byte* out) {
  if (IsFloat(op.type) || IsFloat(op.b_type)) {
    double values[kChunk];
    WideRun(op, a, b, WideStep{&LoadDoubles, op.row.floats},
            std::span(values).first(static_cast<size_t>(n)));
    StoreDoubles(op.out_type, values, n, out);
    return;
  }
  int64_t values[kChunk];
  const bool is_unsigned =
      ClassOf(op.type) == NumberClass::kUnsigned && op.row.unsigned_integers != nullptr;
  const auto function = is_unsigned ? op.row.unsigned_integers : op.row.integers;
  WideRun(op, a, b, WideStep{&LoadIntegers, function},
          std::span(values).first(static_cast<size_t>(n)));
  StoreIntegers(op.out_type, values, n, out);
}

// A row of any length with steps 0, 1 or more (transposed operands don't come here).
void RunRow(const Operands& op, const Bytes& a, const Bytes& b, int64_t n, std::byte* out) {
  const bool f32 = op.type == ElementType::kF32 && op.b_type == ElementType::kF32 &&
                   op.out_type == ElementType::kF32 && op.row.float_row != nullptr;
  if (f32) {
    op.row.float_row({reinterpret_cast<const float*>(a.data), a.step},
                     {reinterpret_cast<const float*>(b.data), b.step}, n,
                     reinterpret_cast<float*>(out));
    return;
  }
  for (int64_t first = 0; first < n; first += kChunk)
    Run(op, {a.data + first * a.step * ElementBytes(op.type), a.step},
        {b.data + first * b.step * ElementBytes(op.b_type), b.step}, std::min(kChunk, n - first),
        out + first * ElementBytes(op.out_type));
}

void Combine(const Operands& op, const TensorView& a, const TensorView& b, const TensorView& out) {
  const RowWalk walk(out.shape,
                     {BroadcastStrides(a.shape, out.shape), BroadcastStrides(b.shape, out.shape),
                      ContiguousStrides(out.shape)});
  walk.ForEachRow([&](const int64_t* offsets) {
    RunRow(op, {a.data + offsets[0] * ElementBytes(a.type), walk.inner_stride(0)},
           {b.data + offsets[1] * ElementBytes(b.type), walk.inner_stride(1)}, walk.inner(),
           out.data + offsets[2] * ElementBytes(out.type));
  });
}

Status CheckTypes(const NodeCall& call, const BinaryRow& row, const TensorView& a,
                  const TensorView& b) {
  if (a.type != b.type && row.name != "Pow" && row.name != "LEFT" && row.name != "RIGHT")
    return call.Wrong(std::string(ElementTypeName(a.type)) + " and " +
                      std::string(ElementTypeName(b.type)) + ", one type expected");
  if (row.floats == nullptr && IsFloat(a.type))
    return call.NotSupported("elements of type " + std::string(ElementTypeName(a.type)));
  return {};
}

std::string_view RowName(const ProgramNode& node) {
  if (node.op == "BitShift")
    return node.Text("direction", "LEFT") == "RIGHT" ? "RIGHT" : "LEFT";
  return node.op == "Mod" && node.Integer("fmod", 0) != 0 ? "fmod" : std::string_view(node.op);
}

// Operator sets before 7 broadcast only when asked to, from `axis` on.
Status CheckOldBroadcast(const NodeCall& call) {
  return call.node().Find("broadcast") != nullptr
             ? Status(call.NotSupported("the attribute 'broadcast' of operator sets before 7"))
             : Status();
}

Status Binary(NodeCall& call) {
  TENON_RETURN_IF_ERROR(call.Need(2));
  TENON_RETURN_IF_ERROR(CheckOldBroadcast(call));
  const BinaryRow& row = FindRow(RowName(call.node()));
  const TensorView a = call.input(0);
  const TensorView b = call.input(1);
  TENON_RETURN_IF_ERROR(CheckTypes(call, row, a, b));
  auto shape = BroadcastShape(a.shape, b.shape);
  if (!shape.ok())
    return call.Wrong(shape.error().message);
  const ElementType type = row.to_bool ? ElementType::kBool : a.type;
  TENON_ASSIGN_OR_RETURN(const TensorView out, call.Output(0, type, std::move(*shape)));
  Combine({row, a.type, b.type, type}, a, b, out);
  return {};
}

// Max, Min, Sum, Mean of any number of tensors.
Status Variadic(NodeCall& call) {
  TENON_RETURN_IF_ERROR(call.Need(std::max<size_t>(call.input_count(), 1)));
  const std::string& op = call.node().op;
  const BinaryRow& row = FindRow(op == "Sum" || op == "Mean" ? "Add" : std::string_view(op));
  Extents shape;
  for (size_t i = 0; i < call.input_count(); ++i) {
    auto wider = BroadcastShape(shape, call.input(i).shape);
    if (!wider.ok())
      return call.Wrong(wider.error().message);
    TENON_RETURN_IF_ERROR(CheckTypes(call, row, call.input(0), call.input(i)));
    shape = std::move(*wider);
  }
  const ElementType type = call.input(0).type;
  TENON_ASSIGN_OR_RETURN(const TensorView out, call.Output(0, type, std::move(shape)));
  const Operands operands{row, type, type, type};
  // The first tensor repeated, then the others combined into it.
  const TensorView first = call.input(0);
  const int64_t size = ElementBytes(type);
  const RowWalk walk(out.shape,
                     {BroadcastStrides(first.shape, out.shape), ContiguousStrides(out.shape)});
  walk.ForEachRow([&](const int64_t* o) {
    for (int64_t i = 0; i < walk.inner(); ++i)
      std::memcpy(out.data + (o[1] + i * walk.inner_stride(1)) * size,
                  first.data + (o[0] + i * walk.inner_stride(0)) * size, static_cast<size_t>(size));
  });
  for (size_t i = 1; i < call.input_count(); ++i)
    Combine(operands, out, call.input(i), out);
  if (op != "Mean")
    return {};
  for (int64_t i = 0; i < out.count(); ++i) {
    double value = 0.0;
    LoadDoubles(type, out.data + i * size, 1, &value);
    value /= static_cast<double>(call.input_count());
    StoreDoubles(type, &value, 1, out.data + i * size);
  }
  return {};
}

Status Where(NodeCall& call) {
  TENON_RETURN_IF_ERROR(call.Need(3));
  const TensorView condition = call.input(0);
  const TensorView x = call.input(1);
  const TensorView y = call.input(2);
  if (condition.type != ElementType::kBool || x.type != y.type)
    return call.Wrong("a bool and two tensors of one type expected");
  auto shape = BroadcastShape(x.shape, y.shape);
  if (shape.ok())
    shape = BroadcastShape(*shape, condition.shape);
  if (!shape.ok())
    return call.Wrong(shape.error().message);
  TENON_ASSIGN_OR_RETURN(const TensorView out, call.Output(0, x.type, std::move(*shape)));
  const auto size = static_cast<size_t>(ElementBytes(x.type));
  const auto step = static_cast<int64_t>(size);
  const RowWalk walk(
      out.shape,
      {BroadcastStrides(condition.shape, out.shape), BroadcastStrides(x.shape, out.shape),
       BroadcastStrides(y.shape, out.shape), ContiguousStrides(out.shape)});
  walk.ForEachRow([&](const int64_t* o) {
    for (int64_t i = 0; i < walk.inner(); ++i) {
      const bool first = condition.data[o[0] + i * walk.inner_stride(0)] != std::byte{0};
      const std::byte* from = first ? x.data + (o[1] + i * walk.inner_stride(1)) * step
                                    : y.data + (o[2] + i * walk.inner_stride(2)) * step;
      std::memcpy(out.data + (o[3] + i * walk.inner_stride(3)) * step, from, size);
    }
  });
  return {};
}

std::vector<ProgramOp> MakeOps() {
  std::vector<ProgramOp> ops;
  for (const BinaryRow& row : kRows) {
    const bool other = row.name == "fmod" || row.name == "LEFT" || row.name == "RIGHT";
    if (!other && row.name != "Max" && row.name != "Min")
      ops.push_back({"", row.name, 1, kEveryVersion, Binary, row.to_bool ? kPlainOp : kInPlaceOp});
  }
  ops.push_back({"", "BitShift", 1, kEveryVersion, Binary, kInPlaceOp});
  for (const std::string_view name : {"Max", "Min", "Sum", "Mean"})
    ops.push_back({"", name, 6, kEveryVersion, Variadic, kPlainOp});
  ops.push_back({"", "Where", 9, kEveryVersion, Where, kPlainOp});
  return ops;
}

}  // namespace

std::span<const ProgramOp> BinaryOps() {
  static const std::vector<ProgramOp> ops = MakeOps();
  return ops;
}

}  // namespace tenon
