// Going through a product's tokens in tiles. Internal linkage (hal/cpu/panel_layout.h).
#pragma once

#include "hal/kernel_set.h"

namespace tenon {

// Tokens from `token` on, `count` at a time, by gemm(args, activations, out) with the first one's
// rows; returns the first token that is left.
template <class Gemm>
static inline int64_t RunTiles(const GemmArgs& args, int64_t token, int64_t count, Gemm gemm) {
  for (; token + count <= args.tokens; token += count)
    gemm(args, args.activations + token * args.activation_stride,
         args.out + token * args.out_stride);
  return token;
}

// All tokens in tiles of 8, 4 and 1, by gemm.operator()<kTokens>(args, activations, out).
template <class Gemm>
static inline void RunTilesOf8(const GemmArgs& args, Gemm gemm) {
  const auto run = [&]<int kTokens>(int64_t token) {
    return RunTiles(args, token, kTokens,
                    [&](const GemmArgs& all, const std::byte* activations, float* out) {
                      gemm.template operator()<kTokens>(all, activations, out);
                    });
  };
  int64_t token = run.template operator()<8>(0);
  token = run.template operator()<4>(token);
  run.template operator()<1>(token);
}

}  // namespace tenon
