#include "model/tokenizer/utf8.h"

#include <gtest/gtest.h>

#include <vector>

namespace tenon {
namespace {

TEST(Utf8, RoundTripsEveryScalarValue) {
  for (char32_t code = 0; code < 0x110000; ++code) {
    if (code >= 0xD800 && code < 0xE000)
      continue;
    std::string bytes;
    AppendUtf8(code, bytes);
    const Utf8Char c = DecodeUtf8(bytes, 0);
    ASSERT_EQ(c.state, Utf8State::kValid) << std::hex << static_cast<uint32_t>(code);
    ASSERT_EQ(c.code, code);
    ASSERT_EQ(c.length, bytes.size());
  }
}

TEST(Utf8, EncodesKnownBytes) {
  std::string bytes;
  for (char32_t code : {U'\x7F', U'\u00E9', U'\u20AC', U'\U0001F600'})
    AppendUtf8(code, bytes);
  EXPECT_EQ(bytes, "\x7F\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80");
}

// The lengths of the parts that `text` falls into; negative: invalid, plus 100: truncated.
std::vector<int> Parts(std::string_view text) {
  std::vector<int> parts;
  for (size_t at = 0; at < text.size();) {
    const Utf8Char c = DecodeUtf8(text, at);
    const int length = static_cast<int>(c.length);
    parts.push_back(c.state == Utf8State::kValid     ? length
                    : c.state == Utf8State::kInvalid ? -length
                                                     : 100 + length);
    at += c.length;
  }
  return parts;
}

// Unicode 3.9, tables 3-8 to 3-11: maximal subparts.
TEST(Utf8, SplitsInvalidBytesAtMaximalParts) {
  using V = std::vector<int>;
  EXPECT_EQ(Parts("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41"), (V{-1, -1, -1, -1, -1, -1, -1, -1, 1}));
  EXPECT_EQ(Parts("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41"), (V{-1, -1, -1, -1, -1, -1, -1, -1, 1}));
  EXPECT_EQ(Parts("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42"), (V{-1, -1, -1, -1, -1, 1, -1, -1, 1}));
  EXPECT_EQ(Parts("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41"), (V{-2, -1, -3, -2, 1}));
}

TEST(Utf8, TellsTruncatedFromInvalid) {
  using V = std::vector<int>;
  EXPECT_EQ(Parts("a\xC3"), (V{1, 101}));
  EXPECT_EQ(Parts("\xE2\x82"), (V{102}));
  EXPECT_EQ(Parts("\xF0\x9F\x98"), (V{103}));
  EXPECT_EQ(Parts("\xF4\x8F"), (V{102}));
  EXPECT_EQ(Parts("\xF5"), (V{-1}));
}

}  // namespace
}  // namespace tenon
