#include "engine/sample/philox.h"

#include <gtest/gtest.h>

#include <set>

namespace tenon {
namespace {

using Words = std::array<uint32_t, 4>;

// Known answers of Random123, tests/kat_vectors, the lines "philox4x32 10".
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(Philox4x32({0, 0, 0, 0}, {0, 0}),
            (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  const uint32_t ones = 0xffffffff;
  EXPECT_EQ(Philox4x32({ones, ones, ones, ones}, {ones, ones}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, UniformTakesTheTop53BitsOfTheFirstTwoWords) {
  // 0x6627e8d5e169c58d >> 11, over 2^53.
  EXPECT_EQ(UniformAt(0, 0, DrawPurpose::kToken),
            static_cast<double>(0x6627e8d5e169c58dULL >> 11) / 9007199254740992.0);
}

TEST(Philox, EveryPartOfTheAddressCounts) {
  std::set<double> seen;
  const uint64_t far = uint64_t{1} << 40;
  for (const uint64_t seed : {uint64_t{0}, uint64_t{1}, far, ~uint64_t{0}}) {
    for (const uint64_t position : {uint64_t{0}, uint64_t{1}, far}) {
      for (const DrawPurpose purpose : {DrawPurpose::kToken, DrawPurpose::kXtc}) {
        const double u = UniformAt(seed, position, purpose);
        EXPECT_GE(u, 0.0);
        EXPECT_LT(u, 1.0);
        seen.insert(u);
      }
    }
  }
  EXPECT_EQ(seen.size(), 4U * 3U * 2U);
}

TEST(Philox, UniformFillsTheIntervalEvenly) {
  // 16 bins of 1000 expected each; chi-square with 15 degrees, 0.9999 quantile 44.26.
  std::array<int, 16> bins = {};
  for (uint64_t i = 0; i < 16000; ++i)
    ++bins[static_cast<size_t>(UniformAt(7, i, DrawPurpose::kToken) * 16.0)];
  double statistic = 0.0;
  for (const int count : bins)
    statistic += (count - 1000.0) * (count - 1000.0) / 1000.0;
  EXPECT_LT(statistic, 44.26);
}

}  // namespace
}  // namespace tenon
