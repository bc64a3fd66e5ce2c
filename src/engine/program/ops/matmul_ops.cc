// MatMul, Gemm and their integer kin (ONNX operators of the same names).
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "engine/program/float_gemm.h"
#include "engine/program/number_convert.h"
#include "engine/program/op_table.h"
#include "engine/program/strides.h"

namespace tenon {
namespace {

// numpy.matmul: vectors become matrices, dimensions before the last two broadcast.
struct MatMulShape {
  int64_t m = 1;
  int64_t k = 1;
  int64_t n = 1;
  Extents batch;  // broadcast
  Extents a_strides;
  Extents b_strides;
  Extents out;
};

Result<MatMulShape> ShapeOf(const NodeCall& call, Extents a, Extents b) {
  const Extents a_shape = a;
  const Extents b_shape = b;
  const auto fail = [&] {
    return call.Wrong(fmt::format("shapes {} and {} don't multiply", a_shape, b_shape));
  };
  if (a.empty() || b.empty())
    return fail();
  const bool row = a.size() == 1;
  const bool column = b.size() == 1;
  if (row)
    a.insert(a.begin(), 1);
  if (column)
    b.push_back(1);
  MatMulShape shape;
  shape.m = a[a.size() - 2];
  shape.k = a.back();
  shape.n = b.back();
  if (b[b.size() - 2] != shape.k)
    return fail();
  a.resize(a.size() - 2);
  b.resize(b.size() - 2);
  auto batch = BroadcastShape(a, b);
  if (!batch.ok())
    return fail();
  shape.batch = std::move(*batch);
  shape.a_strides = BroadcastStrides(a, shape.batch);
  shape.b_strides = BroadcastStrides(b, shape.batch);
  shape.out = shape.batch;
  if (!row)
    shape.out.push_back(shape.m);
  if (!column)
    shape.out.push_back(shape.n);
  return shape;
}

template <class Visit>
void ForBatches(const MatMulShape& shape, Visit visit) {
  const RowWalk walk(shape.batch,
                     {shape.a_strides, shape.b_strides, ContiguousStrides(shape.batch)});
  walk.ForEachRow([&](const int64_t* o) {
    for (int64_t i = 0; i < walk.inner(); ++i)
      visit(o[0] + i * walk.inner_stride(0), o[1] + i * walk.inner_stride(1),
            o[2] + i * walk.inner_stride(2));
  });
}

void WideProduct(const MatMulShape& shape, const double* a, const double* b, double* out) {
  for (int64_t i = 0; i < shape.m; ++i) {
    for (int64_t j = 0; j < shape.n; ++j) {
      double sum = 0.0;
      for (int64_t p = 0; p < shape.k; ++p)
        sum += a[i * shape.k + p] * b[p * shape.n + j];
      out[i * shape.n + j] = sum;
    }
  }
}

std::vector<double> Wide(const TensorView& x) {
  std::vector<double> out(static_cast<size_t>(x.count()));
  LoadDoubles(x.type, x.data, x.count(), out.data());
  return out;
}

// Types other than F32, in double.
void WideMatMul(const MatMulShape& shape, const std::vector<double>& a,
                const std::vector<double>& b, const TensorView& out) {
  std::vector<double> product(static_cast<size_t>(shape.m * shape.n));
  ForBatches(shape, [&](int64_t ia, int64_t ib, int64_t io) {
    WideProduct(shape, a.data() + ia * shape.m * shape.k, b.data() + ib * shape.k * shape.n,
                product.data());
    StoreDoubles(out.type, product.data(), shape.m * shape.n,
                 out.data + io * shape.m * shape.n * ElementBytes(out.type));
  });
}

void CountProduct(const NodeCall& call, const MatMulShape& shape) {
  call.CountFlops(2.0 * static_cast<double>(ElementCount(shape.batch)) *
                  static_cast<double>(shape.m) * static_cast<double>(shape.k) *
                  static_cast<double>(shape.n));
}

Status MatMul(NodeCall& call) {
  TENON_RETURN_IF_ERROR(call.Need(2));
  const TensorView a = call.input(0);
  const TensorView b = call.input(1);
  if (a.type != b.type)
    return call.Wrong("one type expected");
  TENON_ASSIGN_OR_RETURN(const MatMulShape shape, ShapeOf(call, a.shape, b.shape));
  TENON_ASSIGN_OR_RETURN(const TensorView out, call.Output(0, a.type, shape.out));
  CountProduct(call, shape);
  if (a.type != ElementType::kF32) {
    WideMatMul(shape, Wide(a), Wide(b), out);
    return {};
  }
  if (out.count() == 0)
    return {};
  TENON_ASSIGN_OR_RETURN(const PackedConstant* packed, call.Packed(NodeCall::Layout::kRows));
  if (packed != nullptr) {
    // One matrix for all batches: their rows are one tall matrix.
    PackedGemm(call, a.As<float>(), out.count() / shape.n, *packed, out.As<float>());
    return {};
  }
  ForBatches(shape, [&](int64_t ia, int64_t ib, int64_t io) {
    Gemm(call, a.As<float>() + ia * shape.m * shape.k, shape.m,
         {b.As<float>() + ib * shape.k * shape.n, shape.k, shape.n, shape.n, 1},
         out.As<float>() + io * shape.m * shape.n);
  });
  return {};
}

enum class ZeroPoints : uint8_t { kOfRows, kOfColumns };

// Zero points of a matrix in input `index`: a scalar, or one for each row or column.
struct ZeroInput {
  size_t index;
  ZeroPoints kind;
};

// Subtracts them from `values` [.., rows, columns].
Status SubtractZero(const NodeCall& call, const ZeroInput& input, int64_t rows, int64_t columns,
                    std::vector<double>& values) {
  if (!call.Has(input.index))
    return {};
  const bool by_row = input.kind == ZeroPoints::kOfRows;
  TENON_ASSIGN_OR_RETURN(const auto zero, call.Numbers(input.index));
  const int64_t expected = by_row ? rows : columns;
  if (zero.size() != 1 && static_cast<int64_t>(zero.size()) != expected)
    return call.NotSupported(
        fmt::format("{} zero points, 1 or {} expected", zero.size(), expected));
  for (size_t i = 0; i < values.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    const int64_t index = zero.size() == 1 ? 0 : (by_row ? at / columns % rows : at % columns);
    values[i] -= zero[static_cast<size_t>(index)];
  }
  return {};
}

Status MatMulInteger(NodeCall& call) {
  TENON_RETURN_IF_ERROR(call.Need(2));
  TENON_ASSIGN_OR_RETURN(const MatMulShape shape,
                         ShapeOf(call, call.input(0).shape, call.input(1).shape));
  std::vector<double> a = Wide(call.input(0));
  std::vector<double> b = Wide(call.input(1));
  TENON_RETURN_IF_ERROR(SubtractZero(call, {2, ZeroPoints::kOfRows}, shape.m, shape.k, a));
  TENON_RETURN_IF_ERROR(SubtractZero(call, {3, ZeroPoints::kOfColumns}, shape.k, shape.n, b));
  TENON_ASSIGN_OR_RETURN(const TensorView out, call.Output(0, ElementType::kI32, shape.out));
  CountProduct(call, shape);
  // Sums of products of 8-bit numbers are exact in double.
  WideMatMul(shape, a, b, out);
  return {};
}

struct GemmShape {
  int64_t m;
  int64_t k;
  int64_t n;
  bool trans_a;
  bool trans_b;
};

Result<GemmShape> GemmShapeOf(const NodeCall& call) {
  const Extents& a = call.input(0).shape;
  const Extents& b = call.input(1).shape;
  if (a.size() != 2 || b.size() != 2)
    return call.Wrong("two matrices expected");
  GemmShape shape{};
  shape.trans_a = call.node().Integer("transA", 0) != 0;
  shape.trans_b = call.node().Integer("transB", 0) != 0;
  shape.m = a[shape.trans_a ? 1 : 0];
  shape.k = a[shape.trans_a ? 0 : 1];
  shape.n = b[shape.trans_b ? 0 : 1];
  if (b[shape.trans_b ? 1 : 0] != shape.k)
    return call.Wrong(fmt::format("shapes {} and {} don't multiply", a, b));
  return shape;
}

std::vector<double> Transposed(const std::vector<double>& x, int64_t rows, int64_t columns) {
  std::vector<double> out(x.size());
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c)
      out[static_cast<size_t>(c * rows + r)] = x[static_cast<size_t>(r * columns + c)];
  }
  return out;
}

// The plain product, in float or double.
Status GemmProduct(NodeCall& call, const GemmShape& shape, std::vector<double>& product) {
  const TensorView& a = call.input(0);
  const TensorView& b = call.input(1);
  product.resize(static_cast<size_t>(shape.m * shape.n));
  if (a.type == ElementType::kF32 && b.type == ElementType::kF32 && !shape.trans_a &&
      !product.empty()) {
    std::vector<float> out(product.size());
    TENON_ASSIGN_OR_RETURN(
        const PackedConstant* packed,
        call.Packed(shape.trans_b ? NodeCall::Layout::kTransposed : NodeCall::Layout::kRows));
    FloatMatrix matrix{b.As<float>(), shape.k, shape.n, shape.n, 1};
    if (shape.trans_b) {
      matrix.row_step = 1;
      matrix.column_step = shape.k;
    }
    if (packed != nullptr)
      PackedGemm(call, a.As<float>(), shape.m, *packed, out.data());
    else
      Gemm(call, a.As<float>(), shape.m, matrix, out.data());
    std::copy(out.begin(), out.end(), product.begin());
    return {};
  }
  std::vector<double> wa = Wide(a);
  std::vector<double> wb = Wide(b);
  if (shape.trans_a)
    wa = Transposed(wa, shape.k, shape.m);
  if (shape.trans_b)
    wb = Transposed(wb, shape.n, shape.k);
  MatMulShape plain;
  plain.m = shape.m;
  plain.k = shape.k;
  plain.n = shape.n;
  WideProduct(plain, wa.data(), wb.data(), product.data());
  return {};
}

Status GemmKernel(NodeCall& call) {
  TENON_RETURN_IF_ERROR(call.Need(2));
  TENON_ASSIGN_OR_RETURN(const GemmShape shape, GemmShapeOf(call));
  std::vector<double> product;
  TENON_RETURN_IF_ERROR(GemmProduct(call, shape, product));
  const auto alpha = double{call.node().Float("alpha", 1.0F)};
  const auto beta = double{call.node().Float("beta", 1.0F)};
  const ElementType type = call.input(0).type;
  std::vector<double> c;
  Extents strides = {0, 0};
  if (call.Has(2)) {
    const TensorView& view = call.input(2);
    const auto joined = BroadcastShape(view.shape, {shape.m, shape.n});
    if (!joined.ok() || *joined != Extents{shape.m, shape.n})
      return call.Wrong(fmt::format("a bias of shape {}", view.shape));
    c = Wide(view);
    strides = BroadcastStrides(view.shape, {shape.m, shape.n});
  }
  TENON_ASSIGN_OR_RETURN(const TensorView out, call.Output(0, type, {shape.m, shape.n}));
  call.CountFlops(2.0 * static_cast<double>(shape.m) * static_cast<double>(shape.k) *
                  static_cast<double>(shape.n));
  for (int64_t i = 0; i < shape.m; ++i) {
    for (int64_t j = 0; j < shape.n; ++j) {
      double& value = product[static_cast<size_t>(i * shape.n + j)];
      value *= alpha;
      if (!c.empty())
        value += beta * c[static_cast<size_t>(i * strides[0] + j * strides[1])];
    }
  }
  StoreDoubles(type, product.data(), shape.m * shape.n, out.data);
  return {};
}

constexpr ProgramOp kOps[] = {
    {"", "MatMul", 1, kEveryVersion, MatMul, kPlainOp},
    {"", "Gemm", 7, kEveryVersion, GemmKernel, kPlainOp},
    {"", "MatMulInteger", 10, kEveryVersion, MatMulInteger, kPlainOp},
};

}  // namespace

std::span<const ProgramOp> MatMulOps() {
  return kOps;
}

}  // namespace tenon
