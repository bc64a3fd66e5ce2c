#include "hal/cpu/f12_panel.h"
#include "hal/cpu/panel_layout.h"
#include "hal/cpu/ref/ref_kernels.h"
#include "hal/cpu/scalar_half.h"

namespace tenon::ref {
namespace {

template <class T>
T Load(const std::byte* at) {
  T value;
  __builtin_memcpy(&value, at, sizeof(T));
  return value;
}

float LoadHalf(const std::byte* at) {
  return ScalarF16ToF32(Load<uint16_t>(at));
}

// Stored value of row r at position i (0..31) of a k-block.
template <PackedKind kKind>
int32_t QuantAt(const std::byte* block, int64_t r, int64_t i, const int8_t* codebook) {
  constexpr PanelLayout kLayout = LayoutOf(kKind);
  const int64_t step = i / 4;
  const int64_t within = r * 4 + i % 4;
  if constexpr (!kLayout.nibbles) {
    return static_cast<int32_t>(block[step * 64 + within]);
  }
  const int32_t pair = static_cast<int32_t>(block[step % 4 * 64 + within]);
  const int32_t low = step < 4 ? pair & 15 : pair >> 4;
  int32_t high = 0;
  if constexpr (kLayout.high_bits > 0) {
    const HighBitsPlace place = PlaceOfHighBits(kLayout.high_bits, static_cast<int>(step));
    const int32_t bits = static_cast<int32_t>(block[place.offset + within]);
    high = (place.shift >= 0 ? bits << place.shift : bits >> -place.shift) & place.mask;
  }
  const int32_t q = low | high;
  if constexpr (kLayout.codebook) {
    return codebook[q] + kLayout.zero_point;
  }
  return q;
}

struct GroupScale {
  float d;
  float m;
};

template <PackedKind kKind>
GroupScale ScaleAt(const std::byte* block, int64_t r, int64_t group) {
  constexpr PanelLayout kLayout = LayoutOf(kKind);
  const std::byte* scales = block + kLayout.scales_offset + group * kLayout.group_stride;
  const float d = kLayout.codebook ? Load<float>(scales + r * 4) : LoadHalf(scales + r * 2);
  if constexpr (kLayout.stored_minima) {
    return {d, LoadHalf(scales + kLayout.minima_offset + r * 2)};
  }
  return {d, static_cast<float>(-kLayout.zero_point) * d};
}

// Dot product of group `group` of a block with row r.
template <PackedKind kKind>
int32_t GroupDot(const GemmArgs& args, const std::byte* block, const int8_t* q, int64_t r,
                 int64_t group) {
  int32_t dot = 0;
  for (int64_t i = group * kActivationGroup; i < (group + 1) * kActivationGroup; ++i) {
    dot += QuantAt<kKind>(block, r, i, args.codebook) * q[i];
  }
  return dot;
}

float AddTerms(float acc, GroupScale scale, float step, int32_t product, float sum) {
  acc = __builtin_fmaf(scale.d * step, static_cast<float>(product), acc);
  return __builtin_fmaf(scale.m, sum, acc);
}

// One output: row r of the panel times one activation row.
template <PackedKind kKind>
float QuantizedDot(const GemmArgs& args, const std::byte* row, int64_t r) {
  constexpr PanelLayout kLayout = LayoutOf(kKind);
  float acc = 0.0f;
  for (int64_t b = 0; b < args.k / kActivationBlockValues; ++b) {
    const std::byte* block = args.panel + b * kLayout.block_bytes;
    const auto whole = Load<WholeBlock>(row + b * kWholeBlockBytes);
    const auto x = Load<GroupsBlock>(row + GroupsBlocksOffset(args.k) + b * kGroupsBlockBytes);
    const int32_t first = GroupDot<kKind>(args, block, x.q, r, 0);
    const int32_t second = GroupDot<kKind>(args, block, x.q, r, 1);
    const GroupScale scale = ScaleAt<kKind>(block, r, 0);
    if constexpr (kLayout.group_scales) {
      acc = AddTerms(acc, scale, x.step[0], first, x.sum[0]);
      acc = AddTerms(acc, ScaleAt<kKind>(block, r, 1), x.step[1], second, x.sum[1]);
    } else {
      const int32_t both = whole.multiplier[0] * first + whole.multiplier[1] * second;
      acc = AddTerms(acc, scale, whole.scale, both, whole.sum);
    }
  }
  return acc;
}

template <PackedKind kKind>
void QuantizedGemm(const GemmArgs& args) {
  for (int64_t t = 0; t < args.tokens; ++t) {
    const std::byte* activations = args.activations + t * args.activation_stride;
    for (int64_t r = 0; r < kPanelRows; ++r) {
      args.out[t * args.out_stride + r] = QuantizedDot<kKind>(args, activations, r);
    }
  }
}

int16_t WordAt(const std::byte* block, int64_t r, int64_t i) {
  return Load<int16_t>(block + i / 2 * 64 + r * 4 + i % 2 * 2);
}

// q of row r at position i (0..31) of a block, and the byte e that d comes from.
struct I14 {
  static constexpr PackedKind kKind = PackedKind::kI14S32;
  static int32_t Level(const std::byte* block, int64_t r, int64_t i) {
    const int32_t word = WordAt(block, r, i);
    return i < 4 ? word >> 2 : word;
  }
  static uint32_t Exponent(const std::byte* block, int64_t r) {
    uint32_t exponent = 0;
    for (int64_t i = 0; i < 4; ++i)
      exponent |= (static_cast<uint32_t>(WordAt(block, r, i)) & 3u) << 2 * i;
    return exponent;
  }
};

struct F12 {
  static constexpr PackedKind kKind = PackedKind::kF12S32;
  static int32_t Level(const std::byte* block, int64_t r, int64_t i) {
    const int64_t v = i / 4;
    const int64_t byte = r * 4 + i % 2 * 2 + i / 2 % 2;
    const auto significand = static_cast<int32_t>(block[v * 64 + byte]);
    const auto pair = static_cast<int32_t>(block[kF12Nibbles + v / 2 * 64 + byte]);
    const int32_t code = v % 2 == 0 ? pair & 15 : pair >> 4;
    const int32_t level = significand << (code & 7);
    return code < 8 ? level : -level;
  }
  static uint32_t Exponent(const std::byte* block, int64_t r) {
    return static_cast<uint32_t>(block[kF12Exponents + r]);
  }
};

// Row r of a block of weights times a block of activations.
template <class Form>
int32_t WideDot(const std::byte* block, const WideBlock& x, int64_t r) {
  int32_t dot = 0;
  for (int64_t i = 0; i < kActivationBlockValues; ++i)
    dot += Form::Level(block, r, i) * x.q[i];
  return dot;
}

template <class Form>
void WideGemm(const GemmArgs& args) {
  for (int64_t t = 0; t < args.tokens; ++t) {
    const std::byte* row = args.activations + t * args.activation_stride;
    for (int64_t r = 0; r < kPanelRows; ++r) {
      float acc = 0.0f;
      for (int64_t b = 0; b < args.k / kActivationBlockValues; ++b) {
        const std::byte* block = args.panel + b * PackedBlockBytes(Form::kKind);
        const auto x = Load<WideBlock>(row + b * static_cast<int64_t>(sizeof(WideBlock)));
        const auto d = __builtin_bit_cast(float, Form::Exponent(block, r) << 23);
        acc = __builtin_fmaf(d * x.scale, static_cast<float>(WideDot<Form>(block, x, r)), acc);
      }
      args.out[t * args.out_stride + r] = acc;
    }
  }
}

float LoadWeight(const std::byte* panel, int64_t index, PackedKind kind) {
  if (kind == PackedKind::kF32) {
    return Load<float>(panel + index * 4);
  }
  const auto bits = Load<uint16_t>(panel + index * 2);
  return kind == PackedKind::kF16 ? ScalarF16ToF32(bits) : ScalarBF16ToF32(bits);
}

template <PackedKind kKind>
void FloatGemm(const GemmArgs& args) {
  for (int64_t t = 0; t < args.tokens; ++t) {
    const std::byte* x = args.activations + t * args.activation_stride;
    for (int64_t r = 0; r < kPanelRows; ++r) {
      float acc = 0.0f;
      for (int64_t i = 0; i < args.k; ++i) {
        const float weight = LoadWeight(args.panel, i * kPanelRows + r, kKind);
        acc = __builtin_fmaf(weight, Load<float>(x + i * 4), acc);
      }
      args.out[t * args.out_stride + r] = acc;
    }
  }
}

}  // namespace

void GemmF32(const GemmArgs& args) {
  FloatGemm<PackedKind::kF32>(args);
}
void GemmF16(const GemmArgs& args) {
  FloatGemm<PackedKind::kF16>(args);
}
void GemmBF16(const GemmArgs& args) {
  FloatGemm<PackedKind::kBF16>(args);
}
void GemmI14S32(const GemmArgs& args) {
  WideGemm<I14>(args);
}
void GemmF12S32(const GemmArgs& args) {
  WideGemm<F12>(args);
}
void GemmU4S32(const GemmArgs& args) {
  QuantizedGemm<PackedKind::kU4S32>(args);
}
void GemmU4S32M(const GemmArgs& args) {
  QuantizedGemm<PackedKind::kU4S32M>(args);
}
void GemmU4S16M(const GemmArgs& args) {
  QuantizedGemm<PackedKind::kU4S16M>(args);
}
void GemmCodebook4S32(const GemmArgs& args) {
  QuantizedGemm<PackedKind::kCodebook4S32>(args);
}
void GemmU5S32(const GemmArgs& args) {
  QuantizedGemm<PackedKind::kU5S32>(args);
}
void GemmU5S32M(const GemmArgs& args) {
  QuantizedGemm<PackedKind::kU5S32M>(args);
}
void GemmU6S16(const GemmArgs& args) {
  QuantizedGemm<PackedKind::kU6S16>(args);
}
void GemmU8S32(const GemmArgs& args) {
  QuantizedGemm<PackedKind::kU8S32>(args);
}

}  // namespace tenon::ref
