// The reader against the `gguf` package's: scripts/make_gguf_golden.py wrote a file with its writer
// and a listing with its reader.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <string>
#include <vector>

#include "base/mapped_file.h"
#include "model/gguf/gguf_reader.h"

namespace tenon {
namespace {

// The package's names of element types.
std::string PackageTypeName(GgufType type) {
  return type == GgufType::kString ? "STRING" : type == GgufType::kInt32 ? "INT32" : "?";
}

std::string Describe(const GgufValue& value) {
  if (value.type == GgufType::kArray)
    return fmt::format("{} {}", value.count, PackageTypeName(value.element));
  if (value.type == GgufType::kString) {
    std::string hex;
    for (const std::byte byte : value.bytes)
      hex += fmt::format("{:02x}", std::to_integer<int>(byte));
    return hex;
  }
  if (value.type == GgufType::kBool)
    return fmt::format("{}", std::to_integer<int>(value.bytes[0]));
  if (const std::optional<int64_t> number = AsInteger(value))
    return fmt::format("{}", *number);
  return fmt::format("{}", *AsFloat(value));
}

std::vector<std::string> List(const GgufFile& file) {
  std::vector<std::string> lines;
  for (const GgufEntry& entry : file.metadata.entries())
    lines.push_back(fmt::format("key {} {}", entry.key, Describe(entry.value)));
  for (const TensorInfo& tensor : file.tensors) {
    lines.push_back(fmt::format("tensor {} {} {} {} {}", tensor.name, DTypeName(tensor.dtype),
                                tensor.offset, tensor.bytes, fmt::join(tensor.shape, " ")));
  }
  return lines;
}

TEST(GgufGolden, ListingEqualsThePackages) {
  const auto file = MappedFile::Open("tests/data/sample.gguf");
  ASSERT_TRUE(file.ok()) << file.error().ToString();
  const auto parsed = ParseGguf(file->bytes(), "sample.gguf");
  ASSERT_TRUE(parsed.ok()) << parsed.error().ToString();
  std::ifstream listing("tests/data/sample_gguf.txt");
  std::vector<std::string> expected;
  for (std::string line; std::getline(listing, line);)
    expected.push_back(line);
  EXPECT_EQ(List(*parsed), expected);
}

}  // namespace
}  // namespace tenon
