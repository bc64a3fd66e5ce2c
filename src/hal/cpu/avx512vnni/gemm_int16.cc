// Panels of weights in 14 bits times activations in as many (PackedKind::kI14S32 and kF12S32).
#include "hal/cpu/avx512vnni/avx512vnni_kernels.h"
#include "hal/cpu/avx512vnni/vectors.h"
#include "hal/cpu/f12_panel.h"
#include "hal/cpu/token_tiles.h"

namespace tenon::avx512vnni {
namespace {

constexpr int kPairs = 16;  // vectors of a block: 16 rows x 2 k
constexpr int64_t kVectorBytes = 64;
constexpr int64_t kWideBlockBytes = sizeof(WideBlock);

inline __m512i LoadVector(const std::byte* at) {
  return _mm512_loadu_si512(reinterpret_cast<const void*>(at));
}

// Floats whose exponent fields are the integers, and no other bit.
inline __m512 PowersOfTwo(__m512i fields) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(fields, 23));
}

// The forms of a block of weights: Words(block, pair) are two k of 16 rows, Scales d.
struct I14 {
  static constexpr int64_t kBytes = PackedBlockBytes(PackedKind::kI14S32);

  // Without the exponents' bits, which are in the words of k 0..3.
  static __m512i Words(const std::byte* block, int pair) {
    const __m512i words = LoadVector(block + pair * kVectorBytes);
    return pair < 2 ? _mm512_srai_epi16(words, 2) : words;
  }
  static __m512 Scales(const std::byte* block) {
    const __m512i mask = _mm512_set1_epi16(3);
    const __m512i low = _mm512_and_si512(LoadVector(block), mask);
    const __m512i high = _mm512_and_si512(LoadVector(block + kVectorBytes), mask);
    // Times 1, 4, 16 and 64.
    const __m512i first =
        _mm512_dpwssd_epi32(_mm512_setzero_si512(), low, _mm512_set1_epi32(0x00040001));
    return PowersOfTwo(_mm512_dpwssd_epi32(first, high, _mm512_set1_epi32(0x00400010)));
  }
};

struct F12 {
  static constexpr int64_t kBytes = PackedBlockBytes(PackedKind::kF12S32);

  // A significand times its power of two and sign; the other byte of a word times zero.
  static __m512i Words(const std::byte* block, int pair) {
    const __m512i powers = _mm512_broadcast_i32x4(
        _mm_setr_epi8(1, 2, 4, 8, 16, 32, 0, 0, -1, -2, -4, -8, -16, -32, 0, 0));
    const int v = pair / 2;
    const __m512i nibbles = LoadVector(block + kF12Nibbles + v / 2 * kVectorBytes);
    const __m512i codes = _mm512_and_si512(v % 2 == 0 ? nibbles : _mm512_srli_epi16(nibbles, 4),
                                           _mm512_set1_epi8(15));
    const __m512i kept = _mm512_set1_epi16(pair % 2 == 0 ? 0x00ff : static_cast<int16_t>(0xff00));
    return _mm512_maddubs_epi16(LoadVector(block + v * kVectorBytes),
                                _mm512_and_si512(_mm512_shuffle_epi8(powers, codes), kept));
  }
  static __m512 Scales(const std::byte* block) {
    const auto* bytes = reinterpret_cast<const __m128i*>(block + kF12Exponents);
    return PowersOfTwo(_mm512_cvtepu16_epi32(_mm256_cvtepu8_epi16(_mm_loadu_si128(bytes))));
  }
};

// A block of F12 for many tokens.
struct Unpacked {
  static constexpr int64_t kBytes = kUnpackedBlockBytes;

  static __m512i Words(const std::byte* block, int pair) {
    return LoadVector(block + pair * kVectorBytes);
  }
  static __m512 Scales(const std::byte* block) {
    return _mm512_castsi512_ps(LoadVector(block + kUnpackedScales));
  }
};

template <class Form, int kTokens>
void GemmTokens(const GemmArgs& args, const Stretch& stretch, const std::byte* activations,
                float* out) {
  __m512 acc[kTokens];
  for (int t = 0; t < kTokens; ++t)
    acc[t] = stretch.first == 0 ? _mm512_setzero_ps() : _mm512_loadu_ps(out + t * args.out_stride);
  const std::byte* x = activations + stretch.first * kWideBlockBytes;
  const std::byte* block = stretch.blocks;
  for (int64_t b = 0; b < stretch.count; ++b, block += Form::kBytes, x += kWideBlockBytes) {
    __m512i products[kTokens];
    for (int t = 0; t < kTokens; ++t)
      products[t] = _mm512_setzero_si512();
    for (int pair = 0; pair < kPairs; ++pair) {
      const __m512i weights = Form::Words(block, pair);
      for (int t = 0; t < kTokens; ++t) {
        int32_t values;
        __builtin_memcpy(&values, x + t * args.activation_stride + pair * 4, sizeof(values));
        products[t] = _mm512_dpwssd_epi32(products[t], weights, _mm512_set1_epi32(values));
      }
    }
    const __m512 d = Form::Scales(block);
    for (int t = 0; t < kTokens; ++t) {
      const float scale = LoadFloat(x + t * args.activation_stride + offsetof(WideBlock, scale));
      const __m512 factor = _mm512_mul_ps(d, _mm512_set1_ps(scale));
      acc[t] = _mm512_fmadd_ps(factor, _mm512_cvtepi32_ps(products[t]), acc[t]);
    }
  }
  for (int t = 0; t < kTokens; ++t)
    _mm512_storeu_ps(out + t * args.out_stride, acc[t]);
}

template <class Form>
void MultiplyStretch(const GemmArgs& args, const Stretch& stretch) {
  // Eight sums are what two units with a latency of four or five need.
  RunTilesOf8(args,
              [&]<int kTokens>(const GemmArgs& all, const std::byte* activations, float* out) {
                GemmTokens<Form, kTokens>(all, stretch, activations, out);
              });
}

void Unpack(const std::byte* block, std::byte* out) {
  for (int pair = 0; pair < kPairs; ++pair)
    _mm512_storeu_si512(out + pair * kVectorBytes, F12::Words(block, pair));
  _mm512_storeu_ps(reinterpret_cast<float*>(out + kUnpackedScales), F12::Scales(block));
}

// Tiles unpack the weights for themselves up to here.
constexpr int64_t kFewTokens = 4;

}  // namespace

void GemmI14S32(const GemmArgs& args) {
  MultiplyStretch<I14>(args, WholePanel(args));
}

void GemmF12S32(const GemmArgs& args) {
  if (args.tokens <= kFewTokens)
    return MultiplyStretch<F12>(args, WholePanel(args));
  RunUnpacked(args, Unpack,
              [&](const Stretch& stretch) { MultiplyStretch<Unpacked>(args, stretch); });
}

}  // namespace tenon::avx512vnni
