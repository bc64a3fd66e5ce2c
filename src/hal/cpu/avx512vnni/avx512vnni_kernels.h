// The kernels for CPUs with AVX-512 F, BW, DQ, VL and VNNI (Cascade Lake, Ice Lake, Zen 4 and
// later). One zmm holds one value each of a panel's 16 rows. Same floats as the ref set.
#pragma once

#include "hal/cpu/kernel_sets.h"

namespace tenon::avx512vnni {

void GemmF32(const GemmArgs& args);
void GemmF16(const GemmArgs& args);
void GemmBF16(const GemmArgs& args);
void GemmI14S32(const GemmArgs& args);
void GemmF12S32(const GemmArgs& args);
void GemmU4S32(const GemmArgs& args);
void GemmU4S32M(const GemmArgs& args);
void GemmU4S16M(const GemmArgs& args);
void GemmCodebook4S32(const GemmArgs& args);
void GemmU5S32(const GemmArgs& args);
void GemmU5S32M(const GemmArgs& args);
void GemmU6S16(const GemmArgs& args);
void GemmU8S32(const GemmArgs& args);

void QuantizeBlock(const float* x, std::byte* row, int64_t k, int64_t index);
void QuantizeRow(const float* x, int64_t k, std::byte* out);
void QuantizeRowPerToken(const float* x, int64_t k, std::byte* out);
void QuantizeWideBlock(const float* x, std::byte* row, int64_t k, int64_t index);
void QuantizeWideRow(const float* x, int64_t k, std::byte* out);
void RmsNorm(const float* x, const float* weight, int64_t n, float eps, float* out);
void Add(const float* a, const float* b, int64_t n, float* out);
void Mul(const float* a, const float* b, int64_t n, float* out);
void Scale(const float* x, float factor, int64_t n, float* out);
void Silu(const float* x, int64_t n, float* out);
void Gelu(const float* x, int64_t n, float* out);
void SiluMul(const float* a, const float* b, int64_t n, float* out);
void GeluMul(const float* a, const float* b, int64_t n, float* out);
void RopeInterleaved(float* x, const float* cos, const float* sin, int64_t pairs);
void RopeHalf(float* x, const float* cos, const float* sin, int64_t pairs);

void KvStoreF32(const KvStoreArgs& args);
void KvStoreF16(const KvStoreArgs& args);
void KvStoreBF16(const KvStoreArgs& args);
void AttentionF32(const AttentionArgs& args);
void AttentionF16(const AttentionArgs& args);
void AttentionBF16(const AttentionArgs& args);
void AttentionQ8(const AttentionArgs& args);
void AttentionQ4(const AttentionArgs& args);
void AttentionNf4(const AttentionArgs& args);
void AttentionHier(const AttentionArgs& args);
void KvSealQ8(const KvSealArgs& args);
void KvSealQ4(const KvSealArgs& args);
void KvSealNf4(const KvSealArgs& args);
void KvSealHier(const KvSealArgs& args);

}  // namespace tenon::avx512vnni
