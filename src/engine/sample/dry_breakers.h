// From the text of DRY's sequence breakers to token sequences, without knowing the tokenizer.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/sample/dry.h"

namespace tenon {

// What the search needs to know of a tokenizer.
struct TokenTexts {
  int32_t vocab_size = 0;
  std::function<std::string(int32_t)> bytes;                       // of one token
  std::function<std::vector<int32_t>(std::string_view)> tokenize;  // without special tokens
};

// For each breaker: every token that contains it, and every token that ends with the beginning of
// it, followed by the tokens of the rest. A breaker may also reach into its last token in a way
// that its own tokenization does not show; such an occurrence is not found.
// One pass over the vocabulary for each breaker: made once per request that turns DRY on.
DryBreakers FindDryBreakers(const std::vector<std::string>& breakers, const TokenTexts& texts);

}  // namespace tenon
