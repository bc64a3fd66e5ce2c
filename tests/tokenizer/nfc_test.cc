#include "model/tokenizer/nfc.h"

#include <gtest/gtest.h>

namespace tenon {
namespace {

// Cases of UAX #15 and of Unicode's NormalizationTest.txt.
TEST(Nfc, ComposesAndOrders) {
  const Nfc nfc;
  EXPECT_EQ(nfc.Normalize("Cafe\u0301"), "Caf\u00E9");
  EXPECT_EQ(nfc.Normalize("\u1E9B\u0323"), "\u1E9B\u0323");
  EXPECT_EQ(nfc.Normalize("\u0044\u0307\u0323"), "\u1E0C\u0307");  // dot below comes first
  EXPECT_EQ(nfc.Normalize("\u0344"), "\u0308\u0301");              // excluded from composition
  EXPECT_EQ(nfc.Normalize("\u212B"), "\u00C5");                    // a singleton
  EXPECT_EQ(nfc.Normalize("\uFB2C"), "\u05E9\u05BC\u05C1");
  EXPECT_EQ(nfc.Normalize("\u1100\u1161\u11A8"), "\uAC01");
  EXPECT_EQ(nfc.Normalize("\uAC00\u11A7"), "\uAC00\u11A7");
  EXPECT_EQ(nfc.Normalize("a\u0315\u0300\u05AE\u0300b"), "\u00E0\u05AE\u0300\u0315b");
}

TEST(Nfc, BlockedMarksDoNotCompose) {
  const Nfc nfc;
  EXPECT_EQ(nfc.Normalize("a\u0308\u0301"), "\u00E4\u0301");
  EXPECT_EQ(nfc.Normalize("a\u034F\u0301"), "a\u034F\u0301");  // a starter stands between
  EXPECT_EQ(nfc.Normalize("\u0301a"), "\u0301a");
}

TEST(Nfc, KeepsOtherBytes) {
  const Nfc nfc;
  EXPECT_EQ(nfc.Normalize(""), "");
  EXPECT_EQ(nfc.Normalize("\xFF\xCC\x81 e\xCC\x81\xE2\x82"), "\xFF\xCC\x81 \xC3\xA9\xE2\x82");
}

}  // namespace
}  // namespace tenon
