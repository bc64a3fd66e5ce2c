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

// Levels as kF12S32 has them.
struct F12Values {
  WideWords significands;
  WideWords codes;
  int lost;  // not 0: bits that the significands have no place for
};

// Arithmetic on 16-bit words alone, which compilers turn into vectors.
F12Values EncodeF12(const WideWords& levels) {
  constexpr int kMostShift = 5;
  F12Values values;
  int16_t lost = 0;
  for (size_t i = 0; i < levels.size(); ++i) {
    const int16_t level = levels[i];
    const auto magnitude = static_cast<int16_t>(level < 0 ? -level : level);
    int16_t shift = 0;
    int16_t factor = 1 << kMostShift;  // 2^(kMostShift - shift)
    for (int bit = 0; bit < kMostShift; ++bit) {
      const auto is_over = static_cast<int16_t>(magnitude >= 256 << bit);
      shift = static_cast<int16_t>(shift + is_over);
      factor = static_cast<int16_t>(factor - (is_over << (kMostShift - 1 - bit)));
    }
    const auto scaled = static_cast<int16_t>(magnitude * factor);
    lost = static_cast<int16_t>(lost | (scaled & ((1 << kMostShift) - 1)));
    values.significands[i] = static_cast<int16_t>(scaled >> kMostShift);
    values.codes[i] = static_cast<int16_t>(shift + (level < 0 ? 8 : 0));
  }
  values.lost = lost;
  return values;
}

// Four words as the bytes of k 0, 2, 1, 3.
uint32_t InterleavedBytes(const int16_t* words) {
  const auto byte = [&](int i) { return static_cast<uint32_t>(words[i]); };
  return byte(0) | byte(2) << 8 | byte(1) << 16 | byte(3) << 24;
}

// Returns F12Values::lost.
int StoreF12(const WideWords& levels, uint32_t field, int64_t r, std::byte* block) {
  const F12Values values = EncodeF12(levels);
  std::byte* row = block + r * 4;
  for (size_t g = 0; g < 4; ++g) {
    const int16_t* codes = values.codes.data() + g * 8;
    const int16_t* significands = values.significands.data() + g * 8;
    const uint32_t nibbles = InterleavedBytes(codes) | InterleavedBytes(codes + 4) << 4;
    const std::array<uint32_t, 2> bytes = {InterleavedBytes(significands),
                                           InterleavedBytes(significands + 4)};
    std::memcpy(row + g * 128, &bytes[0], 4);
    std::memcpy(row + g * 128 + 64, &bytes[1], 4);
    std::memcpy(row + kF12Nibbles + g * 64, &nibbles, 4);
  }
  block[kF12Exponents + r] = static_cast<std::byte>(field);
  return values.lost;
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
  int lost = 0;
  RoundRowsOf(source, [&](const WideWords& levels, uint32_t field, int64_t r, int64_t b) {
    lost |= StoreF12(levels, field, r, out + b * PackedBlockBytes(PackedKind::kF12S32));
  });
  return lost == 0;
}

}  // namespace tenon
