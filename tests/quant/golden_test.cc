// DequantizeRow and QuantizeRow against tests/data/dequant_golden.txt, which
// scripts/make_dequant_golden.py wrote with the `gguf` package: equal bit for bit.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "quant/dequantize.h"
#include "quant/half.h"
#include "quant/quantize.h"

namespace tenon {
namespace {

struct GoldenLine {
  std::string kind;
  std::string name;
  std::string input;   // hex
  std::string output;  // hex
};

std::vector<GoldenLine> ReadGolden(const std::string& kind) {
  std::ifstream file("tests/data/dequant_golden.txt");
  std::vector<GoldenLine> lines;
  std::string text;
  while (std::getline(file, text)) {
    GoldenLine line;
    std::istringstream(text) >> line.kind >> line.name >> line.input >> line.output;
    if (line.kind == kind)
      lines.push_back(line);
  }
  EXPECT_FALSE(lines.empty()) << "tests/data/dequant_golden.txt has no lines of " << kind;
  return lines;
}

std::vector<std::byte> FromHex(const std::string& hex) {
  std::vector<std::byte> bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2)
    bytes.push_back(static_cast<std::byte>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  return bytes;
}

std::string ToHex(const void* data, size_t size) {
  std::string hex;
  for (size_t i = 0; i < size; ++i)
    hex += fmt::format("{:02x}", static_cast<const uint8_t*>(data)[i]);
  return hex;
}

TEST(DequantizeGolden, EveryTypeEqualsTheReference) {
  std::set<std::string> seen;
  for (const GoldenLine& line : ReadGolden("dequantize")) {
    SCOPED_TRACE(line.name);
    const std::optional<DType> dtype = FindDType(line.name);
    ASSERT_TRUE(dtype.has_value());
    const std::vector<std::byte> row = FromHex(line.input);
    std::vector<float> out(line.output.size() / 8);
    DequantizeRow(*dtype, row, out);
    EXPECT_EQ(ToHex(out.data(), out.size() * 4), line.output);
    seen.insert(line.name);
  }
  EXPECT_EQ(seen.size(), 16U);
}

TEST(DequantizeGolden, ARowMayLieAtAnyAddress) {
  for (const GoldenLine& line : ReadGolden("dequantize")) {
    SCOPED_TRACE(line.name);
    std::vector<std::byte> shifted = FromHex(line.input);
    shifted.insert(shifted.begin(), std::byte{0xFF});
    std::vector<float> out(line.output.size() / 8);
    DequantizeRow(*FindDType(line.name), std::span(shifted).subspan(1), out);
    EXPECT_EQ(ToHex(out.data(), out.size() * 4), line.output);
  }
}

TEST(QuantizeGolden, EveryEncoderEqualsTheReference) {
  std::set<std::string> seen;
  for (const GoldenLine& line : ReadGolden("quantize")) {
    SCOPED_TRACE(line.name);
    const std::vector<std::byte> bytes = FromHex(line.input);
    std::vector<float> values(bytes.size() / 4);
    std::memcpy(values.data(), bytes.data(), bytes.size());
    std::vector<std::byte> out(line.output.size() / 2);
    QuantizeRow(*FindDType(line.name), values, out);
    EXPECT_EQ(ToHex(out.data(), out.size()), line.output);
    seen.insert(line.name);
  }
  EXPECT_EQ(seen.size(), 7U);
}

// 64-bit FNV-1a, one step a word.
class Hash {
 public:
  void Add(uint64_t word) { value_ = (value_ ^ word) * 0x100000001B3U; }
  std::string hex() const { return fmt::format("{:016x}", value_); }

 private:
  uint64_t value_ = 0xCBF29CE484222325U;
};

std::string GoldenHash(const std::string& name) {
  for (const GoldenLine& line : ReadGolden("hash")) {
    if (line.name == name)
      return line.input;
  }
  return "missing";
}

TEST(HalfGolden, EveryF16ToF32) {
  Hash hash;
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    if ((bits & 0x7FFF) <= 0x7C00)
      hash.Add(std::bit_cast<uint32_t>(F16ToF32(static_cast<uint16_t>(bits))));
  }
  EXPECT_EQ(hash.hex(), GoldenHash("f16_to_f32"));
}

TEST(HalfGolden, FloatsOfEveryExponentTo16Bits) {
  Hash f16;
  Hash bf16;
  for (uint32_t i = 0; i < 0x10000; ++i) {
    const float value = std::bit_cast<float>(i * 65537U);
    if (value != value)
      continue;
    f16.Add(F32ToF16(value));
    bf16.Add(F32ToBF16(value));
  }
  EXPECT_EQ(f16.hex(), GoldenHash("f32_to_f16"));
  EXPECT_EQ(bf16.hex(), GoldenHash("f32_to_bf16"));
}

}  // namespace
}  // namespace tenon
