// What the generic kernel tests can't see: how the AMX kernels handle the tile unit.
#include <gtest/gtest.h>

#include "emulated/emulated_sets.h"
#include "emulated/shim/emulated_tiles.h"
#include "hal/kernel_test_support.h"

namespace tenon::kernel_test {
namespace {

using tenon_emulated::TileBytesLoaded;
using tenon_emulated::TilesConfigured;

constexpr int kKind = static_cast<int>(PackedKind::kU8S32);

void RunTokens(int64_t tokens) {
  Random random(7);
  constexpr int64_t k = 64;
  const Bytes panel = RandomPanel(PackedKind::kU8S32, k, &random);
  const Activations x = RandomActivations(PackedKind::kU8S32, k, tokens, &random);
  Floats out(static_cast<size_t>(tokens * kPanelRows));
  kEmulatedAmxKernelSet.gemm[kKind]({.panel = panel.data(),
                                     .k = k,
                                     .activations = x.bytes.data(),
                                     .activation_stride = x.stride,
                                     .tokens = tokens,
                                     .codebook = nullptr,
                                     .out = out.data(),
                                     .out_stride = kPanelRows});
}

// Bytes of tiles that one call of 64 k loads: per block of 32 k two weight tiles of 4 rows of 64
// bytes, and 32 bytes of each token.
int64_t ExpectedBytes(int64_t tiles, int64_t tokens) {
  return 2 * (tiles * 2 * 256 + tokens * 32);
}

TEST(Amx, UsesTilesForEnoughTokens) {
  const struct {
    int64_t tokens;
    int64_t tiles;
    int64_t tile_tokens;  // the others are left to AVX-512
  } cases[] = {{1, 0, 0},   {7, 0, 0},   {8, 1, 8},   {16, 1, 16},
               {19, 1, 16}, {24, 2, 24}, {33, 2, 32}, {64, 4, 64}};
  for (const auto& c : cases) {
    const int64_t before = TileBytesLoaded();
    RunTokens(c.tokens);
    EXPECT_EQ(TileBytesLoaded() - before, ExpectedBytes(c.tiles, c.tile_tokens)) << c.tokens;
  }
}

// Tiles that stay configured cost every later switch of threads 8 KiB.
TEST(Amx, ReleasesTiles) {
  for (const int64_t tokens : {1, 8, 16, 37}) {
    RunTokens(tokens);
    EXPECT_FALSE(TilesConfigured()) << tokens;
  }
}

TEST(AmxDeathTest, EmulatorFaultsLikeTheHardware) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(tenon_emulated::TileZero(0), "not configured");
  uint8_t config[64] = {};
  config[0] = 2;
  EXPECT_DEATH(tenon_emulated::TileLoadConfig(config), "palette");
  config[0] = 1;
  config[16] = 65;
  config[48] = 4;
  EXPECT_DEATH(tenon_emulated::TileLoadConfig(config), "larger than the palette");
  config[16] = 64;
  config[48] = 0;
  EXPECT_DEATH(tenon_emulated::TileLoadConfig(config), "both be set");
}

// tdpbsud by hand: one row of a = {-1, 2, 3, -4}, weights {1, 2, 255, 0} in column 0, sums start at
// 100: 100 - 1 + 4 + 765 - 0.
TEST(Amx, EmulatorMultiplies) {
  uint8_t config[64] = {};
  config[0] = 1;
  for (const int tile : {0, 1, 2}) {
    config[16 + tile * 2] = 4;
    config[48 + tile] = 1;
  }
  tenon_emulated::TileLoadConfig(config);
  const int32_t start = 100;
  const int8_t a[4] = {-1, 2, 3, -4};
  const uint8_t b[4] = {1, 2, 255, 0};
  tenon_emulated::TileLoad(0, &start, 4);
  tenon_emulated::TileLoad(1, a, 4);
  tenon_emulated::TileLoad(2, b, 4);
  tenon_emulated::TileDotSignedUnsigned(0, 1, 2);
  int32_t sum = 0;
  tenon_emulated::TileStore(0, &sum, 4);
  tenon_emulated::TileRelease();
  EXPECT_EQ(sum, 868);
}

}  // namespace
}  // namespace tenon::kernel_test
