#include "tensor/dtype.h"

#include <gtest/gtest.h>

#include <set>

namespace tenon {
namespace {

struct Row {
  DType dtype;
  const char* name;
  int block_elements;
  int block_bytes;
};

// The sizes that the GGUF format fixes, as its Python package lists them.
constexpr Row kRows[] = {
    {DType::kF32, "F32", 1, 4},          {DType::kF16, "F16", 1, 2},
    {DType::kBF16, "BF16", 1, 2},        {DType::kI32, "I32", 1, 4},
    {DType::kQ4_0, "Q4_0", 32, 18},      {DType::kQ4_1, "Q4_1", 32, 20},
    {DType::kQ5_0, "Q5_0", 32, 22},      {DType::kQ5_1, "Q5_1", 32, 24},
    {DType::kQ8_0, "Q8_0", 32, 34},      {DType::kQ2_K, "Q2_K", 256, 84},
    {DType::kQ3_K, "Q3_K", 256, 110},    {DType::kQ4_K, "Q4_K", 256, 144},
    {DType::kQ5_K, "Q5_K", 256, 176},    {DType::kQ6_K, "Q6_K", 256, 210},
    {DType::kIQ4_NL, "IQ4_NL", 32, 18},  {DType::kIQ4_XS, "IQ4_XS", 256, 136},
    {DType::kMXFP4, "MXFP4", 32, 17},    {DType::kActI8, "ACT_I8", 32, 92},
    {DType::kActI16, "ACT_I16", 32, 68},
};

TEST(DTypeTest, TableHasTheFormatsSizes) {
  static_assert(std::size(kRows) == kDTypeCount);
  for (const Row& row : kRows) {
    const DTypeInfo& info = GetDTypeInfo(row.dtype);
    EXPECT_EQ(info.dtype, row.dtype);
    EXPECT_EQ(info.name, row.name);
    EXPECT_EQ(info.block_elements, row.block_elements) << row.name;
    EXPECT_EQ(info.block_bytes, row.block_bytes) << row.name;
    EXPECT_EQ(IsQuantized(row.dtype), row.block_elements > 1) << row.name;
  }
}

TEST(DTypeTest, NamesAreFoundExactly) {
  for (const Row& row : kRows)
    EXPECT_EQ(FindDType(row.name), row.dtype);
  for (const char* name : {"", "q4_0", "Q4", "Q4_0 ", "IQ1_S"})
    EXPECT_FALSE(FindDType(name).has_value()) << name;
}

TEST(DTypeTest, RowBytesCountBlocks) {
  EXPECT_EQ(DTypeRowBytes(DType::kF32, 5), 20);
  EXPECT_EQ(DTypeRowBytes(DType::kF32, 0), 0);
  EXPECT_EQ(DTypeRowBytes(DType::kQ4_K, 512), 288);
  EXPECT_EQ(DTypeRowBytes(DType::kQ8_0, 576), 612);
  // Larger than 32 bits: an embedding of 256k rows of 16k values.
  EXPECT_EQ(DTypeRowBytes(DType::kF32, int64_t{1} << 32), int64_t{1} << 34);
}

TEST(DTypeDeathTest, APartialBlockIsOurOwnFault) {
  EXPECT_DEATH(DTypeRowBytes(DType::kQ4_0, 33), "broken invariant");
  EXPECT_DEATH(DTypeRowBytes(DType::kF32, -1), "broken invariant");
}

}  // namespace
}  // namespace tenon
