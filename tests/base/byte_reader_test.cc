#include "base/byte_reader.h"

#include <gtest/gtest.h>

#include <array>
#include <limits>

namespace tenon {
namespace {

ByteReader ReaderOf(std::span<const unsigned char> bytes) {
  return ByteReader(std::as_bytes(bytes), "f.bin");
}

TEST(ByteReaderTest, ReadsLittleEndianNumbers) {
  const std::array<unsigned char, 19> bytes = {
      0x01, 0x34, 0x12, 0xFE, 0xFF, 0xFF, 0xFF, 1, 2, 3, 4, 5, 6, 7, 0x80, 0, 0, 0x80, 0x3F};
  ByteReader reader = ReaderOf(bytes);
  EXPECT_EQ(*reader.Read<uint8_t>("a"), 1);
  EXPECT_EQ(*reader.Read<uint16_t>("b"), 0x1234);
  EXPECT_EQ(*reader.Read<int32_t>("c"), -2);
  EXPECT_EQ(*reader.Read<uint64_t>("d"), 0x8007060504030201u);
  EXPECT_EQ(*reader.Read<float>("e"), 1.0f);
  EXPECT_EQ(reader.remaining(), 0u);
}

TEST(ByteReaderTest, ATruncatedReadSaysWhereAndTakesNothing) {
  const std::array<unsigned char, 5> bytes = {1, 2, 3, 4, 5};
  ByteReader reader = ReaderOf(bytes);
  ASSERT_TRUE(reader.Read<uint16_t>("x").ok());
  const Result<uint32_t> result = reader.Read<uint32_t>("tensor count");
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(result.error().where, "f.bin: offset 2");
  EXPECT_EQ(result.error().message, "truncated tensor count: 4 bytes needed, 3 left in the file");
  EXPECT_EQ(reader.offset(), 2u);
  EXPECT_EQ(*reader.Read<uint8_t>("y"), 3);
}

TEST(ByteReaderTest, ACountThatOverflowsIsTruncation) {
  const std::array<unsigned char, 4> bytes = {1, 2, 3, 4};
  ByteReader reader = ReaderOf(bytes);
  ASSERT_TRUE(reader.Read<uint8_t>("x").ok());
  EXPECT_FALSE(reader.ReadBytes(std::numeric_limits<uint64_t>::max(), "name").ok());
  EXPECT_FALSE(reader.ReadBytes(4, "name").ok());
  const auto rest = reader.ReadBytes(3, "name");
  ASSERT_TRUE(rest.ok());
  EXPECT_EQ(rest->data(), std::as_bytes(std::span(bytes)).data() + 1);
  EXPECT_TRUE(reader.ReadBytes(0, "nothing").ok());
}

TEST(ByteReaderTest, EmptyInput) {
  ByteReader reader({}, "e");
  EXPECT_FALSE(reader.Read<uint8_t>("x").ok());
  EXPECT_EQ(reader.WhereAt(12), "e: offset 12");
}

}  // namespace
}  // namespace tenon
