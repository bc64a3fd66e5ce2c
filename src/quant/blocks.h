// The block formats of quantized tensors, field by field, as GGUF files hold them (little-endian).
//
// A row of a tensor is a sequence of blocks, each of `kElements` consecutive values
// w[0..kElements). f16 fields are raw bits (quant/half.h). Blocks in a file may lie at any address:
// read them with LoadBlock, never through a cast pointer. Facts from the public format description
// of GGML's quantization types; the formulas below are those that quant/dequantize.cc computes, in
// that order of operations.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace tenon {

// Values in a block of the simple formats, and in a superblock of the K and IQ4_XS formats.
inline constexpr int kSmallBlock = 32;
inline constexpr int kSuperBlock = 256;

// 4-bit values come in pairs: in the 32-value formats, byte j holds w[j] in its low and w[j+16] in
// its high nibble.

// w = d * (q - 8), q 0..15.
struct BlockQ4_0 {
  static constexpr int kElements = kSmallBlock;
  uint16_t d;      // f16
  uint8_t qs[16];  // nibbles: w[j] low, w[j+16] high
};
static_assert(sizeof(BlockQ4_0) == 18);

// w = d * q + m, q 0..15.
struct BlockQ4_1 {
  static constexpr int kElements = kSmallBlock;
  uint16_t d;      // f16
  uint16_t m;      // f16
  uint8_t qs[16];  // nibbles: w[j] low, w[j+16] high
};
static_assert(sizeof(BlockQ4_1) == 20);

// w = d * (q - 16), q 0..31.
struct BlockQ5_0 {
  static constexpr int kElements = kSmallBlock;
  uint16_t d;      // f16
  uint8_t qh[4];   // little-endian u32: bit i is bit 4 of q[i]
  uint8_t qs[16];  // bits 0..3: w[j] low nibble, w[j+16] high nibble
};
static_assert(sizeof(BlockQ5_0) == 22);

// w = d * q + m, q 0..31.
struct BlockQ5_1 {
  static constexpr int kElements = kSmallBlock;
  uint16_t d;      // f16
  uint16_t m;      // f16
  uint8_t qh[4];   // little-endian u32: bit i is bit 4 of q[i]
  uint8_t qs[16];  // bits 0..3: w[j] low nibble, w[j+16] high nibble
};
static_assert(sizeof(BlockQ5_1) == 24);

// w = q * d, q -128..127.
struct BlockQ8_0 {
  static constexpr int kElements = kSmallBlock;
  uint16_t d;     // f16
  int8_t qs[32];  // w[j]
};
static_assert(sizeof(BlockQ8_0) == 34);

// 16 groups g of 16 values: w = (d * sc[g]) * q - (dmin * m[g]), q 0..3.
struct BlockQ2_K {
  static constexpr int kElements = kSuperBlock;
  uint8_t scales[16];  // group g: sc in the low nibble, m in the high nibble
  // Halves of 128 values; half h uses bytes 32h..32h+31: bits 2s..2s+1 of byte 32h+j are the value
  // w[128h + 32s + j], s 0..3, j 0..31.
  uint8_t qs[64];
  uint16_t d;     // f16
  uint16_t dmin;  // f16
};
static_assert(sizeof(BlockQ2_K) == 84);

// 16 groups g of 16 values: w = (d * (sc[g] - 32)) * q, q -4..3.
struct BlockQ3_K {
  static constexpr int kElements = kSuperBlock;
  // Bit b of byte j belongs to w[32b + j]; q = low two bits, minus 4 where this bit is 0.
  uint8_t hmask[32];
  uint8_t qs[64];      // low two bits, laid out as BlockQ2_K::qs
  uint8_t scales[12];  // 16 scales of 6 bits: see ScaleQ3_K
  uint16_t d;          // f16
};
static_assert(sizeof(BlockQ3_K) == 110);

// 8 groups g of 32 values: w = (d * sc[g]) * q - (dmin * m[g]), q 0..15.
struct BlockQ4_K {
  static constexpr int kElements = kSuperBlock;
  uint16_t d;          // f16
  uint16_t dmin;       // f16
  uint8_t scales[12];  // 8 scales and 8 minima of 6 bits: see ScaleMinQ4_K
  // Quarters of 64 values; quarter c uses bytes 32c..32c+31: byte 32c+j holds w[64c + j] in its low
  // and w[64c + 32 + j] in its high nibble.
  uint8_t qs[128];
};
static_assert(sizeof(BlockQ4_K) == 144);

// 8 groups g of 32 values: w = (d * sc[g]) * q - (dmin * m[g]), q 0..31.
struct BlockQ5_K {
  static constexpr int kElements = kSuperBlock;
  uint16_t d;          // f16
  uint16_t dmin;       // f16
  uint8_t scales[12];  // as BlockQ4_K
  uint8_t qh[32];      // bit g of byte j is bit 4 of the value w[32g + j]
  uint8_t qs[128];     // bits 0..3, laid out as BlockQ4_K::qs
};
static_assert(sizeof(BlockQ5_K) == 176);

// 16 groups g of 16 values: w = (d * sc[g]) * (q - 32), q 0..63.
struct BlockQ6_K {
  static constexpr int kElements = kSuperBlock;
  // Halves of 128 values; half h uses ql bytes 64h..64h+63 and qh bytes 32h..32h+31. For s 0..3 and
  // j 0..31, w[128h + 32s + j] has bits 0..3 in nibble s/2 (0 low) of ql[64h + 32(s%2) + j] and
  // bits 4..5 in bits 2s..2s+1 of qh[32h + j].
  uint8_t ql[128];
  uint8_t qh[64];
  int8_t scales[16];
  uint16_t d;  // f16
};
static_assert(sizeof(BlockQ6_K) == 210);

// w = d * kIQ4Values[q].
struct BlockIQ4_NL {
  static constexpr int kElements = kSmallBlock;
  uint16_t d;      // f16
  uint8_t qs[16];  // nibbles: w[j] low, w[j+16] high
};
static_assert(sizeof(BlockIQ4_NL) == 18);

// 8 groups g of 32 values: w = (d * (sc[g] - 32)) * kIQ4Values[q].
struct BlockIQ4_XS {
  static constexpr int kElements = kSuperBlock;
  uint16_t d;           // f16
  uint16_t scales_h;    // bits 2g..2g+1 are bits 4..5 of sc[g]
  uint8_t scales_l[4];  // nibble g%2 (0 low) of byte g/2 is bits 0..3 of sc[g]
  // Group g uses bytes 16g..16g+15: byte 16g+j holds w[32g + j] low, w[32g + 16 + j] high.
  uint8_t qs[128];
};
static_assert(sizeof(BlockIQ4_XS) == 136);

// OCP Microscaling MXFP4: w = 2^(e - 128) * kMxfp4Values[q]; the table holds E2M1 values doubled.
struct BlockMXFP4 {
  static constexpr int kElements = kSmallBlock;
  uint8_t e;       // E8M0 exponent, bias 127
  uint8_t qs[16];  // nibbles: w[j] low, w[j+16] high
};
static_assert(sizeof(BlockMXFP4) == 17);

// The non-linear 4-bit codebook of IQ4_NL and IQ4_XS.
inline constexpr int8_t kIQ4Values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                          1,    13,   25,  38,  53,  69,  89,  113};

// E2M1 values, doubled to be integers: 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives.
inline constexpr int8_t kMxfp4Values[16] = {0, 1,  2,  3,  4,  6,  8,  12,
                                            0, -1, -2, -3, -4, -6, -8, -12};

// Scale of group g (0..15) of a Q3_K block, -32..31: bits 0..3 lie in nibble g/8 of byte g%8, bits
// 4..5 in bits 2(g/4).. of byte 8 + g%4.
inline int ScaleQ3_K(const uint8_t (&scales)[12], int g) {
  const int low = (scales[g % 8] >> (g / 8 * 4)) & 0x0F;
  const int high = (scales[8 + g % 4] >> (g / 4 * 2)) & 0x03;
  return (low | high << 4) - 32;
}

struct ScaleMin {
  int scale;  // 0..63
  int min;    // 0..63
};

// Scale and minimum of group g (0..7) of a Q4_K or Q5_K block. Groups 0..3: the low six bits of
// bytes g and g+4. Groups 4..7: bits 0..3 in byte g+4 (scale low nibble, minimum high nibble),
// bits 4..5 in the top two bits of bytes g-4 (scale) and g (minimum).
inline ScaleMin ScaleMinQ4_K(const uint8_t (&scales)[12], int g) {
  if (g < 4)
    return {scales[g] & 0x3F, scales[g + 4] & 0x3F};
  return {(scales[g + 4] & 0x0F) | ((scales[g - 4] >> 6) << 4),
          (scales[g + 4] >> 4) | ((scales[g] >> 6) << 4)};
}

// Scale of group g (0..7) of an IQ4_XS block, -32..31.
inline int ScaleIQ4_XS(const BlockIQ4_XS& block, int g) {
  const int low = (block.scales_l[g / 2] >> (g % 2 * 4)) & 0x0F;
  const int high = (block.scales_h >> (g * 2)) & 0x03;
  return (low | high << 4) - 32;
}

// 2^(e - 128): the exponent of the specification, halved because kMxfp4Values are doubled. The two
// lowest are subnormal floats.
inline float ScaleMXFP4(uint8_t e) {
  const uint32_t subnormal = 0x00200000U << e % 2;  // 2^-128, 2^-127
  const uint32_t normal = (static_cast<uint32_t>(e) - 1U) << 23;
  return std::bit_cast<float>(e < 2 ? subnormal : normal);
}

// Block `index` of a row that starts at `row`, which may be unaligned.
template <class Block>
Block LoadBlock(const std::byte* row, int64_t index) {
  static_assert(std::is_trivially_copyable_v<Block>);
  Block block;
  std::memcpy(&block, row + index * static_cast<int64_t>(sizeof(Block)), sizeof(Block));
  return block;
}

}  // namespace tenon
