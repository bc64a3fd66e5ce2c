// From a Hugging Face config.json to a ModelConfig. Errors name the file and the field.
#pragma once

#include "base/result.h"
#include "model/hf/hf_family.h"
#include "model/json/json_document.h"
#include "model/model_config.h"

namespace tenon {

// What config.json says beside the hyperparameters.
struct HfConfig {
  const HfFamily* family = nullptr;
  ModelConfig model;
  bool tied = false;            // the output head is the embedding table
  bool attention_bias = false;  // on all four projections
  bool mlp_bias = false;
  bool qkv_bias = false;
  int64_t draft_layers = 0;  // layers after the last that predict further tokens; left out
};

// Fills `out` from the file's root. Written by transformers 4 and 5.
Result<HfConfig> ReadHfConfig(const JsonValue& root);

// Parts of it: rotary parameters and windows of the layers. REQUIRES: the sizes are known.
Status ReadHfRope(const JsonValue& root, HfConfig& config);
Status ReadHfWindows(const JsonValue& root, HfConfig& config);
// The mixture of experts, for families that have one.
Status ReadHfExperts(const JsonValue& root, HfConfig& config);
Status ReadHfDeepseekExperts(const JsonValue& root, HfConfig& config);
// Latent attention, for families that have it. Before the rotary parameters.
Status ReadHfLatent(const JsonValue& root, HfConfig& config);
// What families with layer norms and learned positions may say beside sizes.
Status ReadHfPlain(const JsonValue& root, HfConfig& config);

// The size at `key`, 1 to 2^31-1. Missing or null leaves `out`, or is an error in NeedSize.
Status ReadSize(const JsonValue& object, std::string_view key, int64_t& out);
Status NeedSize(const JsonValue& object, std::string_view key, int64_t& out);
// The number at `key`: finite and above zero. Missing or null leaves `out`.
Status ReadPositive(const JsonValue& object, std::string_view key, float& out);

}  // namespace tenon
