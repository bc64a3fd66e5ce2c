#include "hal/cpu/amx/amx_kernels.h"

namespace tenon {

// Everything left out is a hole that the AVX-512 set fills.
constinit const KernelSet kAmxKernelSet = {
    .name = "amx",
    .gemm = {nullptr, nullptr, nullptr, nullptr, nullptr, amx::GemmU4S32, amx::GemmU4S32M,
             amx::GemmU4S16M, amx::GemmCodebook4S32, amx::GemmU5S32, amx::GemmU5S32M,
             amx::GemmU6S16, amx::GemmU8S32},
    .quantize_block = nullptr,
    .quantize_row = nullptr,
    .quantize_row_per_token = nullptr,
    .quantize_wide_block = nullptr,
    .quantize_wide_row = nullptr,
    .rms_norm = nullptr,
    .add = nullptr,
    .mul = nullptr,
    .scale = nullptr,
    .silu = nullptr,
    .gelu = nullptr,
    .silu_mul = nullptr,
    .gelu_mul = nullptr,
    .rope_interleaved = nullptr,
    .rope_half = nullptr,
    .kv_store = {},
    .kv_seal = {},
    .attention = {},
};

}  // namespace tenon
