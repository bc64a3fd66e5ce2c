#include "frontend/server/api/answer_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace tenon {
namespace {

constexpr double kNeverLogprob = -9999.0;

double PerSecond(double count, double seconds) {
  return seconds > 0.0 ? count / seconds : 0.0;
}

bool IsUtf8(const std::string& text) {
  try {
    // The strict handler is the library's own check.
    static_cast<void>(Json(text).dump());
    return true;
  } catch (const Json::type_error&) {
    return false;
  }
}

Json TokenJson(const Tokenizer& tokenizer, int32_t token, float logprob) {
  const std::string text = tokenizer.TokenBytes(token, SpecialText::kParse);
  Json bytes = Json::array();
  for (const char byte : text)
    bytes.push_back(static_cast<unsigned char>(byte));
  Json entry;
  entry["token"] = text;
  entry["logprob"] = FiniteLogprob(logprob);
  entry["bytes"] = std::move(bytes);
  return entry;
}

}  // namespace

std::string_view OpenAiFinishReason(const AnswerChoice& choice) {
  if (!choice.tool_calls.empty() && choice.finish_reason == FinishReason::kStop)
    return "tool_calls";
  return FinishReasonName(choice.finish_reason);
}

Json UsageJson(const ApiAnswer& answer) {
  Json usage;
  usage["prompt_tokens"] = answer.prompt_tokens();
  usage["completion_tokens"] = answer.completion_tokens();
  usage["total_tokens"] = answer.prompt_tokens() + answer.completion_tokens();
  usage["prompt_tokens_details"] = {{"cached_tokens", answer.cached_tokens()}};
  return usage;
}

Json TimingsJson(const AnswerPrompt& prompt, const AnswerChoice& choice) {
  const RequestTimings& timings = choice.timings;
  const auto computed = static_cast<double>(prompt.tokens - prompt.cached_tokens);
  const auto predicted = static_cast<double>(
      std::max<int64_t>(choice.completion_tokens, static_cast<int64_t>(choice.tokens.size())));
  Json json;
  json["cache_n"] = prompt.cached_tokens;
  json["prompt_n"] = prompt.tokens - prompt.cached_tokens;
  json["prompt_ms"] = timings.prefill_s * 1000.0;
  json["prompt_per_token_ms"] = computed > 0 ? timings.prefill_s * 1000.0 / computed : 0.0;
  json["prompt_per_second"] = PerSecond(computed, timings.prefill_s);
  json["predicted_n"] = static_cast<int64_t>(predicted);
  json["predicted_ms"] = timings.decode_s * 1000.0;
  json["predicted_per_token_ms"] = predicted > 0 ? timings.decode_s * 1000.0 / predicted : 0.0;
  // The first token belongs to the prefill.
  json["predicted_per_second"] = PerSecond(std::max(predicted - 1.0, 0.0), timings.decode_s);
  json["queue_ms"] = timings.queue_s * 1000.0;
  return json;
}

Json ChatLogprobs(const Tokenizer& tokenizer, const std::vector<SampledToken>& sampled,
                  size_t top) {
  Json content = Json::array();
  for (const SampledToken& token : sampled) {
    Json entry = TokenJson(tokenizer, token.token, token.logprob);
    Json alternatives = Json::array();
    for (size_t i = 0; i < std::min(top, token.top.size()); ++i)
      alternatives.push_back(TokenJson(tokenizer, token.top[i].token, token.top[i].logprob));
    entry["top_logprobs"] = std::move(alternatives);
    if (!token.decided_by.empty())
      entry["routing"] = {{"model", token.decided_by}, {"confidence", token.confidence}};
    content.push_back(std::move(entry));
  }
  Json json;
  json["content"] = std::move(content);
  json["refusal"] = nullptr;
  return json;
}

Json LlamaProbabilities(const Tokenizer& tokenizer, const std::vector<SampledToken>& sampled,
                        size_t top) {
  const auto with_id = [&](int32_t token, float logprob) {
    Json entry = {{"id", token}};
    entry.update(TokenJson(tokenizer, token, logprob));
    return entry;
  };
  Json list = Json::array();
  for (const SampledToken& token : sampled) {
    Json entry = with_id(token.token, token.logprob);
    entry["top_logprobs"] = Json::array();
    for (size_t i = 0; i < std::min(top, token.top.size()); ++i)
      entry["top_logprobs"].push_back(with_id(token.top[i].token, token.top[i].logprob));
    list.push_back(std::move(entry));
  }
  return list;
}

Json ToolCallJson(const ToolCall& call) {
  Json json;
  json["id"] = call.id;
  json["type"] = "function";
  json["function"] = {{"name", call.name}, {"arguments", call.arguments}};
  return json;
}

double FiniteLogprob(float logprob) {
  return std::isfinite(logprob) ? static_cast<double>(logprob) : kNeverLogprob;
}

std::string TokenLabel(const Tokenizer& tokenizer, int32_t token) {
  std::string text = tokenizer.TokenBytes(token, SpecialText::kParse);
  if (IsUtf8(text))
    return text;
  std::string label = "bytes:";
  for (const char byte : text)
    label += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
  return label;
}

size_t CountCodePoints(std::string_view text) {
  return static_cast<size_t>(std::ranges::count_if(
      text, [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) != 0x80U; }));
}

}  // namespace tenon
