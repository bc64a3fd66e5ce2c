// Prompts as /v1/completions and /v1/embeddings take them.
#include <fmt/format.h>

#include <algorithm>

#include "frontend/server/api/endpoints.h"
#include "frontend/server/api/field_reader.h"

namespace tenon {
namespace {

// OpenAI's own limit on a list of inputs.
constexpr size_t kMaxPrompts = 2048;

std::vector<int32_t> EncodeText(const Model& model, const std::string& text) {
  return model.tokenizer().Encode(text, SpecialText::kParse, AddSpecial::kModelDefault);
}

Status CheckTokens(const Model& model, const std::vector<int32_t>& tokens, std::string_view field) {
  const int32_t vocab_size = model.tokenizer().vocab_size();
  for (const int32_t token : tokens) {
    if (token >= vocab_size) {
      return InvalidArgument(
          fmt::format("token {} is outside the vocabulary of {}", token, vocab_size),
          std::string(field));
    }
  }
  return {};
}

bool IsMixedPart(const Json& part) {
  return part.is_number() || part.is_string();
}

// Texts and token ids after each other; only a text at the very beginning gets the model's own
// beginning.
Result<std::vector<int32_t>> ReadMixed(const Model& model, const Json& parts,
                                       std::string_view field) {
  std::vector<int32_t> tokens;
  for (size_t i = 0; i < parts.size(); ++i) {
    const Json& part = parts[i];
    if (part.is_string()) {
      const auto add = i == 0 ? AddSpecial::kModelDefault : AddSpecial::kNone;
      const auto ids =
          model.tokenizer().Encode(part.get_ref<const std::string&>(), SpecialText::kParse, add);
      tokens.insert(tokens.end(), ids.begin(), ids.end());
      continue;
    }
    TENON_ASSIGN_OR_RETURN(const int32_t id, ReadToken(part, fmt::format("{}[{}]", field, i)));
    tokens.push_back(id);
  }
  TENON_RETURN_IF_ERROR(CheckTokens(model, tokens, field));
  return tokens;
}

Result<std::vector<int32_t>> ReadOne(const Model& model, const Json& prompt,
                                     std::string_view field) {
  if (prompt.is_string())
    return EncodeText(model, prompt.get_ref<const std::string&>());
  if (prompt.is_array())
    return ReadMixed(model, prompt, field);
  return InvalidArgument(
      fmt::format("found {}, expected a string or token ids", JsonTypeName(prompt)),
      std::string(field));
}

}  // namespace

Result<std::vector<std::vector<int32_t>>> ReadPrompts(const Model& model, const Json& input,
                                                      std::string_view field) {
  std::vector<std::vector<int32_t>> prompts;
  const bool has_ids = input.is_array() && std::ranges::any_of(input, [](const Json& part) {
                         return part.is_number();
                       });
  if (!input.is_array() || (has_ids && std::ranges::all_of(input, IsMixedPart))) {
    TENON_ASSIGN_OR_RETURN(auto tokens, ReadOne(model, input, field));
    prompts.push_back(std::move(tokens));
  } else {
    if (input.empty() || input.size() > kMaxPrompts) {
      return InvalidArgument(
          fmt::format("found {} prompts, expected 1 to {}", input.size(), kMaxPrompts),
          std::string(field));
    }
    for (size_t i = 0; i < input.size(); ++i) {
      TENON_ASSIGN_OR_RETURN(auto tokens,
                             ReadOne(model, input[i], fmt::format("{}[{}]", field, i)));
      prompts.push_back(std::move(tokens));
    }
  }
  for (const auto& prompt : prompts) {
    if (prompt.empty())
      return InvalidArgument("the prompt has no tokens", std::string(field));
  }
  return prompts;
}

}  // namespace tenon
