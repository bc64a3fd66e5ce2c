// ReadGgufTokenizer (gguf_config.h).
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "model/gguf/gguf_config.h"

namespace tenon {
namespace {

constexpr std::string_view kTokensKey = "tokenizer.ggml.tokens";
constexpr std::string_view kScoresKey = "tokenizer.ggml.scores";
constexpr std::string_view kTypesKey = "tokenizer.ggml.token_type";
constexpr std::string_view kMergesKey = "tokenizer.ggml.merges";

// Twice the largest tables of published models (some 514,000 merges); a string in memory takes four
// times the bytes of the shortest one in a file.
constexpr uint64_t kMostStrings = 1 << 20;

// The array of strings at `key`, checked but not copied; empty when there is none.
Result<GgufValue> FindStrings(const GgufMetadata& metadata, std::string_view key) {
  TENON_ASSIGN_OR_RETURN(const auto array, metadata.Array(key, GgufType::kString));
  if (array && array->count > kMostStrings) {
    return metadata.ErrorAt(
        key, fmt::format("{} strings found, at most {} expected", array->count, kMostStrings));
  }
  GgufValue none;
  none.type = GgufType::kArray;
  none.element = GgufType::kString;
  return array.value_or(none);
}

std::vector<std::string> CopyStrings(const GgufValue& array) {
  std::vector<std::string> strings;
  strings.reserve(array.count);
  for (const std::string_view text : ArrayStrings(array))
    strings.emplace_back(text);
  return strings;
}

// The array at `key`, which must have one element a token.
Result<std::optional<GgufValue>> ReadPerToken(const GgufMetadata& metadata, std::string_view key,
                                              std::pair<GgufType, uint64_t> expected) {
  TENON_ASSIGN_OR_RETURN(auto array, metadata.Array(key, expected.first));
  if (array && array->count != expected.second) {
    return metadata.ErrorAt(key, fmt::format("{} elements found, but there are {} tokens",
                                             array->count, expected.second));
  }
  return array;
}

Status ReadScores(const GgufMetadata& metadata, uint64_t tokens, TokenizerSpec& spec) {
  TENON_ASSIGN_OR_RETURN(const auto array,
                         ReadPerToken(metadata, kScoresKey, {GgufType::kFloat32, tokens}));
  if (!array)
    return {};
  spec.scores.reserve(array->count);
  for (uint64_t i = 0; i < array->count; ++i)
    spec.scores.push_back(static_cast<float>(*AsFloat(ArrayElement(*array, i))));
  return {};
}

Status ReadTypes(const GgufMetadata& metadata, uint64_t tokens, TokenizerSpec& spec) {
  TENON_ASSIGN_OR_RETURN(const auto array,
                         ReadPerToken(metadata, kTypesKey, {GgufType::kInt32, tokens}));
  if (!array)
    return {};
  spec.types.reserve(array->count);
  for (uint64_t i = 0; i < array->count; ++i) {
    const int64_t type = *AsInteger(ArrayElement(*array, i));
    if (type < 0 || type > static_cast<int64_t>(TokenType::kByte))
      return metadata.ErrorAt(kTypesKey, fmt::format("token {} has the unknown type {}", i, type));
    spec.types.push_back(static_cast<TokenType>(type));
  }
  return {};
}

Status ReadId(const GgufMetadata& metadata, std::string_view key, int32_t& out) {
  TENON_ASSIGN_OR_RETURN(const auto id, metadata.Integer(key));
  // Converters write "none" as -1, also unsigned.
  if (!id || *id == -1 || *id == std::numeric_limits<uint32_t>::max())
    return {};
  if (*id < 0 || *id > std::numeric_limits<int32_t>::max())
    return metadata.ErrorAt(key, fmt::format("{} found, a token id expected", *id));
  out = static_cast<int32_t>(*id);
  return {};
}

Status ReadIds(const GgufMetadata& metadata, TokenizerSpec& spec) {
  TENON_RETURN_IF_ERROR(ReadId(metadata, "tokenizer.ggml.bos_token_id", spec.bos_id));
  TENON_RETURN_IF_ERROR(ReadId(metadata, "tokenizer.ggml.eos_token_id", spec.eos_id));
  TENON_RETURN_IF_ERROR(ReadId(metadata, "tokenizer.ggml.eot_token_id", spec.eot_id));
  TENON_RETURN_IF_ERROR(ReadId(metadata, "tokenizer.ggml.unknown_token_id", spec.unknown_id));
  TENON_RETURN_IF_ERROR(ReadId(metadata, "tokenizer.ggml.padding_token_id", spec.padding_id));
  int32_t eom_id = -1;  // end of a message that waits for a tool's answer
  TENON_RETURN_IF_ERROR(ReadId(metadata, "tokenizer.ggml.eom_token_id", eom_id));
  if (eom_id >= 0)
    spec.stop_ids.push_back(eom_id);
  return {};
}

// What a file means that does not say it: SentencePiece puts a begin token and a space in front,
// byte-level BPE neither, except that Llama 3 has a begin token.
void SetDefaults(TokenizerSpec& spec) {
  const bool is_sentencepiece = spec.model == "llama";
  const bool is_llama3 = spec.pre == "llama-bpe" || spec.pre == "llama3" || spec.pre == "llama-v3";
  spec.add_bos = is_sentencepiece || is_llama3;
  spec.add_space_prefix = is_sentencepiece;
}

Status ReadFlag(const GgufMetadata& metadata, std::string_view key, bool& out) {
  TENON_ASSIGN_OR_RETURN(const auto flag, metadata.Bool(key));
  out = flag.value_or(out);
  return {};
}

Status ReadFlags(const GgufMetadata& metadata, TokenizerSpec& spec) {
  SetDefaults(spec);
  TENON_RETURN_IF_ERROR(ReadFlag(metadata, "tokenizer.ggml.add_bos_token", spec.add_bos));
  TENON_RETURN_IF_ERROR(ReadFlag(metadata, "tokenizer.ggml.add_eos_token", spec.add_eos));
  return ReadFlag(metadata, "tokenizer.ggml.add_space_prefix", spec.add_space_prefix);
}

// Texts by which published models end a turn; many files name only one such id in their metadata.
constexpr std::string_view kEndTexts[] = {"<|eot_id|>", "<|im_end|>", "<end_of_turn>",
                                          "<|end|>",    "<|eom_id|>", "<|endoftext|>"};

// Adds the control tokens among kEndTexts to the stop ids, so that a model never runs past its
// turn.
void AddStopIds(TokenizerSpec& spec) {
  for (size_t i = 0; i < spec.types.size(); ++i) {
    const bool is_special =
        spec.types[i] == TokenType::kControl || spec.types[i] == TokenType::kUserDefined;
    if (!is_special || std::find(std::begin(kEndTexts), std::end(kEndTexts), spec.tokens[i]) ==
                           std::end(kEndTexts))
      continue;
    const auto id = static_cast<int32_t>(i);
    const bool is_known =
        id == spec.eos_id || id == spec.eot_id ||
        std::find(spec.stop_ids.begin(), spec.stop_ids.end(), id) != spec.stop_ids.end();
    if (!is_known)
      spec.stop_ids.push_back(id);
  }
}

// Older files call the first token's id by its own name; the other key is spelled so in the format.
Status TakeWordPiece(const GgufMetadata& metadata, TokenizerSpec& spec) {
  int32_t separator_id = -1;
  if (spec.bos_id < 0)
    TENON_RETURN_IF_ERROR(ReadId(metadata, "tokenizer.ggml.cls_token_id", spec.bos_id));
  TENON_RETURN_IF_ERROR(ReadId(metadata, "tokenizer.ggml.seperator_token_id", separator_id));
  for (const int32_t id : {spec.bos_id, separator_id, spec.unknown_id}) {
    if (id >= static_cast<int32_t>(spec.tokens.size()))
      return metadata.ErrorAt(
          kTokensKey, fmt::format("{} tokens, but the id {} is used", spec.tokens.size(), id));
  }
  MakeWordPiece(separator_id, spec);
  return {};
}

}  // namespace

Result<std::optional<int64_t>> GgufVocabularySize(const GgufMetadata& metadata) {
  TENON_ASSIGN_OR_RETURN(const auto array, metadata.Array(kTokensKey, GgufType::kString));
  if (!array)
    return std::optional<int64_t>();
  return std::optional<int64_t>(static_cast<int64_t>(array->count));
}

Result<TokenizerSpec> ReadGgufTokenizer(const GgufMetadata& metadata) {
  TokenizerSpec spec;
  TENON_ASSIGN_OR_RETURN(const auto model, metadata.String("tokenizer.ggml.model"));
  if (!model)
    return spec;
  spec.model = *model;
  TENON_ASSIGN_OR_RETURN(const auto pre, metadata.String("tokenizer.ggml.pre"));
  spec.pre = pre.value_or("");
  TENON_ASSIGN_OR_RETURN(const GgufValue tokens, FindStrings(metadata, kTokensKey));
  if (tokens.count == 0)
    return metadata.ErrorAt(kTokensKey, "missing or empty, although there is a tokenizer model");
  TENON_ASSIGN_OR_RETURN(const GgufValue merges, FindStrings(metadata, kMergesKey));
  TENON_RETURN_IF_ERROR(ReadScores(metadata, tokens.count, spec));
  TENON_RETURN_IF_ERROR(ReadTypes(metadata, tokens.count, spec));
  TENON_RETURN_IF_ERROR(ReadIds(metadata, spec));
  TENON_RETURN_IF_ERROR(ReadFlags(metadata, spec));
  // Last, so that an error costs no memory.
  spec.tokens = CopyStrings(tokens);
  spec.merges = CopyStrings(merges);
  AddStopIds(spec);
  if (spec.model == "bert")
    TENON_RETURN_IF_ERROR(TakeWordPiece(metadata, spec));
  return spec;
}

}  // namespace tenon
