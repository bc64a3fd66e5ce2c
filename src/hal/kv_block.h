// How keys and values of one block, of one layer and one KV head, lie in a KV cache.
//
// Float types hold a token as soon as it is written: keys transposed, [head_dim][kKvBlockTokens],
// values [kKvBlockTokens][head_dim].
//
// Packed types (8 and 4 bits) hold a block only when all of its tokens are known, because keys
// share a scale along the tokens of a channel: channels of keys differ by orders of magnitude,
// tokens little (KIVI, arXiv 2402.02750). Values share one along the channels of a token, in groups
// of kKvValueGroup; the last group of a head may be shorter. Codes lie in little-endian 32-bit
// words of P = 4 (8 bits) or 8 (4 bits) codes, the first one in the lowest bits: of successive
// channels of a token, or successive tokens of a value's channel, so that lanes need no shuffle.
//
//   keys    words [head_dim / P][32 tokens]  headers [head_dim]     kHier: low words, as the first
//   values  words [32 / P][head_dim]         headers [groups][32]   kHier: low words, as the first
//
//   kQ8    8-bit codes; x = scale * (code + 8 zero - 128)
//   kQ4    4-bit codes; x = scale * (code + zero)
//   kNf4   4-bit codes; x = scale / 128 * (kNf4Levels[code] - 128 + 16 zero)
//   kHier  two planes of 4-bit codes, U and L (QuantSpec, arXiv 2502.10424): alone, U is a kQ4
//          block; with L, x = scale / 16 * (16 U + L + 16 zero - 8)
//
// A header is the scale in the low byte, as the middle bits of an f16 (5 bits of exponent, 3 of
// mantissa: f16 = byte << 7), and `zero` as int8 in the high byte: groups of their own offset,
// which keys need (channels lie about a mean of their own), for the price of symmetric ones with a
// scale in f16.
//
// Owns nothing. Included by kernel files: nothing but <cstddef> and <cstdint> here.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tenon {

// Tokens in one block of the KV cache: four vectors of eight keys on AVX2.
inline constexpr int64_t kKvBlockTokens = 32;

// Channels of a value that share a scale in packed types.
inline constexpr int64_t kKvValueGroup = 64;

// Element type of a KV cache.
enum class KvType : uint8_t { kF32, kF16, kBF16, kQ8, kQ4, kNf4, kHier };
inline constexpr int kKvTypeCount = 7;
inline constexpr int kKvFloatTypeCount = 3;

inline constexpr bool IsPackedKv(KvType type) {
  return static_cast<int>(type) >= kKvFloatTypeCount;
}
// Bytes of an element. REQUIRES: a float type.
inline constexpr int64_t KvTypeBytes(KvType type) {
  return type == KvType::kF32 ? 4 : 2;
}

// Bits of an element of a packed type, without its share of a header.
inline constexpr int64_t KvCodeBits(KvType type) {
  return type == KvType::kQ8 || type == KvType::kHier ? 8 : 4;
}
// Bits of an element in the first plane of codes.
inline constexpr int64_t KvPlaneBits(KvType type) {
  return type == KvType::kQ8 ? 8 : 4;
}
inline constexpr int64_t KvValueGroups(int64_t head_dim) {
  return (head_dim + kKvValueGroup - 1) / kKvValueGroup;
}

// Offsets from the beginning of a packed block's keys, and of its values. The first plane, then the
// headers, then kHier's second plane.
inline constexpr int64_t KvHeaderOffset(KvType type, int64_t head_dim) {
  return head_dim * kKvBlockTokens * KvPlaneBits(type) / 8;
}
inline constexpr int64_t KvLowKeysOffset(int64_t head_dim) {
  return KvHeaderOffset(KvType::kHier, head_dim) + 2 * head_dim;
}
inline constexpr int64_t KvLowValuesOffset(int64_t head_dim) {
  return KvHeaderOffset(KvType::kHier, head_dim) + 2 * KvValueGroups(head_dim) * kKvBlockTokens;
}

// Bytes of a block's keys, and of its values, of one head.
inline constexpr int64_t KvKeyBytes(KvType type, int64_t head_dim) {
  if (!IsPackedKv(type))
    return head_dim * kKvBlockTokens * KvTypeBytes(type);
  return head_dim * kKvBlockTokens * KvCodeBits(type) / 8 + 2 * head_dim;
}
inline constexpr int64_t KvValueBytes(KvType type, int64_t head_dim) {
  if (!IsPackedKv(type))
    return head_dim * kKvBlockTokens * KvTypeBytes(type);
  return head_dim * kKvBlockTokens * KvCodeBits(type) / 8 +
         2 * KvValueGroups(head_dim) * kKvBlockTokens;
}

// The 4-bit code of normal floats (QLoRA, arXiv 2305.14314, table 5), -1 to 1, in 127ths with 128
// added: bytes, for products of integers. Rounding them adds a thousandth to the squared error.
constexpr uint8_t kNf4Levels[16] = {1,   40,  61,  78,  92,  105, 116, 128,
                                    138, 148, 159, 171, 184, 199, 220, 255};

}  // namespace tenon
