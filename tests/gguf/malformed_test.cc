#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gguf/malformed_cases.h"
#include "model/gguf/gguf_model.h"
#include "model/model_source.h"

namespace tenon {
namespace {

using ::testing::HasSubstr;
using testing::MalformedCase;

// Every file is refused, with an error that names the file.
void ExpectRefused(const std::vector<MalformedCase>& cases) {
  ASSERT_FALSE(cases.empty());
  const testing::TempFolder folder;
  for (const MalformedCase& item : cases) {
    SCOPED_TRACE(item.name);
    const auto path = folder.Write(item.name + ".gguf", item.bytes);
    const auto source = OpenModel(path);
    ASSERT_FALSE(source.ok());
    EXPECT_THAT(source.error().ToString(), HasSubstr(item.expected));
    EXPECT_THAT(source.error().ToString(), HasSubstr(path.string()));
  }
}

TEST(MalformedGguf, Containers) {
  ExpectRefused(testing::MalformedContainers());
}
TEST(MalformedGguf, Models) {
  ExpectRefused(testing::MalformedModels());
}

// Cut anywhere before the last tensor's last byte, a file is refused.
TEST(MalformedGguf, EveryTruncation) {
  const testing::Bytes whole = testing::TinyLlama().Build();
  ASSERT_TRUE(ParseGguf(whole, "whole").ok());
  for (size_t size = 0; size < whole.size(); ++size) {
    // An exact copy on the heap, so that a sanitizer sees every read past the end.
    const testing::Bytes cut(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(size));
    EXPECT_FALSE(ParseGguf(cut, "cut").ok()) << size;
  }
}

// Any byte may be wrong: parsing ends, with a model or with an error.
TEST(MalformedGguf, EveryByteInverted) {
  testing::Bytes bytes = testing::TinyLlama().Build();
  int refused = 0;
  for (std::byte& byte : bytes) {
    byte = ~byte;
    auto parsed = ParseGguf(bytes, "inverted");
    if (!parsed.ok() || !ModelFromGguf(std::span(&*parsed, 1)).ok())
      ++refused;
    byte = ~byte;
  }
  EXPECT_GT(refused, 300);
}

TEST(MalformedGguf, OtherPaths) {
  const testing::TempFolder folder;
  const auto path = folder.Write("model.gguf", testing::TinyLlama().Build());
  const auto missing = OpenModel(path.parent_path() / "none.gguf");
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
  const auto directory = OpenModel(path.parent_path());
  ASSERT_FALSE(directory.ok());
  EXPECT_THAT(directory.error().message, HasSubstr("a directory"));
}

}  // namespace
}  // namespace tenon
