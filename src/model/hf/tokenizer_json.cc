#include "model/hf/tokenizer_json.h"

#include <fmt/format.h>

#include <algorithm>

namespace tenon {
namespace {

// Ids of added tokens follow the model's; this many may be left out between.
constexpr int64_t kMostGaps = 4096;

Result<AddedToken> ReadAddedToken(const JsonValue& entry, int64_t most) {
  AddedToken token;
  TENON_ASSIGN_OR_RETURN(const JsonValue id, entry.At("id"));
  TENON_ASSIGN_OR_RETURN(const int64_t number, id.Integer());
  if (number < 0 || number >= most)
    return id.Wrong(fmt::format("{} found, 0 to {} expected", number, most - 1));
  token.id = static_cast<int32_t>(number);
  TENON_ASSIGN_OR_RETURN(token.special, entry.BoolOr("special", false));
  TENON_ASSIGN_OR_RETURN(token.normalized, entry.BoolOr("normalized", !token.special));
  TENON_ASSIGN_OR_RETURN(token.single_word, entry.BoolOr("single_word", false));
  TENON_ASSIGN_OR_RETURN(token.left_strip, entry.BoolOr("lstrip", false));
  TENON_ASSIGN_OR_RETURN(token.right_strip, entry.BoolOr("rstrip", false));
  return token;
}

// Puts the token's text at its id, which the model may have filled with the same text.
Status PlaceAddedToken(const JsonValue& entry, const AddedToken& token, TokenizerSpec& spec,
                       TokenizerPipeline& pipeline) {
  TENON_ASSIGN_OR_RETURN(const JsonValue content, entry.At("content"));
  TENON_ASSIGN_OR_RETURN(const std::string_view text, content.String());
  const auto id = static_cast<size_t>(token.id);
  if (id >= spec.tokens.size()) {
    spec.tokens.resize(id + 1);
    spec.types.resize(id + 1, TokenType::kUnused);
    pipeline.in_model.resize(id + 1, false);
  }
  if (text.empty())
    return content.Wrong("an empty token");
  if (!spec.tokens[id].empty() && spec.tokens[id] != text) {
    return content.Wrong(
        fmt::format("'{}' found, but the model has '{}' at this id", text, spec.tokens[id]));
  }
  spec.tokens[id] = text;
  spec.types[id] = token.special ? TokenType::kControl : TokenType::kUserDefined;
  return {};
}

Status ReadAddedTokens(const JsonValue& root, TokenizerSpec& spec, TokenizerPipeline& pipeline) {
  const auto list = root.Find("added_tokens");
  if (!list)
    return {};
  TENON_ASSIGN_OR_RETURN(const auto entries, list->Array());
  const auto most = static_cast<int64_t>(spec.tokens.size() + entries.size()) + kMostGaps;
  size_t index = 0;
  for (const simdjson::dom::element item : entries) {
    const JsonValue entry = list->Item(index++, item);
    TENON_ASSIGN_OR_RETURN(const AddedToken token, ReadAddedToken(entry, most));
    TENON_RETURN_IF_ERROR(PlaceAddedToken(entry, token, spec, pipeline));
    pipeline.added_tokens.push_back(token);
  }
  return {};
}

// Makes all tables as long as the model's logits; those of the tokens have grown unevenly too.
Status FillUp(const JsonValue& root, int64_t vocab_size, TokenizerSpec& spec,
              TokenizerPipeline& pipeline) {
  const size_t tokens = spec.tokens.size();
  const size_t rows = vocab_size > 0 ? static_cast<size_t>(vocab_size) : tokens;
  if (tokens > rows)
    return root.Wrong(fmt::format("{} tokens, but the model has {} rows for them", tokens, rows));
  spec.tokens.resize(rows);
  spec.types.resize(rows, TokenType::kUnused);
  pipeline.in_model.resize(rows, false);
  if (auto* unigram = std::get_if<UnigramOptions>(&pipeline.model))
    unigram->scores.resize(rows, 0.0);
  return {};
}

Status CheckAround(const JsonValue& root, const TokenizerSpec& spec,
                   const TokenizerPipeline& pipeline) {
  for (const auto* ids : {&pipeline.prefix, &pipeline.suffix}) {
    for (const int32_t id : *ids) {
      if (id < 0 || static_cast<size_t>(id) >= spec.tokens.size()) {
        return root.Member("post_processor", root.element())
            .Wrong(fmt::format("the id {} is outside the vocabulary of {} tokens", id,
                               spec.tokens.size()));
      }
    }
  }
  return {};
}

}  // namespace

Result<TokenizerSpec> ReadTokenizerJson(const JsonValue& root, int64_t vocab_size) {
  TokenizerSpec spec;
  spec.model = "pipeline";
  TokenizerPipeline pipeline;
  TENON_ASSIGN_OR_RETURN(const JsonValue model, root.At("model"));
  TENON_RETURN_IF_ERROR(ReadTokenModel(model, spec, pipeline));
  TENON_RETURN_IF_ERROR(ReadAddedTokens(root, spec, pipeline));
  TENON_RETURN_IF_ERROR(FillUp(root, vocab_size, spec, pipeline));
  if (const auto value = root.Find("normalizer"))
    TENON_RETURN_IF_ERROR(ReadNormalizer(*value, pipeline));
  if (const auto value = root.Find("pre_tokenizer"))
    TENON_RETURN_IF_ERROR(ReadPreTokenizer(*value, pipeline));
  if (const auto value = root.Find("decoder"))
    TENON_RETURN_IF_ERROR(ReadDecoder(*value, pipeline));
  else
    pipeline.decoders.emplace_back(decoder::JoinWithSpaces{});
  if (const auto value = root.Find("post_processor"))
    TENON_RETURN_IF_ERROR(ReadPostProcessor(*value, pipeline));
  TENON_RETURN_IF_ERROR(CheckAround(root, spec, pipeline));
  spec.pipeline = std::make_shared<const TokenizerPipeline>(std::move(pipeline));
  return spec;
}

}  // namespace tenon
