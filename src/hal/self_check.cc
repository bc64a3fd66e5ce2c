#include "hal/self_check.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <iterator>
#include <string_view>
#include <vector>

#include "fmt/format.h"
#include "hal/cpu/f12_panel.h"
#include "hal/cpu/kernel_sets.h"
#include "hal/kv_type.h"

namespace tenon {
namespace {

// Two k-blocks; a full AMX tile, a short one of eight and one token left to the vector kernels.
constexpr int64_t kK = 64;
constexpr int64_t kTokens = 25;

// Two blocks of the KV cache, the second one partly seen unless it is packed, and heads in a group
// of four and one.
constexpr int64_t kHeads = 5;
constexpr int64_t kHeadDim = 40;
constexpr int64_t kFirstKey = 3;
constexpr int64_t kKeys = 45;
constexpr int64_t kBlocks = 2;

constexpr int8_t kCodebook[16] = {-127, -90, -60, -40, -25, -12, -5, -1,
                                  0,    3,   8,   17,  33,  56,  88, 127};

constexpr std::string_view kKindNames[kPackedKindCount] = {
    "f32",      "f16",           "bf16",   "i14 s32",  "f12 s32", "u4 s32", "u4 s32 m",
    "u4 s16 m", "codebook4 s32", "u5 s32", "u5 s32 m", "u6 s16",  "u8 s32"};

// The same numbers on every run (Knuth's 64-bit linear congruential generator).
class Numbers {
 public:
  uint32_t Next() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<uint32_t>(state_ >> 33);
  }
  // Uniform in -1..1.
  float NextFloat() { return static_cast<float>(Next()) * 0x1p-30f - 1.0f; }

 private:
  uint64_t state_ = 1;
};

std::vector<float> RandomFloats(int64_t count, Numbers& numbers) {
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values)
    value = numbers.NextFloat();
  return values;
}

// A panel of bytes that are finite as floats of any of the formats: exponents keep to the middle.
std::vector<std::byte> RandomPanel(PackedKind kind, Numbers& numbers) {
  std::vector<std::byte> panel(static_cast<size_t>(PackedPanelBytes(kind, kK)));
  for (size_t i = 0; i < panel.size(); ++i)
    panel[i] = static_cast<std::byte>(i % 2 == 0 ? numbers.Next() : 0x30 | (numbers.Next() & 0x8f));
  return panel;
}

// The same of kI14S32: levels in their range, exponents in the middle.
std::vector<std::byte> RandomWidePanel(Numbers& numbers) {
  constexpr int64_t kVectorWords = 2 * kPanelRows;
  constexpr int64_t kBlockWords = kActivationBlockValues * kPanelRows;
  std::vector<std::byte> panel(static_cast<size_t>(PackedPanelBytes(PackedKind::kI14S32, kK)));
  for (int64_t i = 0; i < kK * kPanelRows; ++i) {
    const int64_t k = i % kBlockWords / kVectorWords * 2 + i % 2;
    const auto level = static_cast<int32_t>(numbers.Next() % (2 * kMostWideLevel)) - kMostWideLevel;
    // Bits 4 to 6 of the exponent are set: 112 and up to 15.
    const auto exponent = k == 2 ? 3U : k == 3 ? 1U : numbers.Next() & 3U;
    const int32_t word = k < 4 ? level * 4 + static_cast<int32_t>(exponent) : level;
    const auto stored = static_cast<int16_t>(word);
    std::memcpy(panel.data() + i * 2, &stored, sizeof(stored));
  }
  return panel;
}

// The same of kF12S32: shifts in their range.
std::vector<std::byte> RandomF12Panel(Numbers& numbers) {
  std::vector<std::byte> panel(static_cast<size_t>(PackedPanelBytes(PackedKind::kF12S32, kK)));
  const auto code = [&] { return (numbers.Next() % 6) | (numbers.Next() & 8U); };
  for (int64_t i = 0; i < std::ssize(panel); ++i) {
    const int64_t at = i % PackedBlockBytes(PackedKind::kF12S32);
    uint32_t byte = numbers.Next();
    if (at >= kF12Exponents)
      byte = 0x70U | (byte & 15U);
    else if (at >= kF12Nibbles)
      byte = code() | code() << 4;
    panel[static_cast<size_t>(i)] = static_cast<std::byte>(byte);
  }
  return panel;
}

std::vector<std::byte> PanelOf(PackedKind kind, Numbers& numbers) {
  if (kind == PackedKind::kI14S32)
    return RandomWidePanel(numbers);
  return kind == PackedKind::kF12S32 ? RandomF12Panel(numbers) : RandomPanel(kind, numbers);
}

std::vector<std::byte> ActivationRows(const std::vector<float>& x, PackedKind kind) {
  const ActivationForm form = FormFor(kind);
  if (form == ActivationForm::kFloat) {
    const auto* bytes = reinterpret_cast<const std::byte*>(x.data());
    return {bytes, bytes + x.size() * sizeof(float)};
  }
  const QuantizeRowFn quantize =
      form == ActivationForm::kInt16 ? kRefKernelSet.quantize_wide_row : kRefKernelSet.quantize_row;
  const int64_t stride = ActivationRowBytes(form, kK);
  std::vector<std::byte> rows(static_cast<size_t>(kTokens * stride));
  for (int64_t t = 0; t < kTokens; ++t)
    quantize(x.data() + t * kK, kK, rows.data() + t * stride);
  return rows;
}

std::vector<float> Multiply(GemmFn gemm, PackedKind kind, const std::vector<std::byte>& panel,
                            const std::vector<std::byte>& rows) {
  std::vector<float> out(static_cast<size_t>(kTokens * kPanelRows));
  gemm({.panel = panel.data(),
        .k = kK,
        .activations = rows.data(),
        .activation_stride = ActivationRowBytes(FormFor(kind), kK),
        .tokens = kTokens,
        .codebook = kCodebook,
        .out = out.data(),
        .out_stride = kPanelRows});
  return out;
}

// One part of a cache of kBlocks blocks: keys or values.
using CachePart = std::vector<std::byte>;

struct Cache {
  CachePart keys;
  CachePart values;
};

// Bytes from block to block, the same for keys and values.
int64_t CacheStride(KvType type) {
  return std::max(KvKeyBytes(type, kHeadDim), KvValueBytes(type, kHeadDim));
}

Cache EmptyCache(KvType type) {
  const auto bytes = static_cast<size_t>(kBlocks * CacheStride(type));
  return {CachePart(bytes), CachePart(bytes)};
}

Cache FillFloatCache(const KernelSet& set, KvType type, const std::vector<float>& input) {
  Cache cache = EmptyCache(type);
  for (int64_t j = 0; j < kBlocks * kKvBlockTokens; ++j) {
    const int64_t offset = j / kKvBlockTokens * CacheStride(type);
    set.kv_store[static_cast<size_t>(type)]({.key = input.data() + j,
                                             .value = input.data() + 2 * j,
                                             .head_dim = kHeadDim,
                                             .slot = j % kKvBlockTokens,
                                             .key_block = cache.keys.data() + offset,
                                             .value_block = cache.values.data() + offset});
  }
  return cache;
}

Cache FillPackedCache(const KernelSet& set, KvType type, const std::vector<float>& input) {
  const Cache f16 = FillFloatCache(set, KvType::kF16, input);
  Cache cache = EmptyCache(type);
  for (int64_t i = 0; i < kBlocks; ++i) {
    const int64_t offset = i * CacheStride(type);
    const int64_t f16_offset = i * CacheStride(KvType::kF16);
    set.kv_seal[static_cast<size_t>(type)]({.f16_keys = f16.keys.data() + f16_offset,
                                            .f16_values = f16.values.data() + f16_offset,
                                            .head_dim = kHeadDim,
                                            .key_block = cache.keys.data() + offset,
                                            .value_block = cache.values.data() + offset});
  }
  return cache;
}

std::vector<float> Attend(const KernelSet& set, KvType type, const std::vector<float>& input) {
  const bool packed = IsPackedKv(type);
  const Cache cache = packed ? FillPackedCache(set, type, input) : FillFloatCache(set, type, input);
  const int32_t table[kBlocks] = {0, 1};
  std::vector<float> out(static_cast<size_t>(kHeads * kHeadDim));
  set.attention[static_cast<size_t>(type)]({.query = input.data() + 3,
                                            .heads = kHeads,
                                            .head_dim = kHeadDim,
                                            .keys = cache.keys.data(),
                                            .values = cache.values.data(),
                                            .block_stride = CacheStride(type),
                                            .block_table = table,
                                            .begin = kFirstKey,
                                            .end = packed ? kBlocks * kKvBlockTokens : kKeys,
                                            .scale = 0.5f,
                                            .softcap = 0.0f,
                                            .out = out.data()});
  return out;
}

Status Compare(const KernelSet& set, std::string_view kernel, const std::vector<float>& found,
               const std::vector<float>& expected) {
  for (size_t i = 0; i < expected.size(); ++i) {
    if (std::bit_cast<uint32_t>(found[i]) != std::bit_cast<uint32_t>(expected[i]))
      return MakeError(
          ErrorCode::kInternal,
          fmt::format("{} computes {} at {} where {} is expected; TENON_CPU can choose "
                      "another kernel set",
                      kernel, found[i], i, expected[i]),
          fmt::format("kernel set {}", set.name));
  }
  return {};
}

Status CheckGemm(const KernelSet& set, int kind_index, Numbers& numbers) {
  const auto kind = static_cast<PackedKind>(kind_index);
  const std::vector<std::byte> panel = PanelOf(kind, numbers);
  const std::vector<std::byte> rows = ActivationRows(RandomFloats(kTokens * kK, numbers), kind);
  return Compare(set, fmt::format("the matrix product of {}", kKindNames[kind_index]),
                 Multiply(set.gemm[kind_index], kind, panel, rows),
                 Multiply(kRefKernelSet.gemm[kind_index], kind, panel, rows));
}

// A row of kK quantized activations as floats: only compared, never computed with.
using QuantizedRow = std::vector<float>;

template <class Quantize>
QuantizedRow QuantizedBy(Quantize quantize) {
  // The longest form; the wide one leaves zeros.
  QuantizedRow row(static_cast<size_t>(ActivationRowBytes(ActivationForm::kInt8, kK)) /
                   sizeof(float));
  quantize(reinterpret_cast<std::byte*>(row.data()));
  return row;
}

QuantizedRow QuantizeBlocks(QuantizeBlockFn quantize, const std::vector<float>& x) {
  return QuantizedBy([&](std::byte* row) {
    for (int64_t b = 0; b < kK / kActivationBlockValues; ++b)
      quantize(x.data() + b * kActivationBlockValues, row, kK, b);
  });
}

Status CheckQuantization(const KernelSet& set, Numbers& numbers) {
  constexpr std::string_view kKernel = "the quantization of activations";
  const std::vector<float> x = RandomFloats(kK, numbers);
  for (const auto kernel : {&KernelSet::quantize_block, &KernelSet::quantize_wide_block})
    TENON_RETURN_IF_ERROR(Compare(set, kKernel, QuantizeBlocks(set.*kernel, x),
                                  QuantizeBlocks(kRefKernelSet.*kernel, x)));
  for (const auto kernel : {&KernelSet::quantize_row, &KernelSet::quantize_row_per_token,
                            &KernelSet::quantize_wide_row}) {
    const auto by = [&](const KernelSet& from) {
      return QuantizedBy([&](std::byte* row) { (from.*kernel)(x.data(), kK, row); });
    };
    TENON_RETURN_IF_ERROR(Compare(set, kKernel, by(set), by(kRefKernelSet)));
  }
  return {};
}

Status CheckAttention(const KernelSet& set, int type_index, Numbers& numbers) {
  const auto type = static_cast<KvType>(type_index);
  const std::vector<float> input =
      RandomFloats(kHeads * kHeadDim + 2 * kBlocks * kKvBlockTokens + kHeadDim, numbers);
  return Compare(set, fmt::format("attention over {} keys", KvTypeName(type)),
                 Attend(set, type, input), Attend(kRefKernelSet, type, input));
}

}  // namespace

Status SelfCheck(const KernelSet& set) {
  Numbers numbers;
  TENON_RETURN_IF_ERROR(CheckQuantization(set, numbers));
  for (int kind = 0; kind < kPackedKindCount; ++kind)
    TENON_RETURN_IF_ERROR(CheckGemm(set, kind, numbers));
  for (int type = 0; type < kKvTypeCount; ++type)
    TENON_RETURN_IF_ERROR(CheckAttention(set, type, numbers));
  return {};
}

}  // namespace tenon
