#include "tensor/buffer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

namespace tenon {
namespace {

TEST(BufferTest, IsZeroedAlignedAndWritable) {
  for (const size_t size : {size_t{1}, size_t{63}, size_t{4096}, size_t{1000001}}) {
    Result<Buffer> buffer = Buffer::Allocate(size);
    ASSERT_TRUE(buffer.ok());
    EXPECT_EQ(buffer->size(), size);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer->data()) % Buffer::kAlignment, 0u);
    EXPECT_TRUE(std::all_of(buffer->bytes().begin(), buffer->bytes().end(),
                            [](std::byte byte) { return byte == std::byte{0}; }));
    buffer->bytes().back() = std::byte{7};
    EXPECT_EQ(buffer->data()[size - 1], std::byte{7});
  }
}

TEST(BufferTest, EmptyBuffersHaveNoBytes) {
  EXPECT_TRUE(Buffer().bytes().empty());
  Result<Buffer> buffer = Buffer::Allocate(0);
  ASSERT_TRUE(buffer.ok());
  EXPECT_TRUE(buffer->bytes().empty());
}

TEST(BufferTest, MovesItsBytes) {
  Buffer first = std::move(Buffer::Allocate(8)).value();
  first.As<uint32_t>()[1] = 42;
  const std::byte* const data = first.data();
  Buffer second = std::move(first);
  EXPECT_EQ(second.data(), data);
  EXPECT_EQ(first.data(), nullptr);
  EXPECT_EQ(first.size(), 0u);
  Buffer third = std::move(Buffer::Allocate(16)).value();
  third = std::move(second);
  EXPECT_EQ(third.data(), data);
  EXPECT_EQ(third.size(), 8u);
  EXPECT_EQ(*third.As<uint32_t>(4), 42u);
}

TEST(BufferTest, TooMuchIsAnErrorWithTheNumber) {
  const size_t size = std::numeric_limits<size_t>::max() / 2;
  const Result<Buffer> buffer = Buffer::Allocate(size);
  ASSERT_FALSE(buffer.ok());
  EXPECT_EQ(buffer.error().code, ErrorCode::kResourceExhausted);
  EXPECT_NE(buffer.error().message.find("9223372036854775807"), std::string::npos);
}

}  // namespace
}  // namespace tenon
