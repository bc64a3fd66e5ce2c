#include "hal/pack.h"

#include "hal/kernel_test_support.h"
#include "quant/blocks.h"
#include "quant/dequantize.h"

namespace tenon::kernel_test {
namespace {

// How far a packed value may be from the dequantized one.
enum class Accuracy {
  kExact,     // equal as floats
  kRelative,  // d * sc is rounded to f16, the minimum follows it: relative 2^-11
  kTerms,     // d * sc and dmin * m are rounded: 2^-11 of each term
};

struct PackCase {
  DType dtype;
  PackedKind kind;
  Accuracy accuracy;
  std::vector<size_t> half_fields;  // offsets of a block's f16 fields
};

std::vector<PackCase> PackCases() {
  using enum Accuracy;
  return {
      {DType::kF32, PackedKind::kF32, kExact, {}},
      {DType::kF16, PackedKind::kF16, kExact, {}},
      {DType::kBF16, PackedKind::kBF16, kExact, {}},
      {DType::kQ4_0, PackedKind::kU4S32, kExact, {offsetof(BlockQ4_0, d)}},
      {DType::kQ4_1, PackedKind::kU4S32M, kExact, {offsetof(BlockQ4_1, d), offsetof(BlockQ4_1, m)}},
      {DType::kQ5_0, PackedKind::kU5S32, kExact, {offsetof(BlockQ5_0, d)}},
      {DType::kQ5_1, PackedKind::kU5S32M, kExact, {offsetof(BlockQ5_1, d), offsetof(BlockQ5_1, m)}},
      {DType::kQ8_0, PackedKind::kU8S32, kExact, {offsetof(BlockQ8_0, d)}},
      {DType::kQ2_K,
       PackedKind::kU4S16M,
       kTerms,
       {offsetof(BlockQ2_K, d), offsetof(BlockQ2_K, dmin)}},
      {DType::kQ3_K, PackedKind::kU4S16M, kRelative, {offsetof(BlockQ3_K, d)}},
      {DType::kQ4_K,
       PackedKind::kU4S32M,
       kTerms,
       {offsetof(BlockQ4_K, d), offsetof(BlockQ4_K, dmin)}},
      {DType::kQ5_K,
       PackedKind::kU5S32M,
       kTerms,
       {offsetof(BlockQ5_K, d), offsetof(BlockQ5_K, dmin)}},
      {DType::kQ6_K, PackedKind::kU6S16, kRelative, {offsetof(BlockQ6_K, d)}},
      {DType::kIQ4_NL, PackedKind::kCodebook4S32, kExact, {offsetof(BlockIQ4_NL, d)}},
      {DType::kIQ4_XS, PackedKind::kCodebook4S32, kExact, {offsetof(BlockIQ4_XS, d)}},
      {DType::kMXFP4, PackedKind::kCodebook4S32, kExact, {}},
  };
}

// Random rows whose scales are ordinary numbers, some of them zero or subnormal.
Bytes RandomRows(const PackCase& pack, int64_t rows, int64_t k, Random* random) {
  const DTypeInfo& info = GetDTypeInfo(pack.dtype);
  Bytes bytes(static_cast<size_t>(rows * DTypeRowBytes(pack.dtype, k)));
  for (std::byte& byte : bytes)
    byte = random->Byte();
  const auto block_bytes = static_cast<size_t>(info.block_bytes);
  for (size_t at = 0; at < bytes.size(); at += block_bytes) {
    std::byte* block = bytes.data() + at;
    for (const size_t field : pack.half_fields) {
      const float sizes[] = {0.0f, 3e-6f, 0.01f, 0.01f, 1.0f};
      StoreAs(block + field, F32ToF16(random->Normal() * sizes[random->Integer(0, 4)]));
    }
    if (pack.dtype == DType::kMXFP4)
      block[0] = static_cast<std::byte>(random->Integer(0, 200));
    if (pack.dtype == DType::kF32)
      StoreAs(block, random->Normal());
    else if (pack.dtype == DType::kF16)
      StoreAs(block, F32ToF16(random->Normal()));
    else if (pack.dtype == DType::kBF16)
      StoreAs(block, F32ToBF16(random->Normal()));
  }
  return bytes;
}

struct Unpacked {
  double value;
  double terms;  // |d * q| + |m|
};

Unpacked UnpackedAt(const PackCase& pack, const Bytes& panel, int64_t r, int64_t i) {
  if (!IsQuantizedKind(pack.kind)) {
    const double value = FloatWeightAt(pack.kind, panel.data(), r, i);
    return {value, std::abs(value)};
  }
  const PanelValue w = QuantizedAt(pack.kind, panel.data(), r, i, CodebookFor(pack.dtype));
  const double product = static_cast<double>(w.d) * w.q;
  return {product + w.m, std::abs(product) + std::abs(static_cast<double>(w.m))};
}

void ExpectValue(const PackCase& pack, const Unpacked& packed, float expected) {
  const double unit = 0x1p-11 + 0x1p-23;  // f16 rounding, and float rounding of the oracle
  const double tiny = 0x1p-25;            // half the unit of a subnormal f16, per term
  switch (pack.accuracy) {
    case Accuracy::kExact:
      EXPECT_EQ(static_cast<float>(packed.value), expected);
      break;
    case Accuracy::kRelative:
      EXPECT_NEAR(packed.value, expected, std::abs(expected) * unit);
      break;
    case Accuracy::kTerms:
      EXPECT_NEAR(packed.value, expected, packed.terms * unit + tiny);
      break;
  }
}

class Pack : public testing::TestWithParam<PackCase> {
 protected:
  PanelSource Source(const Bytes& rows, int64_t row_count, int64_t k) const {
    return {.dtype = GetParam().dtype, .rows = rows.data(), .row_count = row_count, .k = k};
  }
  Floats Dequantized(const Bytes& rows, int64_t r, int64_t k) const {
    const auto bytes = static_cast<size_t>(DTypeRowBytes(GetParam().dtype, k));
    Floats values(static_cast<size_t>(k));
    DequantizeRow(GetParam().dtype, {rows.data() + static_cast<size_t>(r) * bytes, bytes}, values);
    return values;
  }
};

TEST_P(Pack, ValuesAreTheDequantizedOnes) {
  Random random(1);
  EXPECT_EQ(PackedKindFor(GetParam().dtype), GetParam().kind);
  EXPECT_EQ(CodebookFor(GetParam().dtype) != nullptr, GetParam().kind == PackedKind::kCodebook4S32);
  constexpr int64_t k = 512;
  const Bytes rows = RandomRows(GetParam(), 16, k, &random);
  Bytes panel(static_cast<size_t>(PackedPanelBytes(GetParam().kind, k)), std::byte{0xee});
  PackPanel(Source(rows, 16, k), panel);
  for (int64_t r = 0; r < 16; ++r) {
    const Floats expected = Dequantized(rows, r, k);
    for (int64_t i = 0; i < k; ++i) {
      SCOPED_TRACE(std::to_string(r) + ", " + std::to_string(i));
      ExpectValue(GetParam(), UnpackedAt(GetParam(), panel, r, i),
                  expected[static_cast<size_t>(i)]);
    }
  }
}

TEST_P(Pack, MissingRowsAreZero) {
  Random random(2);
  constexpr int64_t k = 256;
  const Bytes rows = RandomRows(GetParam(), 5, k, &random);
  Bytes panel(static_cast<size_t>(PackedPanelBytes(GetParam().kind, k)), std::byte{0xee});
  PackPanel(Source(rows, 5, k), panel);
  const Floats last = Dequantized(rows, 4, k);
  for (int64_t i = 0; i < k; ++i) {
    ExpectValue(GetParam(), UnpackedAt(GetParam(), panel, 4, i), last[static_cast<size_t>(i)]);
    for (int64_t r = 5; r < 16; ++r)
      EXPECT_EQ(UnpackedAt(GetParam(), panel, r, i).value, 0.0);
  }
}

TEST_P(Pack, FloatPanelIsExact) {
  Random random(3);
  constexpr int64_t k = 256;
  const Bytes rows = RandomRows(GetParam(), 7, k, &random);
  Bytes panel(static_cast<size_t>(PackedPanelBytes(PackedKind::kF32, k)), std::byte{0xee});
  PackPanelF32(Source(rows, 7, k), panel);
  for (int64_t r = 0; r < 16; ++r) {
    const Floats expected = r < 7 ? Dequantized(rows, r, k) : Floats(k);
    for (int64_t i = 0; i < k; ++i) {
      const auto value = LoadAs<float>(panel.data() + (i * 16 + r) * 4);
      EXPECT_TRUE(SameBits(value, expected[static_cast<size_t>(i)])) << r << ", " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(DTypes, Pack, testing::ValuesIn(PackCases()),
                         [](const testing::TestParamInfo<PackCase>& param) {
                           return std::string(DTypeName(param.param.dtype));
                         });

// Row lengths of float tensors need not be multiples of anything.
TEST(PackFloats, OddLengths) {
  for (const int64_t k : {1, 7, 129}) {
    Floats rows(static_cast<size_t>(3 * k));
    for (size_t i = 0; i < rows.size(); ++i)
      rows[i] = static_cast<float>(i);
    Bytes panel(static_cast<size_t>(PackedPanelBytes(PackedKind::kF32, k)), std::byte{0xee});
    PackPanel({.dtype = DType::kF32,
               .rows = reinterpret_cast<const std::byte*>(rows.data()),
               .row_count = 3,
               .k = k},
              panel);
    for (int64_t i = 0; i < k; ++i) {
      EXPECT_EQ(FloatWeightAt(PackedKind::kF32, panel.data(), 2, i),
                static_cast<double>(2 * k + i));
      EXPECT_EQ(FloatWeightAt(PackedKind::kF32, panel.data(), 3, i), 0.0);
    }
  }
}

}  // namespace
}  // namespace tenon::kernel_test
