// The quantized model beside its original on a text: what was lost.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

#include "base/result.h"
#include "frontend/session/perplexity.h"

namespace tenon {

// Tokens of a chunk.
inline constexpr int64_t kGateContext = 512;

struct GateOptions {
  std::filesystem::path text;
  int64_t chunks = 16;  // of kGateContext tokens; -1: all
  int threads = 0;
  double max_delta_ppl = 0.5;
};

// Perplexities and divergence of `quantized` against `original`; both are loaded at once, the
// original in float.
Result<PerplexityResult> CompareModels(const std::filesystem::path& original,
                                       const std::filesystem::path& quantized,
                                       const GateOptions& options,
                                       const PerplexityProgress& progress);

// Fails, with the numbers, when the perplexity rose by more than allowed.
Status CheckDelta(const PerplexityResult& result, double max_delta_ppl);

}  // namespace tenon
