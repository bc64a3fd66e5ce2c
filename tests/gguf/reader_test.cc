#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "gguf/gguf_writer.h"
#include "model/gguf/ggml_type.h"
#include "model/gguf/gguf_reader.h"

namespace tenon {
namespace {

using testing::Bytes;
using testing::GgufWriter;
using ::testing::HasSubstr;
using testing::TinyLlama;

GgufFile Parse(const Bytes& bytes) {
  auto parsed = ParseGguf(bytes, "test.gguf");
  if (!parsed.ok()) {
    ADD_FAILURE() << parsed.error().ToString();
    return GgufFile{0, GgufMetadata("none"), {}};
  }
  return std::move(parsed).value();
}

TEST(GgufReader, ScalarsOfEveryType) {
  GgufWriter writer;
  writer.Set("u8", uint8_t{255}).Set("u16", uint16_t{65535}).Set("u32", 4294967295U);
  writer.Set("i32", int32_t{-7}).Set("i64", int64_t{-1} << 40).Set("u64", uint64_t{1} << 40);
  writer.Set("f32", 0.5F).Set("f64", -0.25).Set("bool", true).Set("text", "Caf\xC3\xA9");
  Bytes minus_two;
  testing::Put<int8_t>(minus_two, -2);
  writer.SetRaw("i8", 1, minus_two);
  const Bytes bytes = writer.Build();
  const GgufFile file = Parse(bytes);
  EXPECT_EQ(*file.metadata.Integer("u8"), 255);
  EXPECT_EQ(*file.metadata.Integer("i8"), -2);
  EXPECT_EQ(*file.metadata.Integer("u16"), 65535);
  EXPECT_EQ(*file.metadata.Integer("u32"), 4294967295);
  EXPECT_EQ(*file.metadata.Integer("i32"), -7);
  EXPECT_EQ(*file.metadata.Integer("i64"), -(int64_t{1} << 40));
  EXPECT_EQ(*file.metadata.Integer("u64"), int64_t{1} << 40);
  EXPECT_EQ(*file.metadata.Float("f32"), 0.5);
  EXPECT_EQ(*file.metadata.Float("f64"), -0.25);
  EXPECT_EQ(*file.metadata.Bool("bool"), true);
  EXPECT_EQ(*file.metadata.String("text"), "Caf\xC3\xA9");
  EXPECT_EQ(*file.metadata.Integer("none"), std::nullopt);
}

TEST(GgufReader, TypedLookUpsNameKeyAndTypes) {
  const float infinity = std::numeric_limits<float>::infinity();
  const Bytes bytes = GgufWriter().Set("n", 1U).Set("x", infinity).Set("u", ~uint64_t{0}).Build();
  const GgufFile file = Parse(bytes);
  EXPECT_EQ(file.metadata.String("n").error().ToString(),
            "test.gguf: n: u32 found, string expected");
  EXPECT_THAT(file.metadata.Bool("n").error().message, HasSubstr("bool expected"));
  EXPECT_THAT(file.metadata.Float("n").error().message, HasSubstr("f32 or f64 expected"));
  EXPECT_THAT(file.metadata.Float("x").error().message, HasSubstr("finite"));
  EXPECT_THAT(file.metadata.Integer("u").error().message, HasSubstr("below 2^63"));
}

TEST(GgufReader, Arrays) {
  GgufWriter writer;
  writer.SetStrings("words", {"one", "", "three"}).SetArray<uint16_t>("numbers", {1, 2, 65535});
  // [[1], [2, 3]]
  Bytes nested;
  testing::Put<uint32_t>(nested, testing::kWireArray);
  testing::Put<uint64_t>(nested, 2);
  for (const std::vector<uint8_t>& inner : {std::vector<uint8_t>{1}, {2, 3}}) {
    testing::Put<uint32_t>(nested, testing::kWireU8);
    testing::Put<uint64_t>(nested, inner.size());
    for (const uint8_t value : inner)
      testing::Put(nested, value);
  }
  writer.SetRaw("nested", testing::kWireArray, nested).Set("after", 9U);
  const Bytes bytes = writer.Build();
  const GgufFile file = Parse(bytes);
  EXPECT_THAT(ArrayStrings(*file.metadata.Find("words")),
              ::testing::ElementsAre("one", "", "three"));
  EXPECT_EQ(AsInteger(ArrayElement(*file.metadata.Find("numbers"), 2)), 65535);
  EXPECT_EQ(file.metadata.Find("nested")->count, 2U);
  EXPECT_EQ(file.metadata.Find("nested")->bytes.size(), 2 * 12U + 3);
  EXPECT_EQ(*file.metadata.Integer("after"), 9);
}

TEST(GgufReader, TensorDirectory) {
  GgufWriter writer;
  writer.alignment = 64;
  writer.Set("general.alignment", 64U);
  writer.Add({"a", {3}, 0, 12}).Add({"b", {256, 2, 5}, 14, 2100}).Add({"c", {}, 0, 4});
  const Bytes bytes = writer.Build();
  const GgufFile file = Parse(bytes);
  ASSERT_EQ(file.tensors.size(), 3U);
  const TensorInfo& a = file.tensors[0];
  const TensorInfo& b = file.tensors[1];
  EXPECT_EQ(a.name, "a");
  EXPECT_EQ(a.offset % 64, 0U);
  EXPECT_EQ(a.bytes, 12U);
  EXPECT_EQ(b.dtype, DType::kQ6_K);
  EXPECT_EQ(b.shape, (std::vector<int64_t>{5, 2, 256}));
  EXPECT_EQ(b.rows(), 10);
  EXPECT_EQ(b.bytes, 10U * 210);
  EXPECT_EQ(b.offset, a.offset + 64);
  // The writer fills tensor t with bytes i + t.
  EXPECT_EQ(bytes[b.offset], std::byte{1});
  EXPECT_EQ(bytes[b.offset + 2], std::byte{3});
  EXPECT_EQ(file.tensors[2].bytes, 4U);
}

TEST(GgufReader, Version2HasTheSameLayout) {
  GgufWriter writer = TinyLlama();
  writer.version = 2;
  const Bytes bytes = writer.Build();
  EXPECT_EQ(Parse(bytes).version, 2U);
  EXPECT_EQ(Parse(bytes).tensors.size(), 3U);
}

TEST(GgufReader, BytesAfterTheDataAreAllowed) {
  Bytes bytes = TinyLlama().Build();
  bytes.resize(bytes.size() + 1000, std::byte{7});
  EXPECT_EQ(Parse(bytes).tensors.size(), 3U);
}

struct Printed {
  std::string key;
  std::string text;
};

TEST(GgufReader, PrintsValues) {
  GgufWriter writer;
  writer.Set("text", "two\nlines\x1b[2J").Set("yes", true).Set("f32", 1e-6F).Set("f64", 0.1);
  writer.Set("big", ~uint64_t{0}).SetArray<uint8_t>("empty", {}).SetArray<float>("f", {0.5, 2});
  writer.SetStrings("tags", {"a", "b\t"}).SetArray<int32_t>("many", std::vector<int32_t>(17, 1));
  writer.SetStrings("long", {std::string(300, 'x')});
  writer.Set("cut", (std::string(255, 'x') + "\xC3\xA9" + "yyy").c_str());
  const Bytes bytes = writer.Build();
  const GgufFile file = Parse(bytes);
  const std::vector<Printed> expected = {
      {"text", "two\\nlines\\x1b[2J"},
      {"yes", "true"},
      {"f32", "1e-06"},
      {"f64", "0.1"},
      {"big", "more than 2^63"},
      {"empty", "[]"},
      {"f", "[0.5, 2]"},
      {"tags", "[\"a\", \"b\\t\"]"},
      {"many", "[17 i32s]"},
      {"long", "[1 strings]"},
      {"cut", std::string(255, 'x') + "... [260 bytes]"},
  };
  for (const Printed& item : expected)
    EXPECT_EQ(PrintGgufValue(*file.metadata.Find(item.key)), item.text) << item.key;
}

TEST(GgufReader, TypeNumbers) {
  EXPECT_EQ(FindGgmlType(12)->dtype, DType::kQ4_K);
  EXPECT_EQ(FindGgmlType(39)->dtype, DType::kMXFP4);
  EXPECT_EQ(FindGgmlType(30)->dtype, DType::kBF16);
  EXPECT_EQ(FindGgmlType(19)->name, "IQ1_S");
  EXPECT_FALSE(FindGgmlType(19)->dtype.has_value());
  EXPECT_EQ(FindGgmlType(42), nullptr);
  // Where this program reads a type, it calls it as GGML does.
  for (uint32_t number = 0; number < 42; ++number) {
    const GgmlType* type = FindGgmlType(number);
    EXPECT_TRUE(!type->dtype || DTypeName(*type->dtype) == type->name) << number;
  }
}

}  // namespace
}  // namespace tenon
