// Parts of answers that several APIs share.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "frontend/server/api/answer.h"
#include "frontend/server/api/json.h"

namespace tenon {

inline constexpr const char* kSystemFingerprint = "tenon-0.1.0";

// "stop", "length", "tool_calls".
std::string_view OpenAiFinishReason(const AnswerChoice& choice);

Json UsageJson(const ApiAnswer& answer);
// llama-server's "timings", for one choice.
Json TimingsJson(const AnswerPrompt& prompt, const AnswerChoice& choice);

// {"content": [{"token", "logprob", "bytes", "top_logprobs": []}]}, the first `top` alternatives.
Json ChatLogprobs(const Tokenizer& tokenizer, const std::vector<SampledToken>& sampled, size_t top);
// llama-server's "completion_probabilities": the same entries with the tokens' ids.
Json LlamaProbabilities(const Tokenizer& tokenizer, const std::vector<SampledToken>& sampled,
                        size_t top);
Json ToolCallJson(const ToolCall& call);

// A finite number: JSON has no infinity, and clients expect OpenAI's -9999.
double FiniteLogprob(float logprob);

// Text of a token for people: its bytes, or "bytes:\xe2\x82" when they are no text alone.
std::string TokenLabel(const Tokenizer& tokenizer, int32_t token);

// Code points of a UTF-8 text, whose cut-off ends count as one.
size_t CountCodePoints(std::string_view text);

}  // namespace tenon
