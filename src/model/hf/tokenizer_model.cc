// ReadTokenModel (tokenizer_json.h).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "model/hf/tokenizer_json.h"

namespace tenon {
namespace {

// Published vocabularies end at 262144 tokens.
constexpr size_t kMostTokens = size_t{1} << 23;

using Ids = std::unordered_map<std::string_view, int32_t>;

void SizeTables(size_t tokens, TokenizerSpec& spec, TokenizerPipeline& pipeline) {
  spec.tokens.resize(tokens);
  spec.types.resize(tokens, TokenType::kUnused);
  pipeline.in_model.resize(tokens, false);
}

void SetToken(size_t id, std::string_view text, TokenizerSpec& spec, TokenizerPipeline& pipeline) {
  spec.tokens[id] = text;
  spec.types[id] = TokenType::kNormal;
  pipeline.in_model[id] = true;
}

// The vocabulary of BPE, WordPiece and WordLevel: an object from text to id. Ids may leave gaps,
// but no larger ones than there are tokens.
Result<Ids> ReadVocabulary(const JsonValue& model, TokenizerSpec& spec,
                           TokenizerPipeline& pipeline) {
  TENON_ASSIGN_OR_RETURN(const JsonValue vocabulary, model.At("vocab"));
  TENON_ASSIGN_OR_RETURN(const auto entries, vocabulary.Object());
  Ids ids;
  int64_t last = -1;
  for (const auto& [text, value] : entries) {
    int64_t id = -1;
    if (value.get_int64().get(id) != simdjson::SUCCESS || id < 0)
      return vocabulary.Member(text, value).Wrong("an id from 0 expected");
    last = std::max(last, id);
    ids[text] = static_cast<int32_t>(std::min<int64_t>(id, INT32_MAX));
  }
  if (ids.empty() || ids.size() > kMostTokens)
    return vocabulary.Wrong(fmt::format("{} tokens, 1 to {} expected", ids.size(), kMostTokens));
  if (last >= 2 * static_cast<int64_t>(ids.size()) + 1024)
    return vocabulary.Wrong(fmt::format("the id {} found among {} tokens", last, ids.size()));
  SizeTables(static_cast<size_t>(last) + 1, spec, pipeline);
  for (const auto& [text, id] : ids) {
    const auto index = static_cast<size_t>(id);
    if (pipeline.in_model[index]) {
      return vocabulary.Wrong(
          fmt::format("'{}' and '{}' have the same id {}", spec.tokens[index], text, id));
    }
    SetToken(index, text, spec, pipeline);
  }
  return ids;
}

// The id of the token that `field` names; -1 when the field is missing.
Result<int32_t> ReadTokenId(const JsonValue& model, std::string_view field, const Ids& ids) {
  const auto value = model.Find(field);
  if (!value)
    return -1;
  TENON_ASSIGN_OR_RETURN(const std::string_view text, value->String());
  const auto found = ids.find(text);
  if (found == ids.end())
    return value->Wrong(fmt::format("'{}' is not in the vocabulary", text));
  return found->second;
}

struct MergeParts {
  std::string_view left;
  std::string_view right;
};

// "left right", or ["left", "right"], whose parts may have spaces.
bool SplitMerge(simdjson::dom::element item, MergeParts& parts) {
  std::string_view text;
  if (item.get_string().get(text) == simdjson::SUCCESS) {
    const size_t space = text.find(' ');
    if (space == std::string_view::npos || text.find(' ', space + 1) != std::string_view::npos)
      return false;
    parts = {text.substr(0, space), text.substr(space + 1)};
    return true;
  }
  simdjson::dom::array pair;
  return item.get_array().get(pair) == simdjson::SUCCESS && pair.size() == 2 &&
         pair.at(0).get_string().get(parts.left) == simdjson::SUCCESS &&
         pair.at(1).get_string().get(parts.right) == simdjson::SUCCESS;
}

Status ReadMerges(const JsonValue& model, const Ids& ids, BpeOptions& options) {
  TENON_ASSIGN_OR_RETURN(const JsonValue merges, model.At("merges"));
  TENON_ASSIGN_OR_RETURN(const auto entries, merges.Array());
  options.merges.reserve(std::min(entries.size(), kMostTokens));
  const std::string_view prefix = options.continuing_subword_prefix;
  std::string both;
  size_t rank = 0;
  for (const simdjson::dom::element item : entries) {
    MergeParts parts;
    if (!SplitMerge(item, parts))
      return merges.Item(rank, item).Wrong("two tokens expected");
    const std::string_view rest =
        parts.right.starts_with(prefix) ? parts.right.substr(prefix.size()) : parts.right;
    both.assign(parts.left).append(rest);
    const auto left = ids.find(parts.left);
    const auto right = ids.find(parts.right);
    const auto merged = ids.find(both);
    if (left == ids.end() || right == ids.end() || merged == ids.end()) {
      return merges.Item(rank, item)
          .Wrong(fmt::format("'{}' and '{}', or what they become, are not in the vocabulary",
                             parts.left, parts.right));
    }
    options.merges.push_back({left->second, right->second, merged->second});
    ++rank;
  }
  return {};
}

Status ReadBpe(const JsonValue& model, TokenizerSpec& spec, TokenizerPipeline& pipeline) {
  BpeOptions options;
  TENON_ASSIGN_OR_RETURN(const double dropout, model.NumberOr("dropout", 0.0));
  if (dropout != 0.0)
    return model.Member("dropout", model.element()).NotSupported("merges are dropped at random");
  TENON_ASSIGN_OR_RETURN(options.continuing_subword_prefix,
                         model.StringOr("continuing_subword_prefix", ""));
  TENON_ASSIGN_OR_RETURN(options.end_of_word_suffix, model.StringOr("end_of_word_suffix", ""));
  TENON_ASSIGN_OR_RETURN(options.fuse_unknown, model.BoolOr("fuse_unk", false));
  TENON_ASSIGN_OR_RETURN(options.byte_fallback, model.BoolOr("byte_fallback", false));
  TENON_ASSIGN_OR_RETURN(options.ignore_merges, model.BoolOr("ignore_merges", false));
  TENON_ASSIGN_OR_RETURN(const Ids ids, ReadVocabulary(model, spec, pipeline));
  TENON_ASSIGN_OR_RETURN(options.unknown_id, ReadTokenId(model, "unk_token", ids));
  TENON_RETURN_IF_ERROR(ReadMerges(model, ids, options));
  spec.unknown_id = options.unknown_id;
  pipeline.model = std::move(options);
  return {};
}

Status ReadUnigram(const JsonValue& model, TokenizerSpec& spec, TokenizerPipeline& pipeline) {
  UnigramOptions options;
  TENON_ASSIGN_OR_RETURN(const JsonValue vocabulary, model.At("vocab"));
  TENON_ASSIGN_OR_RETURN(const auto entries, vocabulary.Array());
  if (entries.size() == 0 || entries.size() > kMostTokens) {
    return vocabulary.Wrong(
        fmt::format("{} tokens, 1 to {} expected", entries.size(), kMostTokens));
  }
  SizeTables(entries.size(), spec, pipeline);
  size_t id = 0;
  for (const simdjson::dom::element item : entries) {
    std::string_view text;
    double score = 0.0;
    simdjson::dom::array pair;
    if (item.get_array().get(pair) != simdjson::SUCCESS || pair.size() != 2 ||
        pair.at(0).get_string().get(text) != simdjson::SUCCESS ||
        pair.at(1).get_double().get(score) != simdjson::SUCCESS || !std::isfinite(score))
      return vocabulary.Item(id, item).Wrong("a token and its score expected");
    SetToken(id++, text, spec, pipeline);
    options.scores.push_back(score);
  }
  TENON_ASSIGN_OR_RETURN(const int64_t unknown, model.IntegerOr("unk_id", -1));
  if (unknown < -1 || unknown >= static_cast<int64_t>(id)) {
    return model.Member("unk_id", model.element())
        .Wrong(fmt::format("{} found, an id below {} expected", unknown, id));
  }
  options.unknown_id = static_cast<int32_t>(unknown);
  TENON_ASSIGN_OR_RETURN(options.byte_fallback, model.BoolOr("byte_fallback", false));
  spec.unknown_id = options.unknown_id;
  pipeline.model = std::move(options);
  return {};
}

Status ReadWordPiece(const JsonValue& model, TokenizerSpec& spec, TokenizerPipeline& pipeline) {
  WordPieceOptions options;
  TENON_ASSIGN_OR_RETURN(const Ids ids, ReadVocabulary(model, spec, pipeline));
  TENON_ASSIGN_OR_RETURN(options.unknown_id, ReadTokenId(model, "unk_token", ids));
  TENON_ASSIGN_OR_RETURN(options.continuing_subword_prefix,
                         model.StringOr("continuing_subword_prefix", "##"));
  TENON_ASSIGN_OR_RETURN(options.longest_word, model.IntegerOr("max_input_chars_per_word", 100));
  spec.unknown_id = options.unknown_id;
  pipeline.model = std::move(options);
  return {};
}

Status ReadWordLevel(const JsonValue& model, TokenizerSpec& spec, TokenizerPipeline& pipeline) {
  TENON_ASSIGN_OR_RETURN(const Ids ids, ReadVocabulary(model, spec, pipeline));
  WordLevelOptions options;
  TENON_ASSIGN_OR_RETURN(options.unknown_id, ReadTokenId(model, "unk_token", ids));
  spec.unknown_id = options.unknown_id;
  pipeline.model = options;
  return {};
}

}  // namespace

Status ReadTokenModel(const JsonValue& value, TokenizerSpec& spec, TokenizerPipeline& pipeline) {
  // Old files leave the type out; only BPE has merges.
  TENON_ASSIGN_OR_RETURN(const std::string type,
                         value.StringOr("type", value.Find("merges") ? "BPE" : ""));
  if (type == "BPE")
    return ReadBpe(value, spec, pipeline);
  if (type == "Unigram")
    return ReadUnigram(value, spec, pipeline);
  if (type == "WordPiece")
    return ReadWordPiece(value, spec, pipeline);
  if (type == "WordLevel")
    return ReadWordLevel(value, spec, pipeline);
  return value.NotSupported(
      fmt::format("the model type '{}'; known are BPE, Unigram, WordPiece and WordLevel", type));
}

}  // namespace tenon
