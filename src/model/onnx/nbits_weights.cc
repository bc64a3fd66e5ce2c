#include "model/onnx/nbits_weights.h"

#include <fmt/format.h>

#include <cstring>

#include "quant/blocks.h"
#include "quant/half.h"

namespace tenon {
namespace {

constexpr int64_t kBlockValues = 32;  // of the formats converted to

float FloatAt(ElementType type, std::span<const std::byte> bytes, int64_t index) {
  if (type == ElementType::kF16) {
    uint16_t bits = 0;
    std::memcpy(&bits, bytes.data() + index * 2, sizeof(bits));
    return F16ToF32(bits);
  }
  float value = 0.0F;
  std::memcpy(&value, bytes.data() + index * 4, sizeof(value));
  return value;
}

// Value `index` of a row of packed ones.
int PackedAt(const std::byte* row, int64_t bits, int64_t index) {
  const int64_t per_byte = 8 / bits;
  const auto byte = static_cast<unsigned>(row[index / per_byte]);
  const auto shift = static_cast<unsigned>(index % per_byte * bits);
  return static_cast<int>(byte >> shift & ((1U << bits) - 1));
}

// One row's blocks.
class RowReader {
 public:
  RowReader(const NbitsMatrix& matrix, int64_t row) : m_(matrix), row_(row) {}

  float Scale(int64_t block) const {
    return FloatAt(m_.scale_type, m_.scales, row_ * m_.blocks() + block);
  }
  float Zero(int64_t block) const {
    if (m_.zeros.empty())
      return static_cast<float>(1 << (m_.bits - 1));
    if (m_.zero_type != ElementType::kU8)
      return FloatAt(m_.zero_type, m_.zeros, row_ * m_.blocks() + block);
    const int64_t stride = (m_.blocks() * m_.bits + 7) / 8;
    return static_cast<float>(PackedAt(m_.zeros.data() + row_ * stride, m_.bits, block));
  }
  int Quant(int64_t column) const {
    const int64_t bytes = m_.block * m_.bits / 8;
    const int64_t block = column / m_.block;
    const std::byte* values = m_.values.data() + (row_ * m_.blocks() + block) * bytes;
    return PackedAt(values, m_.bits, column % m_.block);
  }

 private:
  const NbitsMatrix& m_;
  int64_t row_;
};

// The nibbles of a 32-value block, value j low and value j + 16 high in byte j.
void PackNibbles(const RowReader& row, int64_t begin, uint8_t (&qs)[16]) {
  for (int64_t j = 0; j < 16; ++j)
    qs[j] = static_cast<uint8_t>(row.Quant(begin + j) | row.Quant(begin + 16 + j) << 4);
}

void Encode(const RowReader& row, int64_t begin, int64_t group, BlockQ4_0& block) {
  block.d = F32ToF16(row.Scale(group));
  PackNibbles(row, begin, block.qs);
}

void Encode(const RowReader& row, int64_t begin, int64_t group, BlockQ4_1& block) {
  block.d = F32ToF16(row.Scale(group));
  block.m = F32ToF16(-row.Scale(group) * row.Zero(group));
  PackNibbles(row, begin, block.qs);
}

template <class Block>
void EncodeRows(const NbitsMatrix& matrix, std::byte* out) {
  for (int64_t r = 0; r < matrix.rows; ++r) {
    const RowReader row(matrix, r);
    for (int64_t begin = 0; begin < matrix.columns; begin += kBlockValues) {
      Block block;
      Encode(row, begin, begin / matrix.block, block);
      std::memcpy(out, &block, sizeof(block));
      out += sizeof(block);
    }
  }
}

void DecodeRows(const NbitsMatrix& matrix, float* out) {
  for (int64_t r = 0; r < matrix.rows; ++r) {
    const RowReader row(matrix, r);
    for (int64_t k = 0; k < matrix.columns; ++k) {
      const int64_t group = k / matrix.block;
      *out++ = row.Scale(group) * (static_cast<float>(row.Quant(k)) - row.Zero(group));
    }
  }
}

Status CheckSize(std::string_view what, std::span<const std::byte> bytes, int64_t expected) {
  if (static_cast<int64_t>(bytes.size()) == expected)
    return {};
  return Corrupt(fmt::format("{} bytes of {}, {} expected", bytes.size(), what, expected));
}

}  // namespace

Status CheckNbits(const NbitsMatrix& m) {
  // Sizes below 2^30 make the products below fit 62 bits.
  constexpr int64_t kLargest = 1 << 30;
  if (m.rows < 1 || m.columns < 1 || m.rows > kLargest || m.columns > kLargest)
    return Corrupt(fmt::format("{} rows of {} values", m.rows, m.columns));
  if (m.bits != 2 && m.bits != 4 && m.bits != 8)
    return Unsupported(fmt::format("{} bits; 2, 4 and 8 are supported", m.bits));
  if (m.block < 16 || m.block > kLargest || (m.block & (m.block - 1)) != 0)
    return Corrupt(fmt::format("blocks of {} values, a power of two from 16 on expected", m.block));
  if (m.scale_type != ElementType::kF32 && m.scale_type != ElementType::kF16)
    return Unsupported(fmt::format("scales of type {}", ElementTypeName(m.scale_type)));
  const int64_t groups = m.rows * m.blocks();
  TENON_RETURN_IF_ERROR(CheckSize("values", m.values, groups * (m.block * m.bits / 8)));
  TENON_RETURN_IF_ERROR(CheckSize("scales", m.scales, groups * ElementBytes(m.scale_type)));
  if (m.zeros.empty())
    return {};
  if (m.zero_type != ElementType::kU8 && m.zero_type != m.scale_type)
    return Unsupported(fmt::format("zero points of type {}", ElementTypeName(m.zero_type)));
  const int64_t zero_bytes = m.zero_type == ElementType::kU8
                                 ? m.rows * ((m.blocks() * m.bits + 7) / 8)
                                 : groups * ElementBytes(m.zero_type);
  return CheckSize("zero points", m.zeros, zero_bytes);
}

DType NbitsDType(const NbitsMatrix& matrix) {
  if (matrix.bits != 4 || matrix.block % kBlockValues != 0 || matrix.columns % kBlockValues != 0)
    return DType::kF32;
  return matrix.zeros.empty() ? DType::kQ4_0 : DType::kQ4_1;
}

Result<Buffer> ConvertNbits(const NbitsMatrix& matrix, DType dtype) {
  const int64_t row_bytes = DTypeRowBytes(dtype, matrix.columns);
  TENON_ASSIGN_OR_RETURN(Buffer buffer,
                         Buffer::Allocate(static_cast<size_t>(matrix.rows * row_bytes)));
  switch (dtype) {
    case DType::kQ4_0:
      EncodeRows<BlockQ4_0>(matrix, buffer.data());
      break;
    case DType::kQ4_1:
      EncodeRows<BlockQ4_1>(matrix, buffer.data());
      break;
    default:
      DecodeRows(matrix, buffer.As<float>());
  }
  return buffer;
}

}  // namespace tenon
