// llama-server's own form of an answer: {"content", "stop", "tokens_predicted", ...}, the same for
// /completion, /completions and /infill.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "frontend/server/api/answer.h"
#include "frontend/serving/serving_engine.h"

namespace tenon {

struct LlamaOptions {
  size_t n_probs = 0;  // alternatives reported with each token; 0: no probabilities at all
  bool return_tokens = false;
  bool timings_per_token = false;
  int32_t slot = -1;  // as asked for
  // Fields that a whole answer has, "a/b" for a field of a field; empty: all.
  std::vector<std::string> response_fields;
  Json settings;  // "generation_settings"
};

// The settings that a request runs with, by llama-server's names.
Json GenerationSettings(const ServingRequest& request);

std::unique_ptr<AnswerFormat> MakeLlamaFormat(LlamaOptions options);

}  // namespace tenon
