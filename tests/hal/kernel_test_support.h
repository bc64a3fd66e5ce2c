// What the kernel tests share: random inputs, panels in every layout, and an independent reading of
// the packed formats (from the words of hal/kernel_set.h, not from the kernels' own tables).
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "hal/cpu/kernel_sets.h"
#include "hal/kernel_registry.h"
#include "hal/kernel_set.h"
#include "quant/half.h"

namespace tenon::kernel_test {

using Bytes = std::vector<std::byte>;
using Floats = std::vector<float>;

inline constexpr const char* kKindNames[kPackedKindCount] = {
    "F32",    "F16",          "BF16",  "I14S32", "F12S32", "U4S32", "U4S32M",
    "U4S16M", "Codebook4S32", "U5S32", "U5S32M", "U6S16",  "U8S32"};

// Spans both ends of int8, so that a kernel's signed products are tried at their limits.
inline constexpr int8_t kTestCodebook[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                             1,    13,   25,  38,  53,  69,  89,  127};

class Random {
 public:
  explicit Random(uint32_t seed) : engine_(seed) {}
  float Uniform(float low, float high) {
    return std::uniform_real_distribution<float>(low, high)(engine_);
  }
  float Normal() { return std::normal_distribution<float>()(engine_); }
  int64_t Integer(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(engine_);
  }
  std::byte Byte() { return static_cast<std::byte>(engine_() & 255u); }
  Floats Normals(int64_t n) {
    Floats values(static_cast<size_t>(n));
    for (float& value : values)
      value = Normal();
    return values;
  }

 private:
  std::mt19937 engine_;
};

template <class T>
T LoadAs(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

template <class T>
void StoreAs(std::byte* at, T value) {
  std::memcpy(at, &value, sizeof(T));
}

// Bytes of quants at the start of a k-block of a quantized kind.
inline int64_t QuantBytes(PackedKind kind) {
  switch (kind) {
    case PackedKind::kU5S32:
    case PackedKind::kU5S32M:
      return 320;
    case PackedKind::kU6S16:
      return 384;
    case PackedKind::kU8S32:
      return 512;
    default:
      return 256;
  }
}

// One weight of a packed panel: value = d * q + m.
struct PanelValue {
  int q;
  float d;
  float m;
};

inline float HalfAt(const std::byte* at) {
  return F16ToF32(LoadAs<uint16_t>(at));
}

// d and m of row r for the group of position i (0..31).
inline PanelValue ScalesAt(PackedKind kind, const std::byte* block, int64_t r, int64_t i) {
  const std::byte* scales = block + QuantBytes(kind);
  const int64_t group = i / 16;
  switch (kind) {
    case PackedKind::kU4S32:
      return {0, HalfAt(scales + r * 2), -8.0f * HalfAt(scales + r * 2)};
    case PackedKind::kU8S32:
      return {0, HalfAt(scales + r * 2), -128.0f * HalfAt(scales + r * 2)};
    case PackedKind::kU5S32:
      return {0, HalfAt(scales + r * 2), -16.0f * HalfAt(scales + r * 2)};
    case PackedKind::kU4S32M:
    case PackedKind::kU5S32M:
      return {0, HalfAt(scales + r * 2), HalfAt(scales + 32 + r * 2)};
    case PackedKind::kU4S16M:
      return {0, HalfAt(scales + group * 64 + r * 2), HalfAt(scales + group * 64 + 32 + r * 2)};
    case PackedKind::kU6S16:
      return {0, HalfAt(scales + group * 32 + r * 2), -32.0f * HalfAt(scales + group * 32 + r * 2)};
    default:
      return {0, LoadAs<float>(scales + r * 4), -128.0f * LoadAs<float>(scales + r * 4)};
  }
}

// The same of kI14S32: d is a power of two.
inline PanelValue WideAt(const std::byte* panel, int64_t r, int64_t i) {
  const std::byte* block = panel + i / 32 * PackedBlockBytes(PackedKind::kI14S32);
  const auto word = [&](int64_t k) {
    return LoadAs<int16_t>(block + k / 2 * 64 + r * 4 + k % 2 * 2);
  };
  int exponent = 0;
  for (int64_t k = 3; k >= 0; --k)
    exponent = exponent * 4 + (word(k) & 3);
  const float d =
      exponent == 255 ? std::numeric_limits<float>::infinity() : std::ldexp(1.0f, exponent - 127);
  const int value = word(i % 32);
  return {i % 32 < 4 ? (value - (value & 3)) / 4 : value, d, 0.0f};
}

// The same of kF12S32.
inline PanelValue F12At(const std::byte* panel, int64_t r, int64_t i) {
  const std::byte* block = panel + i / 32 * PackedBlockBytes(PackedKind::kF12S32);
  const int64_t v = i % 32 / 4;
  const int64_t byte = 4 * r + 2 * (i % 2) + i / 2 % 2;
  const int codes = std::to_integer<int>(block[512 + v / 2 * 64 + byte]);
  const int code = v % 2 == 0 ? codes % 16 : codes / 16;
  const int exponent = std::to_integer<int>(block[768 + r]);
  const float d =
      exponent == 255 ? std::numeric_limits<float>::infinity() : std::ldexp(1.0f, exponent - 127);
  const int level = std::to_integer<int>(block[v * 64 + byte]) * (1 << code % 8);
  return {code < 8 ? level : -level, d, 0.0f};
}

// Of the kinds that meet activations of 16 bits.
inline PanelValue LevelAt(PackedKind kind, const std::byte* panel, int64_t r, int64_t i) {
  return kind == PackedKind::kI14S32 ? WideAt(panel, r, i) : F12At(panel, r, i);
}

// Row r, position i of k, of a panel of a quantized kind.
inline PanelValue QuantizedAt(PackedKind kind, const std::byte* panel, int64_t r, int64_t i,
                              const int8_t* codebook) {
  if (FormFor(kind) == ActivationForm::kInt16)
    return LevelAt(kind, panel, r, i);
  const std::byte* block = panel + i / 32 * PackedBlockBytes(kind);
  const int64_t step = i % 32 / 4;
  const int64_t byte = r * 4 + i % 4;
  PanelValue value = ScalesAt(kind, block, r, i % 32);
  if (QuantBytes(kind) == 512) {
    value.q = std::to_integer<int>(block[step * 64 + byte]);
    return value;
  }
  const int pair = std::to_integer<int>(block[step % 4 * 64 + byte]);
  value.q = step < 4 ? pair % 16 : pair / 16;
  if (QuantBytes(kind) == 320)
    value.q += (std::to_integer<int>(block[256 + byte]) >> step) % 2 * 16;
  if (QuantBytes(kind) == 384)
    value.q += (std::to_integer<int>(block[256 + step / 4 * 64 + byte]) >> step % 4 * 2) % 4 * 16;
  if (kind == PackedKind::kCodebook4S32)
    value.q = codebook[value.q] + 128;
  return value;
}

inline double FloatWeightAt(PackedKind kind, const std::byte* panel, int64_t r, int64_t i) {
  if (kind == PackedKind::kF32)
    return LoadAs<float>(panel + (i * 16 + r) * 4);
  const auto bits = LoadAs<uint16_t>(panel + (i * 16 + r) * 2);
  return kind == PackedKind::kF16 ? F16ToF32(bits) : BF16ToF32(bits);
}

// A word of kI14S32 at position i of k: the level, in the first four with two bits of the exponent.
inline int16_t WideWord(int64_t level, int exponent, int64_t i) {
  const int64_t k = i % 32;
  return static_cast<int16_t>(k < 4 ? level * 4 + (exponent >> 2 * k & 3) : level);
}

inline void StoreWideWord(std::byte* panel, int64_t r, int64_t i, int16_t word) {
  std::byte* block = panel + i / 32 * PackedBlockBytes(PackedKind::kI14S32);
  StoreAs(block + i % 32 / 2 * 64 + r * 4 + i % 2 * 2, word);
}

// Some blocks all zero, some with levels at their limits.
inline Bytes RandomWidePanel(int64_t k, Random* random) {
  Bytes panel(static_cast<size_t>(PackedPanelBytes(PackedKind::kI14S32, k)));
  for (int64_t r = 0; r < 16; ++r) {
    for (int64_t b = 0; b < k; b += 32) {
      const int64_t most = random->Integer(0, 9) == 0 ? 0 : kMostWideLevel;
      const auto exponent = static_cast<int>(random->Integer(105, 125));
      const bool at_limits = random->Integer(0, 9) == 0;
      for (int64_t i = b; i < b + 32; ++i) {
        const int64_t level = at_limits ? most : random->Integer(-most, most);
        StoreWideWord(panel.data(), r, i, WideWord(level, exponent, i));
      }
    }
  }
  return panel;
}

// Some blocks all zero, some with one code everywhere.
inline Bytes RandomF12Panel(int64_t k, Random* random) {
  Bytes panel(static_cast<size_t>(PackedPanelBytes(PackedKind::kF12S32, k)));
  const auto code = [&] { return random->Integer(0, 5) + 8 * random->Integer(0, 1); };
  for (int64_t b = 0; b < k / 32; ++b) {
    std::byte* block = panel.data() + b * PackedBlockBytes(PackedKind::kF12S32);
    const bool is_zero = random->Integer(0, 9) == 0;
    for (int64_t i = 0; i < 512; ++i)
      block[i] = is_zero ? std::byte{0} : random->Byte();
    const bool is_even = random->Integer(0, 3) == 0;
    const int64_t every = code();
    for (int64_t i = 512; i < 768; ++i)
      block[i] = static_cast<std::byte>(is_even ? every * 17 : code() + 16 * code());
    for (int64_t i = 768; i < 784; ++i)
      block[i] = static_cast<std::byte>(random->Integer(105, 125));
  }
  return panel;
}

// A panel of random quants and scales, some groups all zero.
inline Bytes RandomPanel(PackedKind kind, int64_t k, Random* random) {
  if (kind == PackedKind::kI14S32)
    return RandomWidePanel(k, random);
  if (kind == PackedKind::kF12S32)
    return RandomF12Panel(k, random);
  Bytes panel(static_cast<size_t>(PackedPanelBytes(kind, k)));
  if (!IsQuantizedKind(kind)) {
    for (int64_t i = 0; i < k * 16; ++i) {
      const float w = random->Normal();
      if (kind == PackedKind::kF32)
        StoreAs(panel.data() + i * 4, w);
      else
        StoreAs(panel.data() + i * 2, kind == PackedKind::kF16 ? F32ToF16(w) : F32ToBF16(w));
    }
    return panel;
  }
  const int64_t block_bytes = PackedBlockBytes(kind);
  for (int64_t b = 0; b < k / 32; ++b) {
    std::byte* block = panel.data() + b * block_bytes;
    for (int64_t i = 0; i < QuantBytes(kind); ++i)
      block[i] = random->Byte();
    const int64_t size = kind == PackedKind::kCodebook4S32 ? 4 : 2;
    for (int64_t at = QuantBytes(kind); at < block_bytes; at += size) {
      const float scale = random->Integer(0, 9) == 0 ? 0.0f : random->Uniform(-0.1f, 0.1f);
      if (size == 4)
        StoreAs(block + at, scale);
      else
        StoreAs(block + at, F32ToF16(scale));
    }
  }
  return panel;
}

// Rows of activations for a kind, `stride` bytes apart; the bytes between them are 0xff.
struct Activations {
  Bytes bytes;
  int64_t stride = 0;
};

inline int64_t ActivationBytes(PackedKind kind, int64_t k) {
  return ActivationRowBytes(FormFor(kind), k);
}

inline Activations MakeActivations(PackedKind kind, const Floats& x, int64_t k, int64_t tokens) {
  Activations result;
  result.stride = ActivationBytes(kind, k) + 20;
  result.bytes.assign(static_cast<size_t>(result.stride * tokens), std::byte{0xff});
  for (int64_t t = 0; t < tokens; ++t) {
    std::byte* row = result.bytes.data() + t * result.stride;
    if (FormFor(kind) == ActivationForm::kInt8)
      kRefKernelSet.quantize_row(x.data() + t * k, k, row);
    else if (FormFor(kind) == ActivationForm::kInt16)
      kRefKernelSet.quantize_wide_row(x.data() + t * k, k, row);
    else
      std::memcpy(row, x.data() + t * k, static_cast<size_t>(k) * 4);
  }
  return result;
}

// Random activations with a group of zeros here and there.
inline Activations RandomActivations(PackedKind kind, int64_t k, int64_t tokens, Random* random) {
  Floats x = random->Normals(k * tokens);
  for (size_t i = 0; i + 16 <= x.size(); i += 16) {
    if (random->Integer(0, 9) == 0)
      std::fill_n(x.begin() + static_cast<int64_t>(i), 16, 0.0f);
  }
  return MakeActivations(kind, x, k, tokens);
}

inline bool SameBits(float a, float b) {
  return std::memcmp(&a, &b, 4) == 0;
}

// The first place where two arrays differ in their bits, or "".
inline std::string FirstDifference(const Floats& expected, const Floats& actual) {
  if (expected.size() != actual.size())
    return "sizes differ";
  for (size_t i = 0; i < expected.size(); ++i) {
    if (!SameBits(expected[i], actual[i]))
      return "element " + std::to_string(i) + ": expected " + std::to_string(expected[i]) +
             ", got " + std::to_string(actual[i]);
  }
  return "";
}

}  // namespace tenon::kernel_test
