// Perplexity and divergence of a model on a text, by llama.cpp's protocol: the text's tokens are
// cut into chunks of the context's size, each evaluated on its own (with the beginning token in
// front where the model wants one), and the tokens of each chunk's second half are scored.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "frontend/session/model.h"

namespace tenon {

struct PerplexityOptions {
  int64_t context = 512;            // tokens in a chunk
  int64_t max_chunks = -1;          // -1: all
  std::filesystem::path save_base;  // write log-probabilities here, for a later kl_base
  std::filesystem::path kl_base;    // compare with these
  // Or compare with this model, run beside the other one on the same tokens. Loaded with the same
  // options; both have the same vocabulary. Instead of kl_base.
  Model* base = nullptr;
};

// The model against the base on the same tokens; divergences in nats.
struct DivergenceResult {
  double kl_mean = 0.0;  // KL(base || model)
  double kl_p99 = 0.0;
  double top1 = 0.0;           // share of positions with the same best token
  double delta_nll = 0.0;      // mean of model's minus base's, paired by position
  double delta_nll_low = 0.0;  // 95% confidence interval
  double delta_nll_high = 0.0;
  double base_ppl = 0.0;
};

struct PerplexityResult {
  double ppl = 0.0;
  double nll = 0.0;
  double nll_stderr = 0.0;
  int64_t tokens = 0;  // scored
  int64_t chunks = 0;
  std::optional<DivergenceResult> divergence;
};

// Perplexity of the model minus the base's; 0 without a base.
inline double DeltaPerplexity(const PerplexityResult& result) {
  return result.divergence.has_value() ? result.ppl - result.divergence->base_ppl : 0.0;
}

// After each chunk: chunks done, chunks in all, perplexity so far.
using PerplexityProgress = std::function<void(int64_t, int64_t, double)>;

// REQUIRES: the model is loaded with at least options.context tokens of context. Fails when the
// text has less than one chunk, and when the base was made from other tokens or settings.
Result<PerplexityResult> MeasurePerplexity(Model& model, std::string_view text,
                                           const PerplexityOptions& options,
                                           const PerplexityProgress& progress);

}  // namespace tenon
