#include "quant/pack_levels.h"

#include <cstring>

#include "base/check.h"

namespace tenon {
namespace {

uint8_t Byte(int value) {
  return static_cast<uint8_t>(value);
}

// Level i as an unsigned number.
template <size_t kCount>
int Unsigned(const std::array<int8_t, kCount>& levels, size_t i, int zero) {
  return levels[i] + zero;
}

template <class Block>
void Store(const Block& block, std::byte* out) {
  std::memcpy(out, &block, sizeof(block));
}

template <class Block>
void PackNibbles(const SmallBlockLevels& source, int zero, Block& block) {
  for (size_t j = 0; j < 16; ++j) {
    const int low = Unsigned(source.levels, j, zero) & 0x0F;
    const int high = Unsigned(source.levels, j + 16, zero) & 0x0F;
    block.qs[j] = Byte(low | high << 4);
  }
}

template <class Block>
void PackFifthBits(const SmallBlockLevels& source, int zero, Block& block) {
  for (uint8_t& byte : block.qh)
    byte = 0;
  for (size_t i = 0; i < kSmallBlock; ++i) {
    const int bit = Unsigned(source.levels, i, zero) >> 4 & 1;
    block.qh[i / 8] = Byte(block.qh[i / 8] | bit << (i % 8));
  }
}

void PackQ8_0(const SmallBlockLevels& source, std::byte* out) {
  BlockQ8_0 block;
  block.d = source.scale;
  std::memcpy(block.qs, source.levels.data(), sizeof(block.qs));
  Store(block, out);
}

// The six-bit scale and minimum of group g: see ScaleMinQ4_K.
template <class Block>
void PackScaleMin(const SuperBlockLevels& source, Block& block) {
  for (uint8_t& byte : block.scales)
    byte = 0;
  for (size_t g = 0; g < 8; ++g) {
    const int scale = source.scales[g];
    const int min = source.mins[g];
    if (g < 4) {
      block.scales[g] = Byte(block.scales[g] | scale);
      block.scales[g + 4] = Byte(block.scales[g + 4] | min);
      continue;
    }
    block.scales[g + 4] = Byte((scale & 0x0F) | (min & 0x0F) << 4);
    block.scales[g - 4] = Byte(block.scales[g - 4] | scale >> 4 << 6);
    block.scales[g] = Byte(block.scales[g] | min >> 4 << 6);
  }
}

template <class Block>
void PackPairsOf32(const SuperBlockLevels& source, Block& block) {
  for (size_t quarter = 0; quarter < 4; ++quarter) {
    for (size_t j = 0; j < 32; ++j) {
      const int low = source.levels[64 * quarter + j] & 0x0F;
      const int high = source.levels[64 * quarter + 32 + j] & 0x0F;
      block.qs[32 * quarter + j] = Byte(low | high << 4);
    }
  }
}

void PackQ4_K(const SuperBlockLevels& source, std::byte* out) {
  BlockQ4_K block;
  block.d = source.scale;
  block.dmin = source.min;
  PackScaleMin(source, block);
  PackPairsOf32(source, block);
  Store(block, out);
}

void PackQ5_K(const SuperBlockLevels& source, std::byte* out) {
  BlockQ5_K block;
  block.d = source.scale;
  block.dmin = source.min;
  PackScaleMin(source, block);
  PackPairsOf32(source, block);
  for (size_t j = 0; j < 32; ++j) {
    int bits = 0;
    for (size_t g = 0; g < 8; ++g)
      bits |= (source.levels[32 * g + j] >> 4 & 1) << g;
    block.qh[j] = Byte(bits);
  }
  Store(block, out);
}

// Two bits of each level, as Q2_K and Q3_K hold them.
template <class Block>
void PackTwoBits(const SuperBlockLevels& source, int zero, Block& block) {
  for (size_t half = 0; half < 2; ++half) {
    for (size_t j = 0; j < 32; ++j) {
      int bits = 0;
      for (size_t s = 0; s < 4; ++s)
        bits |= (Unsigned(source.levels, 128 * half + 32 * s + j, zero) & 3) << (2 * s);
      block.qs[32 * half + j] = Byte(bits);
    }
  }
}

void PackQ2_K(const SuperBlockLevels& source, std::byte* out) {
  BlockQ2_K block;
  block.d = source.scale;
  block.dmin = source.min;
  for (size_t g = 0; g < 16; ++g)
    block.scales[g] = Byte((source.scales[g] & 0x0F) | (source.mins[g] & 0x0F) << 4);
  PackTwoBits(source, 0, block);
  Store(block, out);
}

void PackQ3_K(const SuperBlockLevels& source, std::byte* out) {
  BlockQ3_K block = {};
  block.d = source.scale;
  for (size_t g = 0; g < 16; ++g) {
    const int scale = source.scales[g] + 32;
    block.scales[g % 8] = Byte(block.scales[g % 8] | (scale & 0x0F) << (g / 8 * 4));
    block.scales[8 + g % 4] = Byte(block.scales[8 + g % 4] | scale >> 4 << (g / 4 * 2));
  }
  PackTwoBits(source, 4, block);
  for (size_t b = 0; b < 8; ++b) {
    for (size_t j = 0; j < 32; ++j) {
      const int bit = Unsigned(source.levels, 32 * b + j, 4) >> 2 & 1;
      block.hmask[j] = Byte(block.hmask[j] | bit << b);
    }
  }
  Store(block, out);
}

void PackQ6_K(const SuperBlockLevels& source, std::byte* out) {
  BlockQ6_K block = {};
  block.d = source.scale;
  std::memcpy(block.scales, source.scales.data(), sizeof(block.scales));
  for (size_t i = 0; i < kSuperBlock; ++i) {
    const size_t half = i / 128;
    const size_t s = i % 128 / 32;
    const size_t j = i % 32;
    const int level = Unsigned(source.levels, i, 32);
    uint8_t& low = block.ql[64 * half + 32 * (s % 2) + j];
    low = Byte(low | (level & 0x0F) << (s / 2 * 4));
    uint8_t& high = block.qh[32 * half + j];
    high = Byte(high | level >> 4 << (2 * s));
  }
  Store(block, out);
}

template <class Block>
void PackPlain(const SmallBlockLevels& source, int zero, std::byte* out) {
  Block block;
  block.d = source.scale;
  if constexpr (requires { block.m; })
    block.m = source.min;
  if constexpr (requires { block.qh; })
    PackFifthBits(source, zero, block);
  PackNibbles(source, zero, block);
  Store(block, out);
}

}  // namespace

void PackSmallBlock(DType container, const SmallBlockLevels& source, std::byte* out) {
  switch (container) {
    case DType::kQ4_0:
      return PackPlain<BlockQ4_0>(source, 8, out);
    case DType::kQ4_1:
      return PackPlain<BlockQ4_1>(source, 0, out);
    case DType::kQ5_0:
      return PackPlain<BlockQ5_0>(source, 16, out);
    case DType::kQ5_1:
      return PackPlain<BlockQ5_1>(source, 0, out);
    case DType::kQ8_0:
      return PackQ8_0(source, out);
    default:
      TENON_CHECK(false);
  }
}

void PackSuperBlock(DType container, const SuperBlockLevels& source, std::byte* out) {
  switch (container) {
    case DType::kQ2_K:
      return PackQ2_K(source, out);
    case DType::kQ3_K:
      return PackQ3_K(source, out);
    case DType::kQ4_K:
      return PackQ4_K(source, out);
    case DType::kQ5_K:
      return PackQ5_K(source, out);
    case DType::kQ6_K:
      return PackQ6_K(source, out);
    default:
      TENON_CHECK(false);
  }
}

}  // namespace tenon
