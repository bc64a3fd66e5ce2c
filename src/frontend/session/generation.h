// Generate: one request from prompt to text on a loaded model.
//
// Threading: one call at a time for each Model.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "accel/step_engine.h"
#include "base/result.h"
#include "engine/sample/sampler.h"
#include "engine/sample/sampling_params.h"
#include "frontend/session/answer.h"
#include "frontend/session/model.h"

namespace tenon {

struct GenerationRequest {
  std::vector<int32_t> prompt;
  SamplingParams sampling;
  std::vector<std::string> stop;
  EndTokens end_tokens = EndTokens::kStop;
  int64_t max_tokens = -1;      // -1: until an end token, a stop or the context's limit
  StepEngine* steps = nullptr;  // on the model's runner; null: the model alone, without modules
};

struct GenerationResult {
  std::string text;
  std::vector<int32_t> token_ids;     // generated, the end token not included
  std::vector<SampledToken> sampled;  // with logprobs only
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;  // of the prompt, found in the KV cache
  FinishReason finish_reason = FinishReason::kStop;
  double first_token_s = 0.0;  // from the call to the first token
  double tokens_per_s = 0.0;   // after the first token
};

// Called with text as it becomes certain; false ends the generation.
using TextCallback = std::function<bool(std::string_view)>;

// Fails with kInvalidArgument for an empty prompt and for one that does not fit the context, with
// both numbers: nothing is ever cut.
Result<GenerationResult> Generate(Model& model, const GenerationRequest& request,
                                  const TextCallback& on_text);

}  // namespace tenon
