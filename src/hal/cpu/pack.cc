#include "hal/pack.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "hal/cpu/pack_halfs.h"
#include "hal/cpu/panel_layout.h"
#include "quant/blocks.h"
#include "quant/dequantize.h"
#include "quant/half.h"

namespace tenon {
namespace {

constexpr int64_t kBlockValues = 32;  // values of k in one k-block

// 32 values of one row, as the packed kinds hold them: quants and the scales of the two groups of
// 16. Kinds with one group use index 0.
struct RowBlock {
  alignas(32) uint8_t q[kBlockValues];
  uint16_t d[2];     // f16
  uint16_t m[2];     // f16
  float codebook_d;  // kCodebook4S32
};

void LowThenHighNibbles(const uint8_t* bytes, uint8_t* q) {
  for (int j = 0; j < 16; ++j) {
    q[j] = bytes[j] & 15;
    q[j + 16] = bytes[j] >> 4;
  }
}

// Adds bit 4, from 32 bits that hold one for each value; eight values at a time in a 64-bit word.
void AddFifthBits(const uint8_t (&bits)[4], uint8_t* q) {
  constexpr uint64_t kEveryByte = 0x0101010101010101;
  constexpr uint64_t kBitOfByte = 0x8040201008040201;  // bit i in byte i
  for (int i = 0; i < 4; ++i) {
    const uint64_t spread = bits[i] * kEveryByte & kBitOfByte;
    // Adding 127 carries a set bit to the top of its byte, and no further.
    const uint64_t ones = (spread + 0x7f * kEveryByte) >> 7 & kEveryByte;
    uint64_t word;
    std::memcpy(&word, q + i * 8, 8);
    word |= ones << 4;
    std::memcpy(q + i * 8, &word, 8);
  }
}

// The decoders: values of k-block `part` (0..7) of a superblock, or of the whole of a small block.
void Decode(const BlockQ4_0& block, int, RowBlock* out) {
  LowThenHighNibbles(block.qs, out->q);
  out->d[0] = block.d;
}

void Decode(const BlockQ4_1& block, int, RowBlock* out) {
  LowThenHighNibbles(block.qs, out->q);
  out->d[0] = block.d;
  out->m[0] = block.m;
}

void Decode(const BlockQ5_0& block, int, RowBlock* out) {
  LowThenHighNibbles(block.qs, out->q);
  AddFifthBits(block.qh, out->q);
  out->d[0] = block.d;
}

void Decode(const BlockQ5_1& block, int, RowBlock* out) {
  LowThenHighNibbles(block.qs, out->q);
  AddFifthBits(block.qh, out->q);
  out->d[0] = block.d;
  out->m[0] = block.m;
}

void Decode(const BlockQ8_0& block, int, RowBlock* out) {
  for (int j = 0; j < kBlockValues; ++j) {
    out->q[j] = static_cast<uint8_t>(block.qs[j] ^ 0x80);
  }
  out->d[0] = block.d;
}

// The two low bits that Q2_K and Q3_K share.
void CopyTwoBits(const uint8_t (&qs)[64], int part, uint8_t* q) {
  const uint8_t* bytes = qs + part / 4 * 32;
  const int shift = part % 4 * 2;
  for (int j = 0; j < kBlockValues; ++j) {
    q[j] = static_cast<uint8_t>((bytes[j] >> shift) & 3);
  }
}

void Decode(const BlockQ2_K& block, int part, RowBlock* out) {
  CopyTwoBits(block.qs, part, out->q);
  const float d = F16ToF32(block.d);
  const float dmin = F16ToF32(block.dmin);
  for (int g = 0; g < 2; ++g) {
    const int scale = block.scales[part * 2 + g];
    out->d[g] = F32ToF16(d * static_cast<float>(scale & 15));
    out->m[g] = F32ToF16(-dmin * static_cast<float>(scale >> 4));
  }
}

// d * (q - 4) with q 0..7: the minimum is -4 times the rounded scale, so that 4 stays an exact
// zero.
void Decode(const BlockQ3_K& block, int part, RowBlock* out) {
  CopyTwoBits(block.qs, part, out->q);
  for (int j = 0; j < kBlockValues; ++j) {
    out->q[j] = static_cast<uint8_t>(out->q[j] | ((block.hmask[j] >> part) & 1) << 2);
  }
  const float d = F16ToF32(block.d);
  for (int g = 0; g < 2; ++g) {
    const int scale = ScaleQ3_K(block.scales, part * 2 + g);
    out->d[g] = F32ToF16(d * static_cast<float>(scale));
    out->m[g] = F32ToF16(-4.0f * F16ToF32(out->d[g]));
  }
}

// The low or high nibbles of the 32 bytes that two k-blocks of Q4_K and Q5_K share.
void CopyNibbles(const uint8_t (&qs)[128], int part, uint8_t* q) {
  const uint8_t* bytes = qs + part / 2 * 32;
  const int shift = part % 2 * 4;
  for (int j = 0; j < kBlockValues; ++j) {
    q[j] = static_cast<uint8_t>((bytes[j] >> shift) & 15);
  }
}

void DecodeScaleMin(uint16_t d, uint16_t dmin, ScaleMin scale, RowBlock* out) {
  out->d[0] = F32ToF16(F16ToF32(d) * static_cast<float>(scale.scale));
  out->m[0] = F32ToF16(-F16ToF32(dmin) * static_cast<float>(scale.min));
}

void Decode(const BlockQ4_K& block, int part, RowBlock* out) {
  CopyNibbles(block.qs, part, out->q);
  DecodeScaleMin(block.d, block.dmin, ScaleMinQ4_K(block.scales, part), out);
}

void Decode(const BlockQ5_K& block, int part, RowBlock* out) {
  CopyNibbles(block.qs, part, out->q);
  for (int j = 0; j < kBlockValues; ++j) {
    out->q[j] = static_cast<uint8_t>(out->q[j] | ((block.qh[j] >> part) & 1) << 4);
  }
  DecodeScaleMin(block.d, block.dmin, ScaleMinQ4_K(block.scales, part), out);
}

void Decode(const BlockQ6_K& block, int part, RowBlock* out) {
  const int half = part / 4;
  const int s = part % 4;
  const uint8_t* low = block.ql + half * 64 + s % 2 * 32;
  const uint8_t* high = block.qh + half * 32;
  for (int j = 0; j < kBlockValues; ++j) {
    out->q[j] =
        static_cast<uint8_t>(((low[j] >> (s / 2 * 4)) & 15) | ((high[j] >> (s * 2)) & 3) << 4);
  }
  const float d = F16ToF32(block.d);
  for (int g = 0; g < 2; ++g) {
    out->d[g] = F32ToF16(d * static_cast<float>(block.scales[part * 2 + g]));
  }
}

void Decode(const BlockIQ4_NL& block, int, RowBlock* out) {
  LowThenHighNibbles(block.qs, out->q);
  out->codebook_d = F16ToF32(block.d);
}

void Decode(const BlockIQ4_XS& block, int part, RowBlock* out) {
  LowThenHighNibbles(block.qs + part * 16, out->q);
  out->codebook_d = F16ToF32(block.d) * static_cast<float>(ScaleIQ4_XS(block, part));
}

void Decode(const BlockMXFP4& block, int, RowBlock* out) {
  LowThenHighNibbles(block.qs, out->q);
  out->codebook_d = ScaleMXFP4(block.e);
}

constexpr uint32_t kLowNibbles = 0x0f0f0f0f;

// The bits above the nibbles of row r, four values (a step) in a word.
template <int kHighBits>
void StoreHighBits(const std::array<uint32_t, 8>& words, int64_t r, std::byte* block) {
  std::array<uint32_t, kHighBits> planes = {};
  for (int step = 0; step < 8; ++step) {
    const HighBitsPlace place = PlaceOfHighBits(kHighBits, step);
    const uint32_t bits = words[static_cast<size_t>(step)] & place.mask * 0x01010101u;
    planes[static_cast<size_t>((place.offset - kHighBitsOffset) / 64)] |=
        place.shift >= 0 ? bits >> place.shift : bits << -place.shift;
  }
  std::memcpy(block + kHighBitsOffset + r * 4, planes.data(), 4);
  if constexpr (kHighBits == 2) {
    std::memcpy(block + kHighBitsOffset + 64 + r * 4, &planes[1], 4);
  }
}

// Quants of row r to their places in a k-block: a step's four values are one 32-bit word.
template <PackedKind kKind>
void StoreQuants(const uint8_t* q, int64_t r, std::byte* block) {
  std::array<uint32_t, 8> words;
  std::memcpy(words.data(), q, sizeof(words));
  constexpr int kHighBits = LayoutOf(kKind).high_bits;
  if constexpr (kHighBits > 0) {
    StoreHighBits<kHighBits>(words, r, block);
  }
  if constexpr (LayoutOf(kKind).nibbles) {
    for (size_t v = 0; v < 4; ++v) {
      words[v] = (words[v] & kLowNibbles) | (words[v + 4] & kLowNibbles) << 4;
    }
  }
  constexpr size_t kVectors = LayoutOf(kKind).nibbles ? 4 : 8;
  for (size_t v = 0; v < kVectors; ++v) {
    std::memcpy(block + v * 64 + static_cast<size_t>(r) * 4, &words[v], 4);
  }
}

template <PackedKind kKind>
void StoreScales(const RowBlock& row, int64_t r, std::byte* block) {
  constexpr PanelLayout kLayout = LayoutOf(kKind);
  std::byte* scales = block + kLayout.scales_offset;
  if constexpr (kLayout.codebook) {
    std::memcpy(scales + r * 4, &row.codebook_d, 4);
    return;
  }
  constexpr int64_t kGroups = kLayout.group_scales ? 2 : 1;
  for (int64_t g = 0; g < kGroups; ++g) {
    std::byte* group = scales + g * kLayout.group_stride + r * 2;
    std::memcpy(group, &row.d[g], 2);
    if constexpr (kLayout.stored_minima) {
      std::memcpy(group + kLayout.minima_offset, &row.m[g], 2);
    }
  }
}

template <class Block, PackedKind kKind>
void PackQuantized(const PanelSource& source, std::byte* out) {
  constexpr int64_t kBytes = PackedBlockBytes(kKind);
  constexpr int kParts = Block::kElements / static_cast<int>(kBlockValues);
  const int64_t row_bytes = DTypeRowBytes(source.dtype, source.k);
  RowBlock values;
  for (int64_t b = 0; b < source.k / Block::kElements; ++b) {
    for (int64_t r = 0; r < source.row_count; ++r) {
      const Block block = LoadBlock<Block>(source.rows + r * row_bytes, b);
      for (int part = 0; part < kParts; ++part) {
        std::byte* target = out + (b * kParts + part) * kBytes;
        Decode(block, part, &values);
        StoreQuants<kKind>(values.q, r, target);
        StoreScales<kKind>(values, r, target);
      }
    }
  }
}

// Transposes rows of T to columns of 16, in stretches of k whose columns stay in the L1 cache.
template <class T>
void PackFloats(const std::byte* rows, int64_t row_count, int64_t k, std::byte* out) {
  constexpr int64_t kSize = static_cast<int64_t>(sizeof(T));
  constexpr int64_t kStretch = 128;  // 8 KiB of output floats
  for (int64_t start = 0; start < k; start += kStretch) {
    const int64_t end = std::min(k, start + kStretch);
    for (int64_t r = 0; r < row_count; ++r) {
      for (int64_t i = start; i < end; ++i) {
        std::memcpy(out + (i * kPanelRows + r) * kSize, rows + (r * k + i) * kSize, sizeof(T));
      }
    }
  }
}

// BF16 has no bits that kF12S32 hasn't.
void PackHalfs(const PanelSource& source, std::byte* out) {
  if (source.dtype == DType::kF16)
    return PackI14(source, out);
  TENON_CHECK(PackF12(source, out));
}

void PackRows(const PanelSource& source, std::byte* out) {
  switch (source.dtype) {
    case DType::kF32:
      return PackFloats<uint32_t>(source.rows, source.row_count, source.k, out);
    case DType::kF16:
    case DType::kBF16:
      if (source.k % kBlockValues == 0)
        return PackHalfs(source, out);
      return PackFloats<uint16_t>(source.rows, source.row_count, source.k, out);
    case DType::kQ4_0:
      return PackQuantized<BlockQ4_0, PackedKind::kU4S32>(source, out);
    case DType::kQ4_1:
      return PackQuantized<BlockQ4_1, PackedKind::kU4S32M>(source, out);
    case DType::kQ5_0:
      return PackQuantized<BlockQ5_0, PackedKind::kU5S32>(source, out);
    case DType::kQ5_1:
      return PackQuantized<BlockQ5_1, PackedKind::kU5S32M>(source, out);
    case DType::kQ8_0:
      return PackQuantized<BlockQ8_0, PackedKind::kU8S32>(source, out);
    case DType::kQ2_K:
      return PackQuantized<BlockQ2_K, PackedKind::kU4S16M>(source, out);
    case DType::kQ3_K:
      return PackQuantized<BlockQ3_K, PackedKind::kU4S16M>(source, out);
    case DType::kQ4_K:
      return PackQuantized<BlockQ4_K, PackedKind::kU4S32M>(source, out);
    case DType::kQ5_K:
      return PackQuantized<BlockQ5_K, PackedKind::kU5S32M>(source, out);
    case DType::kQ6_K:
      return PackQuantized<BlockQ6_K, PackedKind::kU6S16>(source, out);
    case DType::kIQ4_NL:
      return PackQuantized<BlockIQ4_NL, PackedKind::kCodebook4S32>(source, out);
    case DType::kIQ4_XS:
      return PackQuantized<BlockIQ4_XS, PackedKind::kCodebook4S32>(source, out);
    case DType::kMXFP4:
      return PackQuantized<BlockMXFP4, PackedKind::kCodebook4S32>(source, out);
    case DType::kI32:
    case DType::kActI8:
    case DType::kActI16:
      break;
  }
  TENON_CHECK(false && "a dtype that weights have");
}

void CheckSource(const PanelSource& source) {
  TENON_CHECK(source.row_count >= 1 && source.row_count <= kPanelRows);
  TENON_CHECK(source.k >= 0 && source.k % GetDTypeInfo(source.dtype).block_elements == 0);
}

}  // namespace

PackedKind PackedKindFor(DType dtype, int64_t k) {
  const bool in_blocks = k % kBlockValues == 0;
  switch (dtype) {
    case DType::kF16:
      return in_blocks ? PackedKind::kI14S32 : PackedKind::kF16;
    case DType::kBF16:
      return in_blocks ? PackedKind::kF12S32 : PackedKind::kBF16;
    case DType::kQ4_0:
      return PackedKind::kU4S32;
    case DType::kQ4_1:
    case DType::kQ4_K:
      return PackedKind::kU4S32M;
    case DType::kQ2_K:
    case DType::kQ3_K:
      return PackedKind::kU4S16M;
    case DType::kIQ4_NL:
    case DType::kIQ4_XS:
    case DType::kMXFP4:
      return PackedKind::kCodebook4S32;
    case DType::kQ8_0:
      return PackedKind::kU8S32;
    case DType::kQ5_0:
      return PackedKind::kU5S32;
    case DType::kQ5_1:
    case DType::kQ5_K:
      return PackedKind::kU5S32M;
    case DType::kQ6_K:
      return PackedKind::kU6S16;
    case DType::kF32:
    case DType::kI32:
    case DType::kActI8:
    case DType::kActI16:
      break;
  }
  return PackedKind::kF32;
}

const int8_t* CodebookFor(DType dtype) {
  switch (dtype) {
    case DType::kIQ4_NL:
    case DType::kIQ4_XS:
      return kIQ4Values;
    case DType::kMXFP4:
      return kMxfp4Values;
    default:
      return nullptr;
  }
}

void PackPanel(const PanelSource& source, std::span<std::byte> out) {
  CheckSource(source);
  const int64_t bytes = PackedPanelBytes(PackedKindFor(source.dtype, source.k), source.k);
  TENON_CHECK(static_cast<int64_t>(out.size()) == bytes);
  if (source.row_count < kPanelRows) {
    std::memset(out.data(), 0, out.size());
  }
  PackRows(source, out.data());
}

bool PackPanelF12(const PanelSource& source, std::span<std::byte> out) {
  CheckSource(source);
  TENON_CHECK(source.dtype == DType::kF16 || source.dtype == DType::kBF16);
  const int64_t bytes = PackedPanelBytes(PackedKind::kF12S32, source.k);
  TENON_CHECK(source.k % kBlockValues == 0 && static_cast<int64_t>(out.size()) == bytes);
  std::memset(out.data(), 0, source.row_count < kPanelRows ? out.size() : 0);
  return PackF12(source, out.data());
}

void PackPanelF32(const PanelSource& source, std::span<std::byte> out) {
  CheckSource(source);
  const int64_t bytes = PackedPanelBytes(PackedKind::kF32, source.k);
  TENON_CHECK(static_cast<int64_t>(out.size()) == bytes);
  std::memset(out.data(), 0, out.size());
  const auto row_bytes = static_cast<size_t>(DTypeRowBytes(source.dtype, source.k));
  std::vector<float> values(static_cast<size_t>(source.k));
  for (int64_t r = 0; r < source.row_count; ++r) {
    const std::byte* row = source.rows + static_cast<size_t>(r) * row_bytes;
    DequantizeRow(source.dtype, {row, row_bytes}, values);
    for (int64_t i = 0; i < source.k; ++i) {
      const float value = values[static_cast<size_t>(i)];
      std::memcpy(out.data() + (i * kPanelRows + r) * 4, &value, 4);
    }
  }
}

}  // namespace tenon
