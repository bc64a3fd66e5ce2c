// ReadGgufBert (gguf_fields.h) and MakeWordPiece (gguf_config.h): BERT as llama.cpp's converter
// writes it.
#include <fmt/format.h>

#include <memory>

#include "model/gguf/gguf_config.h"
#include "model/gguf/gguf_fields.h"
#include "model/tokenizer/tokenizer_pipeline.h"
#include "model/tokenizer/unicode_classes.h"

namespace tenon {
namespace {

// What begins a word; other tokens go on with one.
constexpr std::string_view kWordStart = "\u2581";
constexpr std::string_view kContinuation = "##";

// bert.pooling_type
constexpr std::pair<int64_t, Pooling> kPoolings[] = {
    {1, Pooling::kMean}, {2, Pooling::kFirst}, {3, Pooling::kLast}};

Status ReadPooling(const GgufFields& fields, ModelConfig& config) {
  config.pooling = Pooling::kMean;
  int64_t type = 1;
  TENON_RETURN_IF_ERROR(fields.Optional("pooling_type", type));
  for (const auto& [number, pooling] : kPoolings) {
    if (number == type) {
      config.pooling = pooling;
      return {};
    }
  }
  return fields.Wrong("pooling_type", fmt::format("{} found, 1 to 3 expected", type));
}

bool IsAdded(TokenType type) {
  return type == TokenType::kControl || type == TokenType::kUserDefined ||
         type == TokenType::kUnknown;
}

// transformers' spelling: "word", "##part", "[CLS]".
std::string Spelling(const std::string& token, TokenType type) {
  if (IsAdded(type) || (token.starts_with('[') && token.ends_with(']')))
    return token;
  if (token.starts_with(kWordStart))
    return token.substr(kWordStart.size());
  return fmt::format("{}{}", kContinuation, token);
}

}  // namespace

Status ReadGgufBert(const GgufFields& fields, ModelConfig& config) {
  config.activation = Activation::kGeluErf;
  TENON_ASSIGN_OR_RETURN(const auto causal, fields.Flag("attention.causal"));
  if (causal.value_or(false))
    return fields.Wrong("attention.causal", "true found, false expected");
  return ReadPooling(fields, config);
}

void MakeWordPiece(int32_t separator_id, TokenizerSpec& spec) {
  TokenizerPipeline pipeline;
  pipeline.normalizers.emplace_back(normalizer::Bert{});
  pipeline.pre_tokenizers.emplace_back(
      pre_tokenizer::SplitClasses{char_class::kSpace, SplitBehavior::kRemoved});
  pipeline.pre_tokenizers.emplace_back(
      pre_tokenizer::SplitClasses{char_class::kPunctuationStep, SplitBehavior::kIsolated});
  WordPieceOptions model;
  model.unknown_id = spec.unknown_id;
  pipeline.model = model;
  pipeline.in_model.assign(spec.tokens.size(), true);
  pipeline.decoders.emplace_back(decoder::WordPiece{std::string(kContinuation), true});
  spec.types.resize(spec.tokens.size(), TokenType::kNormal);
  for (size_t id = 0; id < spec.tokens.size(); ++id) {
    spec.tokens[id] = Spelling(spec.tokens[id], spec.types[id]);
    if (!IsAdded(spec.types[id]))
      continue;
    spec.types[id] = TokenType::kControl;
    AddedToken added;
    added.id = static_cast<int32_t>(id);
    added.special = true;
    pipeline.added_tokens.push_back(added);
  }
  if (spec.bos_id >= 0)
    pipeline.prefix = {spec.bos_id};
  if (separator_id >= 0)
    pipeline.suffix = {separator_id};
  spec.model = "pipeline";
  spec.pipeline = std::make_shared<const TokenizerPipeline>(std::move(pipeline));
}

}  // namespace tenon
