#include "hal/cpu/avx512vnni/avx512vnni_kernels.h"

namespace tenon {

constinit const KernelSet kAvx512VnniKernelSet = {
    .name = "avx512vnni",
    .gemm = {avx512vnni::GemmF32, avx512vnni::GemmF16, avx512vnni::GemmBF16, avx512vnni::GemmI14S32,
             avx512vnni::GemmF12S32, avx512vnni::GemmU4S32, avx512vnni::GemmU4S32M,
             avx512vnni::GemmU4S16M, avx512vnni::GemmCodebook4S32, avx512vnni::GemmU5S32,
             avx512vnni::GemmU5S32M, avx512vnni::GemmU6S16, avx512vnni::GemmU8S32},
    .quantize_block = avx512vnni::QuantizeBlock,
    .quantize_row = avx512vnni::QuantizeRow,
    .quantize_row_per_token = avx512vnni::QuantizeRowPerToken,
    .quantize_wide_block = avx512vnni::QuantizeWideBlock,
    .quantize_wide_row = avx512vnni::QuantizeWideRow,
    .rms_norm = avx512vnni::RmsNorm,
    .add = avx512vnni::Add,
    .mul = avx512vnni::Mul,
    .scale = avx512vnni::Scale,
    .silu = avx512vnni::Silu,
    .gelu = avx512vnni::Gelu,
    .silu_mul = avx512vnni::SiluMul,
    .gelu_mul = avx512vnni::GeluMul,
    .rope_interleaved = avx512vnni::RopeInterleaved,
    .rope_half = avx512vnni::RopeHalf,
    .kv_store = {avx512vnni::KvStoreF32, avx512vnni::KvStoreF16, avx512vnni::KvStoreBF16},
    .kv_seal = {nullptr, nullptr, nullptr, avx512vnni::KvSealQ8, avx512vnni::KvSealQ4,
                avx512vnni::KvSealNf4, avx512vnni::KvSealHier},
    .attention = {avx512vnni::AttentionF32, avx512vnni::AttentionF16, avx512vnni::AttentionBF16,
                  avx512vnni::AttentionQ8, avx512vnni::AttentionQ4, avx512vnni::AttentionNf4,
                  avx512vnni::AttentionHier},
};

}  // namespace tenon
