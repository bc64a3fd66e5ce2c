#include "hal/cpu/pack_halfs.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "hal/cpu/f12_panel.h"

namespace tenon {
namespace {

constexpr int64_t kBlockValues = kActivationBlockValues;

// |value| of a finite f16 or bf16 as a float.
struct F16Magnitude {
  static constexpr uint16_t kInfinity = 0x7c00;
  float operator()(uint16_t bits) const {
    return std::bit_cast<float>((bits & 0x7fffU) << 13) * 0x1p112F;
  }
};
struct BF16Magnitude {
  static constexpr uint16_t kInfinity = 0x7f80;
  float operator()(uint16_t bits) const { return std::bit_cast<float>((bits & 0x7fffU) << 16); }
};

using HalfBlock = std::array<uint16_t, kBlockValues>;
using WideWords = std::array<int16_t, kBlockValues>;

// Levels of a block of one row by its d; returns d's exponent field. Plain loops over 32 values,
// which compilers turn into vectors.
template <class Magnitude>
uint32_t RoundHalfBlock(const HalfBlock& bits, WideWords& words) {
  constexpr Magnitude kMagnitude;
  constexpr uint32_t kFieldOfInfinity = 255;
  constexpr uint32_t kLevelBits = 12;  // of the largest value after its first bit
  int16_t largest = 0;
  for (const uint16_t value : bits)
    largest = std::max(largest, static_cast<int16_t>(value & 0x7fff));
  // Products of zero levels with an infinite d are NaN.
  if (largest >= Magnitude::kInfinity) {
    words.fill(0);
    return kFieldOfInfinity;
  }
  const auto most = std::bit_cast<uint32_t>(kMagnitude(static_cast<uint16_t>(largest)));
  const uint32_t field = std::max(most >> 23, kLevelBits + 1) - kLevelBits;
  const auto inverse = std::bit_cast<float>((254U - field) << 23);  // 1 / d
  for (size_t i = 0; i < bits.size(); ++i) {
    const auto level = static_cast<int32_t>(kMagnitude(bits[i]) * inverse + 0.5F);
    const int32_t sign = -(bits[i] >> 15);
    words[i] = static_cast<int16_t>((level ^ sign) - sign);
  }
  return field;
}

// The words of a block of kI14S32, with the field's bits in the first four.
void StoreI14(const WideWords& levels, uint32_t field, int64_t r, std::byte* block) {
  WideWords words = levels;
  for (size_t i = 0; i < 4; ++i)
    words[i] = static_cast<int16_t>(words[i] * 4 + static_cast<int>(field >> 2 * i & 3U));
  for (size_t pair = 0; pair < words.size() / 2; ++pair)
    std::memcpy(block + pair * 64 + static_cast<size_t>(r) * 4, &words[2 * pair], 4);
}

// A level's magnitude as kF12S32 has it, in 16 bits: the shift, from bit 8 on the significand, in
// bit 7 whether the significand has no place for all of its bits. Looked up: shifts that differ
// from value to value take compilers four times as long.
using F12Table = std::array<uint16_t, kMostWideLevel + 1>;

constexpr uint32_t kLost = 1U << 7;

constexpr F12Table MakeF12Table() {
  constexpr int kSignificandBits = 8;
  F12Table table = {};
  for (uint32_t magnitude = 0; magnitude < table.size(); ++magnitude) {
    const auto bits = static_cast<int>(std::bit_width(magnitude));
    const int shift = std::max(bits - kSignificandBits, 0);
    const uint32_t significand = magnitude >> shift;
    const uint32_t lost = significand << shift == magnitude ? 0 : kLost;
    table[magnitude] =
        static_cast<uint16_t>(significand << 8 | lost | static_cast<uint32_t>(shift));
  }
  return table;
}

constexpr F12Table kF12Table = MakeF12Table();

// Four levels: bytes of k 0, 2, 1, 3.
struct F12Quad {
  uint32_t significands = 0;
  uint32_t codes = 0;
};

// Adds kLost to `lost` where bits are.
F12Quad EncodeF12(const int16_t* levels, uint32_t& lost) {
  F12Quad quad;
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const int level = levels[i];
    const int sign = level >> 31;  // no branch: signs are as good as random
    const int shift = i % 2 * 16 + i / 2 * 8;
    const uint32_t entry = kF12Table[static_cast<size_t>((level ^ sign) - sign)];
    lost |= entry;
    quad.significands |= (entry >> 8) << shift;
    quad.codes |= ((entry & 7U) | (static_cast<uint32_t>(sign) & 8U)) << shift;
  }
  return quad;
}

// Returns kLost among other bits when the significands have no place for all bits.
uint32_t StoreF12(const WideWords& levels, uint32_t field, int64_t r, std::byte* block) {
  uint32_t lost = 0;
  std::byte* row = block + r * 4;
  for (size_t g = 0; g < 4; ++g) {
    const F12Quad first = EncodeF12(levels.data() + g * 8, lost);
    const F12Quad second = EncodeF12(levels.data() + g * 8 + 4, lost);
    const uint32_t nibbles = first.codes | second.codes << 4;
    std::memcpy(row + g * 128, &first.significands, 4);
    std::memcpy(row + g * 128 + 64, &second.significands, 4);
    std::memcpy(row + kF12Nibbles + g * 64, &nibbles, 4);
  }
  block[kF12Exponents + r] = static_cast<std::byte>(field);
  return lost;
}

// Calls store(levels, field, r, b) for row r of block b.
template <class Magnitude, class Store>
void RoundRows(const PanelSource& source, Store store) {
  HalfBlock bits;
  WideWords levels;
  for (int64_t b = 0; b < source.k / kBlockValues; ++b) {
    for (int64_t r = 0; r < source.row_count; ++r) {
      std::memcpy(bits.data(), source.rows + (r * source.k + b * kBlockValues) * 2, sizeof(bits));
      const uint32_t field = RoundHalfBlock<Magnitude>(bits, levels);
      store(levels, field, r, b);
    }
  }
}

template <class Store>
void RoundRowsOf(const PanelSource& source, Store store) {
  if (source.dtype == DType::kF16)
    RoundRows<F16Magnitude>(source, store);
  else
    RoundRows<BF16Magnitude>(source, store);
}

}  // namespace

void PackI14(const PanelSource& source, std::byte* out) {
  RoundRowsOf(source, [&](const WideWords& levels, uint32_t field, int64_t r, int64_t b) {
    StoreI14(levels, field, r, out + b * PackedBlockBytes(PackedKind::kI14S32));
  });
}

bool PackF12(const PanelSource& source, std::byte* out) {
  uint32_t lost = 0;
  RoundRowsOf(source, [&](const WideWords& levels, uint32_t field, int64_t r, int64_t b) {
    lost |= StoreF12(levels, field, r, out + b * PackedBlockBytes(PackedKind::kF12S32));
  });
  return (lost & kLost) == 0;
}

}  // namespace tenon
