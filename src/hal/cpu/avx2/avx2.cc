#include "hal/cpu/avx2/avx2_kernels.h"

namespace tenon {

constinit const KernelSet kAvx2KernelSet = {
    .name = "avx2",
    .gemm = {avx2::GemmF32, avx2::GemmF16, avx2::GemmBF16, avx2::GemmI14S32, avx2::GemmF12S32,
             avx2::GemmU4S32, avx2::GemmU4S32M, avx2::GemmU4S16M, avx2::GemmCodebook4S32,
             avx2::GemmU5S32, avx2::GemmU5S32M, avx2::GemmU6S16, avx2::GemmU8S32},
    .quantize_block = avx2::QuantizeBlock,
    .quantize_row = avx2::QuantizeRow,
    .quantize_row_per_token = avx2::QuantizeRowPerToken,
    .quantize_wide_block = avx2::QuantizeWideBlock,
    .quantize_wide_row = avx2::QuantizeWideRow,
    .rms_norm = avx2::RmsNorm,
    .add = avx2::Add,
    .mul = avx2::Mul,
    .scale = avx2::Scale,
    .silu = avx2::Silu,
    .gelu = avx2::Gelu,
    .silu_mul = avx2::SiluMul,
    .gelu_mul = avx2::GeluMul,
    .rope_interleaved = avx2::RopeInterleaved,
    .rope_half = avx2::RopeHalf,
    .kv_store = {avx2::KvStoreF32, avx2::KvStoreF16, avx2::KvStoreBF16},
    .kv_seal = {nullptr, nullptr, nullptr, avx2::KvSealQ8, avx2::KvSealQ4, avx2::KvSealNf4,
                avx2::KvSealHier},
    .attention = {avx2::AttentionF32, avx2::AttentionF16, avx2::AttentionBF16, avx2::AttentionQ8,
                  avx2::AttentionQ4, avx2::AttentionNf4, avx2::AttentionHier},
};

}  // namespace tenon
