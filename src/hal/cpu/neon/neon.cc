#include "hal/cpu/neon/neon_kernels.h"

namespace tenon {

constinit const KernelSet kNeonKernelSet = {
    .name = "neon",
    .gemm = {neon::GemmF32, neon::GemmF16, neon::GemmBF16, neon::GemmI14S32, neon::GemmF12S32,
             neon::GemmU4S32, neon::GemmU4S32M, neon::GemmU4S16M, neon::GemmCodebook4S32,
             neon::GemmU5S32, neon::GemmU5S32M, neon::GemmU6S16, neon::GemmU8S32},
    .quantize_block = neon::QuantizeBlock,
    .quantize_row = neon::QuantizeRow,
    .quantize_row_per_token = neon::QuantizeRowPerToken,
    .quantize_wide_block = neon::QuantizeWideBlock,
    .quantize_wide_row = neon::QuantizeWideRow,
    .rms_norm = neon::RmsNorm,
    .add = neon::Add,
    .mul = neon::Mul,
    .scale = neon::Scale,
    .silu = neon::Silu,
    .gelu = neon::Gelu,
    .silu_mul = neon::SiluMul,
    .gelu_mul = neon::GeluMul,
    .rope_interleaved = neon::RopeInterleaved,
    .rope_half = neon::RopeHalf,
    .kv_store = {neon::KvStoreF32, neon::KvStoreF16, neon::KvStoreBF16},
    .kv_seal = {nullptr, nullptr, nullptr, neon::KvSealQ8, neon::KvSealQ4, neon::KvSealNf4,
                neon::KvSealHier},
    .attention = {neon::AttentionF32, neon::AttentionF16, neon::AttentionBF16, neon::AttentionQ8,
                  neon::AttentionQ4, neon::AttentionNf4, neon::AttentionHier},
};

}  // namespace tenon
