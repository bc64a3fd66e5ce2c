#include "frontend/gateway/request_profile.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

namespace tenon {
namespace {

using nlohmann::json;

// English text has some 4 bytes a token; the estimate only has to compare requests.
constexpr int64_t kBytesPerToken = 4;
// What a request without a limit is taken to generate.
constexpr int64_t kUsualAnswerTokens = 256;
// An estimate above the contexts of today would let one request block a replica.
constexpr int64_t kMaxAnswerTokens = 1 << 17;

constexpr std::array<const char*, 6> kPromptFields = {"system", "messages", "input_prefix",
                                                      "prompt", "input",    "instructions"};
constexpr std::array<const char*, 5> kLimitFields = {
    "max_completion_tokens", "max_tokens", "max_output_tokens", "n_predict", "num_predict"};

// The text that the model will read first, without JSON around it, up to `limit` bytes.
void CollectText(const json& value, size_t limit, std::string& text) {
  if (text.size() >= limit)
    return;
  if (value.is_string()) {
    text += value.get_ref<const std::string&>().substr(0, limit - text.size());
    text += '\n';
  } else if (value.is_structured()) {
    for (const auto& entry : value)
      CollectText(entry, limit, text);
  } else if (value.is_number_integer()) {  // a prompt of token ids
    text += std::to_string(value.get<int64_t>());
    text += ' ';
  }
}

int64_t AnswerTokens(const json& body) {
  for (const char* field : kLimitFields) {
    const auto found = body.find(field);
    if (found != body.end() && found->is_number_integer() && found->get<int64_t>() >= 0)
      return std::min(found->get<int64_t>(), kMaxAnswerTokens);
  }
  return kUsualAnswerTokens;
}

}  // namespace

uint64_t HashBytes(std::string_view bytes, uint64_t seed) {
  constexpr uint64_t kPrime = 0x100000001b3;
  uint64_t hash = seed;
  for (const char byte : bytes)
    hash = (hash ^ static_cast<unsigned char>(byte)) * kPrime;
  return hash;
}

RequestProfile ReadProfile(std::string_view text, size_t prefix_bytes) {
  RequestProfile profile;
  profile.tokens = static_cast<int64_t>(text.size()) / kBytesPerToken;
  const json body = json::parse(text, nullptr, false);
  if (!body.is_object())
    return profile;
  if (const auto model = body.find("model"); model != body.end() && model->is_string())
    profile.model = model->get<std::string>();
  profile.tokens += AnswerTokens(body);
  std::string prefix;
  for (const char* field : kPromptFields) {
    if (const auto found = body.find(field); found != body.end())
      CollectText(*found, prefix_bytes, prefix);
  }
  prefix.resize(std::min(prefix.size(), prefix_bytes));
  if (!prefix.empty())
    profile.prefix_hash = HashBytes(prefix, HashBytes(profile.model));
  return profile;
}

}  // namespace tenon
