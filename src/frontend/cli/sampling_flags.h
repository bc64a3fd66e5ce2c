// Flags that say how tokens are chosen and when a generation ends.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/sample/sampling_params.h"

namespace tenon {

struct SamplingFlags {
  SamplingParams params;
  std::string seed = "-1";  // -1: a new one each time
  std::vector<std::string> logit_bias;
  std::vector<std::string> stop;
  std::vector<std::string> dry_breakers;
  bool ignore_eos = false;
  int64_t max_tokens = -1;  // -1: until the end or the context's limit

  void Add(CLI::App& app);
  // The parameters with seed and biases resolved.
  Result<SamplingParams> ToParams() const;
};

}  // namespace tenon
