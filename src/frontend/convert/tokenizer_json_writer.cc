#include "frontend/convert/tokenizer_json_writer.h"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>

#include "frontend/convert/sentence_piece_json.h"

namespace tenon {
namespace {

using Json = nlohmann::ordered_json;

// Patterns in the spelling of the models' own tokenizer.json files.
#define TENON_CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define TENON_CL100K(digits)                                     \
  TENON_CONTRACTIONS R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N})" digits \
                     R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"
#define TENON_O200K(contraction, digits)                                                         \
  R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)" contraction  \
  R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)" contraction \
  R"(|\p{N})" digits R"(| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"
constexpr const char* kLlama3 = TENON_CL100K("{1,3}");
constexpr const char* kQwen2 = TENON_CL100K("");
constexpr const char* kGpt4o = TENON_O200K(TENON_CONTRACTIONS "?", "{1,3}");
constexpr const char* kTekken = TENON_O200K("", "");
#undef TENON_O200K
#undef TENON_CL100K
#undef TENON_CONTRACTIONS

enum class Digits : uint8_t { kWithRegex, kAlone };

// How a named pre-tokenizer of GGUF is written.
struct NamedSplit {
  std::string_view name;
  const char* regex;  // null: GPT-2's own, in the ByteLevel step
  Digits digits = Digits::kWithRegex;
  bool normalized = false;   // NFC
  bool whole_words = false;  // a word that is a token is taken whole
};
constexpr std::array<NamedSplit, 20> kSplits = {{
    {"gpt-2", nullptr},
    {"phi-2", nullptr},
    {"mpt", nullptr, Digits::kWithRegex, true},
    {"olmo", nullptr, Digits::kWithRegex, true},
    {"smollm", nullptr, Digits::kAlone},
    {"starcoder", nullptr, Digits::kAlone},
    {"refact", nullptr, Digits::kAlone},
    {"codeshell", nullptr, Digits::kAlone},
    {"command-r", nullptr, Digits::kAlone, true},
    {"llama-bpe", kLlama3, Digits::kWithRegex, false, true},
    {"llama3", kLlama3, Digits::kWithRegex, false, true},
    {"llama-v3", kLlama3, Digits::kWithRegex, false, true},
    {"smaug-bpe", kLlama3},
    {"dbrx", kLlama3},
    {"qwen2", kQwen2, Digits::kWithRegex, true},
    {"deepseek-r1-qwen", kQwen2, Digits::kWithRegex, true},
    {"stablelm2", kQwen2, Digits::kWithRegex, true},
    {"gpt-4o", kGpt4o},
    {"llama4", kGpt4o},
    {"tekken", kTekken, Digits::kWithRegex, false, true},
}};

Result<const NamedSplit*> FindSplit(const TokenizerSpec& spec) {
  if (spec.model != "gpt2" || spec.merges.empty())
    return Unsupported(fmt::format("tokenizer.json can't be made of a '{}' tokenizer from GGUF, "
                                   "only of byte-level BPE ('gpt2') and SentencePiece with scores "
                                   "('llama')",
                                   spec.model),
                       "tokenizer.ggml.model");
  for (const NamedSplit& split : kSplits) {
    if (split.name == spec.pre)
      return &split;
  }
  return Unsupported(
      fmt::format("tokenizer.json can't be made: the pattern of the pre-tokenizer '{}' is not "
                  "known in its form",
                  spec.pre),
      "tokenizer.ggml.pre");
}

Json ByteLevel(bool use_regex) {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", false},
          {"trim_offsets", true},
          {"use_regex", use_regex}};
}

Json PreTokenizer(const NamedSplit& split) {
  if (split.regex == nullptr && split.digits == Digits::kWithRegex)
    return ByteLevel(true);
  Json first = {{"type", "Digits"}, {"individual_digits", true}};
  if (split.regex != nullptr) {
    first = {{"type", "Split"},
             {"pattern", {{"Regex", split.regex}}},
             {"behavior", "Isolated"},
             {"invert", false}};
  }
  return {{"type", "Sequence"},
          {"pretokenizers", Json::array({first, ByteLevel(split.regex == nullptr)})}};
}

bool IsAdded(const TokenizerSpec& spec, size_t id) {
  const TokenType type = id < spec.types.size() ? spec.types[id] : TokenType::kNormal;
  return type == TokenType::kControl || type == TokenType::kUserDefined ||
         type == TokenType::kUnknown;
}

Json AddedTokens(const TokenizerSpec& spec) {
  Json tokens = Json::array();
  for (size_t id = 0; id < spec.tokens.size(); ++id) {
    if (!IsAdded(spec, id))
      continue;
    tokens.push_back({{"id", id},
                      {"content", spec.tokens[id]},
                      {"single_word", false},
                      {"lstrip", false},
                      {"rstrip", false},
                      {"normalized", false},
                      {"special", spec.types[id] != TokenType::kUserDefined}});
  }
  return tokens;
}

Json VocabularyOf(const TokenizerSpec& spec) {
  Json vocabulary = Json::object();
  // Added by position: by name, each would be compared with all before.
  auto& members = vocabulary.get_ref<Json::object_t&>();
  for (size_t id = 0; id < spec.tokens.size(); ++id)
    members.emplace_back(spec.tokens[id], id);
  return vocabulary;
}

Json Model(const TokenizerSpec& spec, const NamedSplit& split) {
  Json model = {{"type", "BPE"},
                {"dropout", nullptr},
                {"unk_token", nullptr},
                {"continuing_subword_prefix", nullptr},
                {"end_of_word_suffix", nullptr},
                {"fuse_unk", false},
                {"byte_fallback", false},
                {"ignore_merges", split.whole_words}};
  model["vocab"] = VocabularyOf(spec);
  Json& merges = model["merges"] = Json::array();
  for (const std::string& merge : spec.merges) {
    // The left part may be a space.
    const size_t space = merge.find(' ', 1);
    merges.push_back(Json::array({merge.substr(0, space), merge.substr(space + 1)}));
  }
  return model;
}

Json Sequence(std::string_view name, int type_id) {
  return {{"Sequence", {{"id", name}, {"type_id", type_id}}}};
}

// The tokens around a text.
Json PostProcessor(const TokenizerSpec& spec) {
  Json single = Json::array();
  Json pair = Json::array();
  Json special = Json::object();
  const auto add = [&](int32_t id) {
    const std::string& text = spec.tokens[static_cast<size_t>(id)];
    const Json token = {{"SpecialToken", {{"id", text}, {"type_id", 0}}}};
    single.push_back(token);
    pair.push_back(token);
    special[text] = {{"id", text}, {"ids", Json::array({id})}, {"tokens", Json::array({text})}};
  };
  const auto known = [&](int32_t id) {
    return id >= 0 && static_cast<size_t>(id) < spec.tokens.size();
  };
  if (spec.add_bos && known(spec.bos_id))
    add(spec.bos_id);
  single.push_back(Sequence("A", 0));
  pair.push_back(Sequence("A", 0));
  pair.push_back(Sequence("B", 1));
  if (spec.add_eos && known(spec.eos_id))
    add(spec.eos_id);
  return {{"type", "TemplateProcessing"},
          {"single", single},
          {"pair", pair},
          {"special_tokens", special}};
}

}  // namespace

Result<Json> MakeTokenizerJson(const TokenizerSpec& spec) {
  Json json;
  json["version"] = "1.0";
  json["truncation"] = nullptr;
  json["padding"] = nullptr;
  json["added_tokens"] = AddedTokens(spec);
  if (IsSentencePiece(spec)) {
    json["normalizer"] = SentencePieceNormalizer(spec);
    json["pre_tokenizer"] = nullptr;
    json["post_processor"] = PostProcessor(spec);
    json["decoder"] = SentencePieceDecoder(spec);
    json["model"] = SentencePieceModel(spec);
    json["model"]["vocab"] = VocabularyOf(spec);
    return json;
  }
  TENON_ASSIGN_OR_RETURN(const NamedSplit* split, FindSplit(spec));
  json["normalizer"] = split->normalized ? Json{{"type", "NFC"}} : Json();
  json["pre_tokenizer"] = PreTokenizer(*split);
  json["post_processor"] = PostProcessor(spec);
  json["decoder"] = ByteLevel(true);
  json["model"] = Model(spec, *split);
  return json;
}

Json MakeTokenizerConfig(const TokenizerSpec& spec, const std::string& chat_template) {
  Json json;
  json["tokenizer_class"] = "PreTrainedTokenizerFast";
  json["clean_up_tokenization_spaces"] = false;
  json["add_bos_token"] = spec.add_bos;
  const std::array<std::pair<std::string_view, int32_t>, 4> names = {{
      {"bos_token", spec.bos_id},
      {"eos_token", spec.eos_id},
      {"unk_token", spec.unknown_id},
      {"pad_token", spec.padding_id},
  }};
  for (const auto& [name, id] : names) {
    if (id >= 0 && static_cast<size_t>(id) < spec.tokens.size())
      json[name] = spec.tokens[static_cast<size_t>(id)];
  }
  if (!chat_template.empty())
    json["chat_template"] = chat_template;
  return json;
}

}  // namespace tenon
