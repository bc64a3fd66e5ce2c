// The operators that passes make of several (domain "tenon"); the passes say what they replace.
//
//   Linear(x, w, bias?, residual?)      act(x w + bias) + residual; w constant [k, n]. Attributes:
//                                       activation (none, gelu, gelu_tanh, silu, relu, tanh), and
//                                       sizes: columns of each output, in order
//   Attention(q, k, v, mask?)           softmax(scale q k^T + mask) v; tensors [batch, heads, rows,
//                                       width], or [batch, rows, heads, width] where q_rows_first
//                                       and so on are 1; fewer key heads are repeated, one after
//                                       the other
//   Rotary(x, cos, sin)                 x cos + rotate_half(x) sin, all broadcast to x's shape
//   SwiGlu(a, b)                        a sigmoid(a) b
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <numbers>

#include "engine/program/attend.h"
#include "engine/program/float_gemm.h"
#include "engine/program/op_table.h"
#include "engine/program/strides.h"

namespace tenon {
namespace {

Status NeedF32(const NodeCall& call) {
  for (size_t i = 0; i < call.input_count(); ++i) {
    if (call.Has(i) && call.input(i).type != ElementType::kF32)
      return call.NotSupported("elements that are not float32");
  }
  return {};
}

float Sigmoid(float x) {
  return 1.0F / (1.0F + std::exp(-x));
}

using ActivationFn = float (*)(float x);

float Gelu(float x) {
  return static_cast<float>(0.5 * double{x} * (1.0 + std::erf(double{x} / std::numbers::sqrt2)));
}
float GeluTanh(float x) {
  const auto wide = double{x};
  const double inner = std::sqrt(2.0 / std::numbers::pi) * (wide + 0.044715 * wide * wide * wide);
  return static_cast<float>(0.5 * wide * (1.0 + std::tanh(inner)));
}

struct Activation {
  std::string_view name;
  ActivationFn function;
};
constexpr Activation kActivations[] = {
    {"none", nullptr},
    {"gelu", Gelu},
    {"gelu_tanh", GeluTanh},
    {"silu", [](float x) { return x * Sigmoid(x); }},
    {"relu", [](float x) { return x > 0.0F || std::isnan(x) ? x : 0.0F; }},
    {"tanh", [](float x) { return std::tanh(x); }},
};

Status FindActivation(const NodeCall& call, ActivationFn& function) {
  const std::string_view name = call.node().Text("activation", "none");
  for (const Activation& activation : kActivations) {
    if (activation.name == name) {
      function = activation.function;
      return {};
    }
  }
  return call.NotSupported(fmt::format("the activation '{}'", name));
}

struct Epilogue {
  const float* bias = nullptr;  // [n]
  ActivationFn activation = nullptr;
  const float* residual = nullptr;  // [m, n]
};

void RunEpilogue(const Epilogue& e, int64_t m, int64_t n, float* out) {
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      float value = out[i * n + j];
      value += e.bias == nullptr ? 0.0F : e.bias[j];
      value = e.activation == nullptr ? value : e.activation(value);
      out[i * n + j] = value + (e.residual == nullptr ? 0.0F : e.residual[i * n + j]);
    }
  }
}

// Columns of `all` [rows, n] to the outputs, which have the shape of x but for the last extent.
Status SplitColumns(NodeCall& call, const std::vector<int64_t>& sizes, const Extents& x_shape,
                    const std::vector<float>& all, int64_t n) {
  const int64_t m = n == 0 ? 0 : static_cast<int64_t>(all.size()) / n;
  int64_t first = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    Extents shape = x_shape;
    shape.back() = sizes[i];
    TENON_ASSIGN_OR_RETURN(const TensorView out,
                           call.Output(i, ElementType::kF32, std::move(shape)));
    for (int64_t r = 0; r < m; ++r)
      std::copy_n(all.data() + r * n + first, sizes[i], out.As<float>() + r * sizes[i]);
    first += sizes[i];
  }
  return {};
}

Status Product(NodeCall& call, int64_t m, int64_t k, int64_t n, float* out) {
  if (m * n == 0)
    return {};
  call.CountFlops(2.0 * static_cast<double>(m) * static_cast<double>(k) * static_cast<double>(n));
  TENON_ASSIGN_OR_RETURN(const PackedConstant* packed, call.Packed(NodeCall::Layout::kRows));
  if (packed != nullptr)
    PackedGemm(call, call.input(0).As<float>(), m, *packed, out);
  else
    Gemm(call, call.input(0).As<float>(), m, {call.input(1).As<float>(), k, n, n, 1}, out);
  return {};
}

Status Linear(NodeCall& call) {
  TENON_RETURN_IF_ERROR(call.Need(2));
  TENON_RETURN_IF_ERROR(NeedF32(call));
  const TensorView x = call.input(0);
  const TensorView w = call.input(1);
  if (x.rank() < 1 || w.rank() != 2 || x.shape.back() != w.shape[0])
    return call.Wrong(fmt::format("shapes {} and {} don't multiply", x.shape, w.shape));
  const int64_t k = w.shape[0];
  const int64_t n = w.shape[1];
  const int64_t m = k == 0 ? 0 : x.count() / k;
  Epilogue epilogue;
  TENON_RETURN_IF_ERROR(FindActivation(call, epilogue.activation));
  Extents shape = x.shape;
  shape.back() = n;
  if (call.Has(2)) {
    if (call.input(2).count() != n)
      return call.Wrong("a bias of another size");
    epilogue.bias = call.input(2).As<float>();
  }
  if (call.Has(3)) {
    if (call.input(3).shape != shape)
      return call.NotSupported("a residual of another shape");
    epilogue.residual = call.input(3).As<float>();
  }
  if (call.output_count() == 1) {
    TENON_ASSIGN_OR_RETURN(const TensorView out, call.Output(0, ElementType::kF32, shape));
    TENON_RETURN_IF_ERROR(Product(call, m, k, n, out.As<float>()));
    RunEpilogue(epilogue, m, n, out.As<float>());
    return {};
  }
  const auto* sizes = call.node().Integers("sizes");
  if (sizes == nullptr || sizes->size() != call.output_count())
    return call.Wrong("sizes of the outputs are missing");
  int64_t left = n;
  for (const int64_t size : *sizes) {
    if (size < 0 || size > left)
      return call.Wrong(
          fmt::format("outputs of {} columns, more than the {} that are left", size, left));
    left -= size;
  }
  std::vector<float> all(static_cast<size_t>(m * n));
  TENON_RETURN_IF_ERROR(Product(call, m, k, n, all.data()));
  RunEpilogue(epilogue, m, n, all.data());
  return SplitColumns(call, *sizes, x.shape, all, n);
}

struct FusedHeads {
  int64_t batch = 0;
  int64_t heads = 0;
  int64_t rows = 0;
  int64_t width = 0;
  HeadRows data;
};

Result<FusedHeads> ReadHeads(const NodeCall& call, size_t input, std::string_view layout) {
  const TensorView& x = call.input(input);
  if (x.rank() != 4)
    return call.NotSupported(fmt::format("a tensor of rank {}", x.rank()));
  const Extents& s = x.shape;
  const bool rows_first = call.node().Integer(layout, 0) != 0;
  FusedHeads h{s[0], s[rows_first ? 2 : 1], s[rows_first ? 1 : 2], s[3], {}};
  h.data = {x.As<float>(), s[1] * s[2] * s[3], rows_first ? s[3] : s[2] * s[3],
            rows_first ? s[2] * s[3] : s[3]};
  return h;
}

Status FusedAttention(NodeCall& call) {
  TENON_RETURN_IF_ERROR(call.Need(3));
  TENON_RETURN_IF_ERROR(NeedF32(call));
  TENON_ASSIGN_OR_RETURN(const FusedHeads q, ReadHeads(call, 0, "q_rows_first"));
  TENON_ASSIGN_OR_RETURN(const FusedHeads k, ReadHeads(call, 1, "k_rows_first"));
  TENON_ASSIGN_OR_RETURN(const FusedHeads v, ReadHeads(call, 2, "v_rows_first"));
  if (q.batch != k.batch || k.batch != v.batch || k.heads != v.heads || k.rows != v.rows ||
      k.width != q.width || k.heads == 0 || q.heads % k.heads != 0)
    return call.NotSupported(fmt::format("query {}, key {} and value {}", call.input(0).shape,
                                         call.input(1).shape, call.input(2).shape));
  AttendArgs args;
  args.batch = q.batch;
  args.heads = q.heads;
  args.kv_heads = k.heads;
  args.queries = q.rows;
  args.keys = k.rows;
  args.head_dim = q.width;
  args.value_dim = v.width;
  args.q = q.data;
  args.k = k.data;
  args.v = v.data;
  args.scale = call.node().Float("scale", 1.0F);
  if (call.Has(3)) {
    const Extents whole = {args.batch, args.heads, args.queries, args.keys};
    const auto joined = BroadcastShape(call.input(3).shape, whole);
    if (!joined.ok() || *joined != whole)
      return call.Wrong(fmt::format("a mask of shape {} for {}", call.input(3).shape, whole));
    const Extents strides = BroadcastStrides(call.input(3).shape, whole);
    std::copy(strides.begin(), strides.end(), args.mask_strides);
    args.mask = call.input(3).As<float>();
  }
  const bool rows_first = call.node().Integer("out_rows_first", 0) != 0;
  TENON_ASSIGN_OR_RETURN(const TensorView out,
                         call.Output(0, ElementType::kF32,
                                     rows_first ? Extents{q.batch, q.rows, q.heads, v.width}
                                                : Extents{q.batch, q.heads, q.rows, v.width}));
  args.out = out.As<float>();
  args.out_batch_stride = q.heads * q.rows * v.width;
  args.out_head_stride = rows_first ? v.width : q.rows * v.width;
  args.out_row_stride = rows_first ? q.heads * v.width : v.width;
  const int64_t pairs = Attend(args, call.pool());
  call.CountFlops(2.0 * static_cast<double>(pairs) * static_cast<double>(q.width + v.width));
  return {};
}

Status FusedRotary(NodeCall& call) {
  TENON_RETURN_IF_ERROR(call.Need(3));
  TENON_RETURN_IF_ERROR(NeedF32(call));
  const TensorView x = call.input(0);
  const TensorView cos = call.input(1);
  const TensorView sin = call.input(2);
  for (const TensorView& table : {cos, sin}) {
    const auto joined = BroadcastShape(table.shape, x.shape);
    if (!joined.ok() || *joined != x.shape || x.rank() < 1 || x.shape.back() % 2 != 0)
      return call.Wrong(fmt::format("tables {} for {}", table.shape, x.shape));
  }
  TENON_ASSIGN_OR_RETURN(const TensorView out, call.Output(0, ElementType::kF32, x.shape));
  const int64_t width = x.shape.back();
  const int64_t half = width / 2;
  const Extents cos_steps = BroadcastStrides(cos.shape, x.shape);
  const Extents sin_steps = BroadcastStrides(sin.shape, x.shape);
  const auto rows_of = [&](const Extents& steps) {
    return Extents(steps.begin(), steps.end() - 1);
  };
  const Extents outer(x.shape.begin(), x.shape.end() - 1);
  const RowWalk walk(outer, {rows_of(cos_steps), rows_of(sin_steps), ContiguousStrides(outer)});
  walk.ForEachRow([&](const int64_t* o) {
    for (int64_t r = 0; r < walk.inner(); ++r) {
      const float* c = cos.As<float>() + o[0] + r * walk.inner_stride(0);
      const float* s = sin.As<float>() + o[1] + r * walk.inner_stride(1);
      const int64_t at = (o[2] + r * walk.inner_stride(2)) * width;
      const float* from = x.As<float>() + at;
      float* to = out.As<float>() + at;
      for (int64_t p = 0; p < half; ++p) {
        const float a = from[p];
        const float b = from[p + half];
        to[p] = a * c[p * cos_steps.back()] + -b * s[p * sin_steps.back()];
        to[p + half] = b * c[(p + half) * cos_steps.back()] + a * s[(p + half) * sin_steps.back()];
      }
    }
  });
  return {};
}

Status SwiGlu(NodeCall& call) {
  TENON_RETURN_IF_ERROR(call.Need(2));
  TENON_RETURN_IF_ERROR(NeedF32(call));
  const TensorView a = call.input(0);
  const TensorView b = call.input(1);
  if (a.shape != b.shape)
    return call.NotSupported("two tensors of different shapes");
  TENON_ASSIGN_OR_RETURN(const TensorView out, call.Output(0, ElementType::kF32, a.shape));
  for (int64_t i = 0; i < a.count(); ++i) {
    const float x = a.As<float>()[i];
    out.As<float>()[i] = x * Sigmoid(x) * b.As<float>()[i];
  }
  return {};
}

constexpr ProgramOp kOps[] = {
    {"tenon", "Linear", 1, kEveryVersion, Linear, kPlainOp},
    {"tenon", "Attention", 1, kEveryVersion, FusedAttention, kPlainOp},
    {"tenon", "Rotary", 1, kEveryVersion, FusedRotary, kInPlaceOp},
    {"tenon", "SwiGlu", 1, kEveryVersion, SwiGlu, kInPlaceOp},
};

}  // namespace

std::span<const ProgramOp> FusedOps() {
  return kOps;
}

}  // namespace tenon
