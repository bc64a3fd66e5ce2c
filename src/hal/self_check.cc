#include "hal/self_check.h"

#include <cstring>
#include <string_view>
#include <vector>

#include "fmt/format.h"
#include "hal/cpu/kernel_sets.h"

namespace tenon {
namespace {

// Two k-blocks; a full AMX tile, a short one of eight and one token left to the vector kernels.
constexpr int64_t kK = 64;
constexpr int64_t kTokens = 25;

// Two blocks of the KV cache, the second one partly used, and heads in a group of four and one.
constexpr int64_t kHeads = 5;
constexpr int64_t kHeadDim = 40;
constexpr int64_t kFirstKey = 3;
constexpr int64_t kKeys = 45;
constexpr int64_t kBlocks = 2;

constexpr int8_t kCodebook[16] = {-127, -90, -60, -40, -25, -12, -5, -1,
                                  0,    3,   8,   17,  33,  56,  88, 127};

constexpr std::string_view kKindNames[kPackedKindCount] = {
    "f32",           "f16",    "bf16",     "u4 s32", "u4 s32 m", "u4 s16 m",
    "codebook4 s32", "u5 s32", "u5 s32 m", "u6 s16", "u8 s32"};
constexpr std::string_view kKvNames[kKvTypeCount] = {"f32", "f16", "bf16"};

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

std::vector<std::byte> ActivationRows(const std::vector<float>& x, PackedKind kind) {
  if (!IsQuantizedKind(kind)) {
    const auto* bytes = reinterpret_cast<const std::byte*>(x.data());
    return {bytes, bytes + x.size() * sizeof(float)};
  }
  std::vector<std::byte> rows(static_cast<size_t>(kTokens * ActivationRowBytes(kK)));
  for (int64_t t = 0; t < kTokens; ++t)
    kRefKernelSet.quantize_row(x.data() + t * kK, kK, rows.data() + t * ActivationRowBytes(kK));
  return rows;
}

std::vector<float> Multiply(GemmFn gemm, PackedKind kind, const std::vector<std::byte>& panel,
                            const std::vector<std::byte>& rows) {
  std::vector<float> out(static_cast<size_t>(kTokens * kPanelRows));
  gemm({.panel = panel.data(),
        .k = kK,
        .activations = rows.data(),
        .activation_stride = IsQuantizedKind(kind) ? ActivationRowBytes(kK) : kK * 4,
        .tokens = kTokens,
        .codebook = kCodebook,
        .out = out.data(),
        .out_stride = kPanelRows});
  return out;
}

std::vector<float> Attend(const KernelSet& set, KvType type, const std::vector<float>& input) {
  const int64_t block_bytes = kHeadDim * kKvBlockTokens * KvTypeBytes(type);
  std::vector<std::byte> keys(static_cast<size_t>(kBlocks * block_bytes));
  std::vector<std::byte> values(keys.size());
  const auto kv = static_cast<size_t>(type);
  for (int64_t j = 0; j < kKeys; ++j) {
    const int64_t offset = j / kKvBlockTokens * block_bytes;
    set.kv_store[kv]({.key = input.data() + j,
                      .value = input.data() + 2 * j,
                      .head_dim = kHeadDim,
                      .slot = j % kKvBlockTokens,
                      .key_block = keys.data() + offset,
                      .value_block = values.data() + offset});
  }
  const int32_t table[kBlocks] = {0, 1};
  std::vector<float> out(static_cast<size_t>(kHeads * kHeadDim));
  set.attention[kv]({.query = input.data() + 3,
                     .heads = kHeads,
                     .head_dim = kHeadDim,
                     .keys = keys.data(),
                     .values = values.data(),
                     .block_stride = block_bytes,
                     .block_table = table,
                     .begin = kFirstKey,
                     .end = kKeys,
                     .scale = 0.5f,
                     .softcap = 0.0f,
                     .out = out.data()});
  return out;
}

Status Compare(const KernelSet& set, std::string_view kernel, const std::vector<float>& found,
               const std::vector<float>& expected) {
  for (size_t i = 0; i < expected.size(); ++i) {
    if (std::memcmp(&found[i], &expected[i], sizeof(float)) != 0)
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
  const std::vector<std::byte> panel = RandomPanel(kind, numbers);
  const std::vector<std::byte> rows = ActivationRows(RandomFloats(kTokens * kK, numbers), kind);
  return Compare(set, fmt::format("the matrix product of {}", kKindNames[kind_index]),
                 Multiply(set.gemm[kind_index], kind, panel, rows),
                 Multiply(kRefKernelSet.gemm[kind_index], kind, panel, rows));
}

Status CheckQuantizeRow(const KernelSet& set, Numbers& numbers) {
  const std::vector<float> x = RandomFloats(kK, numbers);
  // The row as floats: only compared, never computed with.
  std::vector<float> found(static_cast<size_t>(ActivationRowBytes(kK)) / sizeof(float));
  std::vector<float> expected(found.size());
  set.quantize_row(x.data(), kK, reinterpret_cast<std::byte*>(found.data()));
  kRefKernelSet.quantize_row(x.data(), kK, reinterpret_cast<std::byte*>(expected.data()));
  return Compare(set, "the quantization of activations", found, expected);
}

Status CheckAttention(const KernelSet& set, int type_index, Numbers& numbers) {
  const auto type = static_cast<KvType>(type_index);
  const std::vector<float> input = RandomFloats(kHeads * kHeadDim + 2 * kKeys + kHeadDim, numbers);
  return Compare(set, fmt::format("attention over {} keys", kKvNames[type_index]),
                 Attend(set, type, input), Attend(kRefKernelSet, type, input));
}

}  // namespace

Status SelfCheck(const KernelSet& set) {
  Numbers numbers;
  TENON_RETURN_IF_ERROR(CheckQuantizeRow(set, numbers));
  for (int kind = 0; kind < kPackedKindCount; ++kind)
    TENON_RETURN_IF_ERROR(CheckGemm(set, kind, numbers));
  for (int type = 0; type < kKvTypeCount; ++type)
    TENON_RETURN_IF_ERROR(CheckAttention(set, type, numbers));
  return {};
}

}  // namespace tenon
