// tokenizer.json and tokenizer_config.json of a tokenizer that comes from GGUF.
//
// Threading: free functions.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/result.h"
#include "model/tokenizer/tokenizer_spec.h"

namespace tenon {

// Of a byte-level BPE whose way of splitting text is known, and of SentencePiece with scores.
// kUnsupported, naming the part that can't be made, for others.
Result<nlohmann::ordered_json> MakeTokenizerJson(const TokenizerSpec& spec);

nlohmann::ordered_json MakeTokenizerConfig(const TokenizerSpec& spec,
                                           const std::string& chat_template);

}  // namespace tenon
