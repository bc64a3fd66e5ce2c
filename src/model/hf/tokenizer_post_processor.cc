// ReadPostProcessor (tokenizer_json.h): the tokens that stand before and after a single text.
#include <fmt/format.h>

#include "model/hf/tokenizer_json.h"

namespace tenon {
namespace {

// The ids that the template's special token stands for.
Result<std::vector<int32_t>> SpecialIds(const JsonValue& processor, const JsonValue& name) {
  TENON_ASSIGN_OR_RETURN(const std::string_view text, name.String());
  TENON_ASSIGN_OR_RETURN(const JsonValue table, processor.At("special_tokens"));
  TENON_ASSIGN_OR_RETURN(const JsonValue entry, table.At(text));
  TENON_ASSIGN_OR_RETURN(const JsonValue ids, entry.At("ids"));
  TENON_ASSIGN_OR_RETURN(const auto items, ids.Array());
  std::vector<int32_t> out;
  for (const simdjson::dom::element item : items) {
    const JsonValue value = ids.Item(out.size(), item);
    TENON_ASSIGN_OR_RETURN(const int64_t id, value.Integer());
    if (id < 0 || id > INT32_MAX)
      return value.Wrong("a token id expected");
    out.push_back(static_cast<int32_t>(id));
  }
  return out;
}

Status ReadTemplate(const JsonValue& value, TokenizerPipeline& pipeline) {
  TENON_ASSIGN_OR_RETURN(const JsonValue single, value.At("single"));
  TENON_ASSIGN_OR_RETURN(const auto items, single.Array());
  bool behind = false;
  size_t index = 0;
  std::vector<int32_t> prefix;
  std::vector<int32_t> suffix;
  for (const simdjson::dom::element item : items) {
    const JsonValue piece = single.Item(index++, item);
    if (piece.Find("Sequence")) {
      if (behind)
        return piece.NotSupported("the text twice");
      behind = true;
      continue;
    }
    TENON_ASSIGN_OR_RETURN(const JsonValue token, piece.At("SpecialToken"));
    TENON_ASSIGN_OR_RETURN(const JsonValue name, token.At("id"));
    TENON_ASSIGN_OR_RETURN(const std::vector<int32_t> ids, SpecialIds(value, name));
    std::vector<int32_t>& side = behind ? suffix : prefix;
    side.insert(side.end(), ids.begin(), ids.end());
  }
  if (!behind)
    return single.Wrong("the text itself is missing");
  pipeline.prefix.insert(pipeline.prefix.begin(), prefix.begin(), prefix.end());
  pipeline.suffix.insert(pipeline.suffix.end(), suffix.begin(), suffix.end());
  return {};
}

// ["</s>", 2]
Result<int32_t> ReadPair(const JsonValue& value, std::string_view field) {
  TENON_ASSIGN_OR_RETURN(const JsonValue pair, value.At(field));
  TENON_ASSIGN_OR_RETURN(const auto items, pair.Array());
  int64_t id = -1;
  if (items.size() != 2 || items.at(1).get_int64().get(id) != simdjson::SUCCESS || id < 0 ||
      id > INT32_MAX)
    return pair.Wrong("a token and its id expected");
  return static_cast<int32_t>(id);
}

Status ReadSeparators(const JsonValue& value, TokenizerPipeline& pipeline) {
  TENON_ASSIGN_OR_RETURN(const int32_t begin, ReadPair(value, "cls"));
  TENON_ASSIGN_OR_RETURN(const int32_t end, ReadPair(value, "sep"));
  pipeline.prefix.insert(pipeline.prefix.begin(), begin);
  pipeline.suffix.push_back(end);
  return {};
}

}  // namespace

Status ReadPostProcessor(const JsonValue& value, TokenizerPipeline& pipeline) {
  TENON_ASSIGN_OR_RETURN(const JsonValue field, value.At("type"));
  TENON_ASSIGN_OR_RETURN(const std::string_view type, field.String());
  // Only about places in the text, which nobody asks for here.
  if (type == "ByteLevel")
    return {};
  if (type == "TemplateProcessing")
    return ReadTemplate(value, pipeline);
  if (type == "BertProcessing" || type == "RobertaProcessing")
    return ReadSeparators(value, pipeline);
  if (type == "Sequence") {
    TENON_ASSIGN_OR_RETURN(const JsonValue list, value.At("processors"));
    TENON_ASSIGN_OR_RETURN(const auto items, list.Array());
    size_t index = 0;
    for (const simdjson::dom::element item : items)
      TENON_RETURN_IF_ERROR(ReadPostProcessor(list.Item(index++, item), pipeline));
    return {};
  }
  return field.NotSupported(
      fmt::format("the type '{}'; known are ByteLevel, TemplateProcessing, BertProcessing, "
                  "RobertaProcessing, Sequence",
                  type));
}

}  // namespace tenon
