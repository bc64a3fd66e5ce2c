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
  kBlock,     // rounded to a multiple of d, which is at most 2^-12 of the block's largest value
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
      {DType::kF16, PackedKind::kI14S32, kBlock, {}},
      {DType::kBF16, PackedKind::kF12S32, kBlock, {}},
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
  double d = 0;
};

Unpacked UnpackedAt(const PackCase& pack, const Bytes& panel, int64_t r, int64_t i) {
  if (!IsQuantizedKind(pack.kind)) {
    const double value = FloatWeightAt(pack.kind, panel.data(), r, i);
    return {value, std::abs(value)};
  }
  const PanelValue w = QuantizedAt(pack.kind, panel.data(), r, i, CodebookFor(pack.dtype));
  const double product = static_cast<double>(w.d) * w.q;
  return {product + w.m, std::abs(product) + std::abs(static_cast<double>(w.m)), w.d};
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
    case Accuracy::kBlock:
      EXPECT_NEAR(packed.value, expected, packed.d / 2);
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
  EXPECT_EQ(PackedKindFor(GetParam().dtype, 32), GetParam().kind);
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

class PackHalfs : public testing::TestWithParam<DType> {
 protected:
  uint16_t Bits(float value) const {
    return GetParam() == DType::kF16 ? F32ToF16(value) : F32ToBF16(value);
  }
  // The packed values of one row of 32.
  std::vector<PanelValue> PackRow(const std::vector<uint16_t>& row) const {
    const PackedKind kind = PackedKindFor(GetParam(), 32);
    Bytes panel(static_cast<size_t>(PackedPanelBytes(kind, 32)), std::byte{0xee});
    PackPanel({.dtype = GetParam(),
               .rows = reinterpret_cast<const std::byte*>(row.data()),
               .row_count = 1,
               .k = 32},
              panel);
    std::vector<PanelValue> values;
    for (int64_t i = 0; i < 32; ++i)
      values.push_back(LevelAt(kind, panel.data(), 0, i));
    return values;
  }
};

// The largest value takes all levels, and what is not far below it is exact.
TEST_P(PackHalfs, KeepsAllBitsOfLargeValues) {
  Random random(4);
  const int64_t far = GetParam() == DType::kF16 ? 2 : 5;  // exponents below the largest
  for (int power = -12; power < 14; ++power) {
    std::vector<uint16_t> row(32);
    for (uint16_t& bits : row) {
      const float sign = random.Integer(0, 1) == 0 ? 1.0f : -1.0f;
      const auto exponent = power - static_cast<int>(random.Integer(0, far));
      bits = Bits(sign * std::ldexp(random.Uniform(1.0f, 1.99f), exponent));
    }
    row[17] = Bits(std::ldexp(1.99f, power));
    const std::vector<PanelValue> values = PackRow(row);
    for (size_t i = 0; i < 32; ++i) {
      const float expected = GetParam() == DType::kF16 ? F16ToF32(row[i]) : BF16ToF32(row[i]);
      EXPECT_EQ(static_cast<float>(values[i].q) * values[i].d, expected) << power << ", " << i;
    }
    EXPECT_GT(values[17].q, kMostWideLevel - 100);
  }
}

TEST_P(PackHalfs, ReachesBothEndsOfTheRange) {
  const uint16_t largest = GetParam() == DType::kF16 ? 0x7bff : 0x7f7f;
  for (const uint16_t bits : {largest, uint16_t{1}, uint16_t{0}}) {
    std::vector<uint16_t> row(32);
    row[3] = static_cast<uint16_t>(bits | 0x8000);
    const PanelValue value = PackRow(row)[3];
    const float expected = GetParam() == DType::kF16 ? F16ToF32(row[3]) : BF16ToF32(row[3]);
    EXPECT_LE(std::abs(value.q), kMostWideLevel);
    EXPECT_NEAR(static_cast<float>(value.q) * value.d, expected, 0x1p-127) << bits;
  }
}

// The products of such a row are not numbers either.
TEST_P(PackHalfs, WhatIsNotFiniteStaysSo) {
  for (const float value :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
        -std::numeric_limits<float>::infinity()}) {
    std::vector<uint16_t> row(32, Bits(1.0f));
    row[9] = Bits(value);
    for (const PanelValue& packed : PackRow(row)) {
      EXPECT_EQ(packed.q, 0);
      EXPECT_TRUE(std::isinf(packed.d));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(DTypes, PackHalfs, testing::Values(DType::kF16, DType::kBF16),
                         [](const testing::TestParamInfo<DType>& param) {
                           return std::string(DTypeName(param.param));
                         });

PanelSource RowOf(DType dtype, const std::vector<uint16_t>& row) {
  return {.dtype = dtype,
          .rows = reinterpret_cast<const std::byte*>(row.data()),
          .row_count = 1,
          .k = std::ssize(row)};
}

Bytes EmptyPanel(PackedKind kind, int64_t k) {
  return Bytes(static_cast<size_t>(PackedPanelBytes(kind, k)), std::byte{0xee});
}

// F16 weights that were BF16 once: both forms hold the same numbers, down to subnormal ones.
TEST(PackF12, HasTheLevelsOfI14) {
  Random random(6);
  for (int power = -24; power < 15; ++power) {
    std::vector<uint16_t> row(96);
    for (uint16_t& bits : row) {
      const float value =
          std::ldexp(random.Normal(), power - static_cast<int>(random.Integer(0, 14)));
      bits = F32ToF16(BF16ToF32(F32ToBF16(value)));
    }
    Bytes wide = EmptyPanel(PackedKind::kI14S32, 96);
    Bytes narrow = EmptyPanel(PackedKind::kF12S32, 96);
    PackPanel(RowOf(DType::kF16, row), wide);
    EXPECT_TRUE(PackPanelF12(RowOf(DType::kF16, row), narrow)) << power;
    for (int64_t i = 0; i < 96; ++i) {
      const PanelValue expected = WideAt(wide.data(), 0, i);
      const PanelValue found = F12At(narrow.data(), 0, i);
      EXPECT_EQ(found.q, expected.q) << power << ", " << i;
      EXPECT_EQ(found.d, expected.d) << power << ", " << i;
    }
  }
}

// Every BF16 there is, beside ones of other sizes.
TEST(PackF12, TakesEveryBF16) {
  for (int largest = 0; largest < 0x7f80; largest += 0x55) {
    std::vector<uint16_t> row;
    for (int below = 0; below < 32; ++below) {
      const int bits = std::max(largest - below * 37, 0);
      row.push_back(static_cast<uint16_t>(bits | below % 2 << 15));
    }
    Bytes panel = EmptyPanel(PackedKind::kF12S32, 32);
    EXPECT_TRUE(PackPanelF12(RowOf(DType::kBF16, row), panel)) << largest;
    for (int64_t i = 0; i < 32; ++i) {
      const PanelValue value = F12At(panel.data(), 0, i);
      const float expected = BF16ToF32(row[static_cast<size_t>(i)]);
      EXPECT_NEAR(static_cast<float>(value.q) * value.d, expected, value.d / 2) << largest;
    }
  }
}

TEST(PackF12, RefusesMoreBits) {
  std::vector<uint16_t> row(64, F32ToF16(1.0f));
  Bytes panel = EmptyPanel(PackedKind::kF12S32, 64);
  EXPECT_TRUE(PackPanelF12(RowOf(DType::kF16, row), panel));
  row[45] = F32ToF16(1.0f + 0x1p-8f);
  EXPECT_FALSE(PackPanelF12(RowOf(DType::kF16, row), panel));
  row[45] = F32ToF16((1.0f + 0x1p-8f) / 64);  // its last bit is below the levels
  EXPECT_TRUE(PackPanelF12(RowOf(DType::kF16, row), panel));
}

// Rows of no whole blocks stay in their own type.
TEST(PackFloats, HalfsOutsideOfBlocks) {
  EXPECT_EQ(PackedKindFor(DType::kF16, 40), PackedKind::kF16);
  EXPECT_EQ(PackedKindFor(DType::kBF16, 7), PackedKind::kBF16);
  std::vector<uint16_t> row(40);
  for (size_t i = 0; i < row.size(); ++i)
    row[i] = F32ToF16(static_cast<float>(i) + 0.001f);
  Bytes panel(static_cast<size_t>(PackedPanelBytes(PackedKind::kF16, 40)), std::byte{0xee});
  PackPanel({.dtype = DType::kF16,
             .rows = reinterpret_cast<const std::byte*>(row.data()),
             .row_count = 1,
             .k = 40},
            panel);
  for (int64_t i = 0; i < 40; ++i)
    EXPECT_EQ(FloatWeightAt(PackedKind::kF16, panel.data(), 0, i),
              F16ToF32(row[static_cast<size_t>(i)]));
}

}  // namespace
}  // namespace tenon::kernel_test
