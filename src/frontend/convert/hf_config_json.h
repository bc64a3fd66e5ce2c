// config.json of a model that comes from another format, in the spelling of transformers 4, which
// version 5 reads too.
//
// Threading: free functions.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "base/result.h"
#include "model/hf/hf_family.h"
#include "model/model_source.h"

namespace tenon {

// kUnsupported for families whose settings another format does not have (DeepSeek, OPT, BERT), and
// for frequency factors that no rule of config.json gives.
Result<nlohmann::ordered_json> MakeHfConfig(const ModelSource& source, const HfFamily& family);

// generation_config.json: begin, padding, and every id that ends a generation.
nlohmann::ordered_json MakeGenerationConfig(const TokenizerSpec& spec);

}  // namespace tenon
