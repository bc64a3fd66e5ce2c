#include "hal/cpu/ref/ref_kernels.h"

namespace tenon {

constinit const KernelSet kRefKernelSet = {
    .name = "ref",
    .gemm = {ref::GemmF32, ref::GemmF16, ref::GemmBF16, ref::GemmI14S32, ref::GemmF12S32,
             ref::GemmU4S32, ref::GemmU4S32M, ref::GemmU4S16M, ref::GemmCodebook4S32,
             ref::GemmU5S32, ref::GemmU5S32M, ref::GemmU6S16, ref::GemmU8S32},
    .quantize_block = ref::QuantizeBlock,
    .quantize_row = ref::QuantizeRow,
    .quantize_row_per_token = ref::QuantizeRowPerToken,
    .quantize_wide_block = ref::QuantizeWideBlock,
    .quantize_wide_row = ref::QuantizeWideRow,
    .rms_norm = ref::RmsNorm,
    .add = ref::Add,
    .mul = ref::Mul,
    .scale = ref::Scale,
    .silu = ref::Silu,
    .gelu = ref::Gelu,
    .silu_mul = ref::SiluMul,
    .gelu_mul = ref::GeluMul,
    .rope_interleaved = ref::RopeInterleaved,
    .rope_half = ref::RopeHalf,
    .kv_store = {ref::KvStoreF32, ref::KvStoreF16, ref::KvStoreBF16},
    .kv_seal = {nullptr, nullptr, nullptr, ref::KvSealQ8, ref::KvSealQ4, ref::KvSealNf4,
                ref::KvSealHier},
    .attention = {ref::AttentionF32, ref::AttentionF16, ref::AttentionBF16, ref::AttentionQ8,
                  ref::AttentionQ4, ref::AttentionNf4, ref::AttentionHier},
};

}  // namespace tenon
