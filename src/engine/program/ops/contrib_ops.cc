// Operators of ONNX Runtime (domain com.microsoft) that stand in transformer exports.
#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <numbers>

#include "engine/program/float_gemm.h"
#include "engine/program/float_input.h"
#include "engine/program/op_table.h"

namespace tenon {
namespace {

// The weights of a MatMulNBits as its attributes and inputs say.
struct Nbits {
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t bits = 4;
  int64_t block = 32;
  int64_t blocks = 0;
};

Result<Nbits> ReadNbits(const NodeCall& call) {
  Nbits w;
  w.rows = call.node().Integer("N", 0);
  w.columns = call.node().Integer("K", 0);
  w.bits = call.node().Integer("bits", 4);
  w.block = call.node().Integer("block_size", 32);
  constexpr int64_t kLargest = 1 << 30;  // products of two fit 62 bits
  if (w.rows < 1 || w.columns < 1 || w.rows > kLargest || w.columns > kLargest || w.block < 16 ||
      w.block > kLargest || (w.bits != 2 && w.bits != 4 && w.bits != 8))
    return call.Wrong(
        fmt::format("N {}, K {}, bits {}, block_size {}", w.rows, w.columns, w.bits, w.block));
  w.blocks = (w.columns + w.block - 1) / w.block;
  if (call.input(1).bytes() != w.rows * w.blocks * (w.block * w.bits / 8) ||
      call.input(2).count() != w.rows * w.blocks)
    return call.Wrong("weights or scales of another size than the attributes say");
  if (call.Has(3)) {
    const TensorView& zeros = call.input(3);
    const int64_t expected =
        zeros.type == ElementType::kU8 ? w.rows * ((w.blocks * w.bits + 7) / 8) : w.rows * w.blocks;
    if (zeros.count() != expected)
      return call.Wrong("zero points of another size than the attributes say");
  }
  return w;
}

unsigned PackedAt(const std::byte* row, int64_t bits, int64_t index) {
  const int64_t per_byte = 8 / bits;
  const auto shift = static_cast<unsigned>(index % per_byte * bits);
  return static_cast<unsigned>(row[index / per_byte]) >> shift & ((1U << bits) - 1);
}

// The matrix as the node's inputs give it. Views.
struct NbitsInputs {
  const Nbits& w;
  const FloatInput& scales;
  const FloatInput* float_zeros;  // null: packed ones, or none
};

// Row r as floats.
void DecodeRow(const NodeCall& call, const NbitsInputs& inputs, int64_t r, float* out) {
  const auto& [w, scales, float_zeros] = inputs;
  const int64_t block_bytes = w.block * w.bits / 8;
  const int64_t zero_stride = (w.blocks * w.bits + 7) / 8;
  for (int64_t b = 0; b < w.blocks; ++b) {
    auto zero = static_cast<float>(1 << (w.bits - 1));
    if (float_zeros != nullptr)
      zero = float_zeros->data()[r * w.blocks + b];
    else if (call.Has(3))
      zero = static_cast<float>(PackedAt(call.input(3).data + r * zero_stride, w.bits, b));
    const float scale = scales.data()[r * w.blocks + b];
    const std::byte* values = call.input(1).data + (r * w.blocks + b) * block_bytes;
    for (int64_t i = 0; i < std::min(w.block, w.columns - b * w.block); ++i)
      out[b * w.block + i] = scale * (static_cast<float>(PackedAt(values, w.bits, i)) - zero);
  }
}

Status MatMulNbits(NodeCall& call) {
  TENON_RETURN_IF_ERROR(call.Need(3));
  if (call.Has(4))
    return call.NotSupported("g_idx");
  TENON_ASSIGN_OR_RETURN(const Nbits w, ReadNbits(call));
  const TensorView a = call.input(0);
  if (a.rank() < 1 || a.shape.back() != w.columns)
    return call.Wrong(fmt::format("rows of {} values, {} expected",
                                  a.rank() < 1 ? 0 : a.shape.back(), w.columns));
  Extents shape = a.shape;
  shape.back() = w.rows;
  const int64_t m = a.count() / w.columns;
  const FloatInput x(a);
  const FloatInput scales(call.input(2));
  const bool float_zeros = call.Has(3) && call.input(3).type != ElementType::kU8;
  const FloatInput zeros(call.input(float_zeros ? 3 : 2));
  TENON_ASSIGN_OR_RETURN(const TensorView out, call.Output(0, a.type, std::move(shape)));
  FloatOutput result(out);
  call.CountFlops(2.0 * static_cast<double>(m) * static_cast<double>(w.rows) *
                  static_cast<double>(w.columns));
  call.pool().ParallelFor(w.rows, 16, [&](int64_t begin, int64_t end, int) {
    std::vector<float> row(static_cast<size_t>(w.columns));
    for (int64_t r = begin; r < end; ++r) {
      DecodeRow(call, {w, scales, float_zeros ? &zeros : nullptr}, r, row.data());
      for (int64_t t = 0; t < m; ++t) {
        float sum = 0.0F;
        for (int64_t k = 0; k < w.columns; ++k)
          sum += x.data()[t * w.columns + k] * row[static_cast<size_t>(k)];
        result.data()[t * w.rows + r] = sum;
      }
    }
  });
  if (call.Has(5)) {
    const FloatInput bias(call.input(5));
    if (call.input(5).count() != w.rows)
      return call.Wrong("a bias of another size");
    for (int64_t i = 0; i < out.count(); ++i)
      result.data()[i] += bias.data()[i % w.rows];
  }
  result.Finish();
  return {};
}

Status BiasGelu(NodeCall& call) {
  TENON_RETURN_IF_ERROR(call.Need(2));
  const TensorView x = call.input(0);
  const int64_t n = call.input(1).count();
  if (x.rank() < 1 || x.shape.back() != n || !IsFloat(x.type))
    return call.Wrong("a bias of the rows' width expected");
  const FloatInput values(x);
  const FloatInput bias(call.input(1));
  TENON_ASSIGN_OR_RETURN(const TensorView out, call.Output(0, x.type, x.shape));
  FloatOutput result(out);
  for (int64_t i = 0; i < x.count(); ++i) {
    const auto value = double{values.data()[i] + bias.data()[i % n]};
    result.data()[i] =
        static_cast<float>(0.5 * value * (1.0 + std::erf(value / std::numbers::sqrt2)));
  }
  result.Finish();
  return {};
}

constexpr ProgramOp kOps[] = {
    {"com.microsoft", "MatMulNBits", 1, kEveryVersion, MatMulNbits, kPlainOp},
    {"com.microsoft", "BiasGelu", 1, kEveryVersion, BiasGelu, kInPlaceOp},
};

}  // namespace

std::span<const ProgramOp> ContribOps() {
  return kOps;
}

}  // namespace tenon
