#include "model/hf/hf_text_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>

#include "base/file_io.h"
#include "model/hf/tokenizer_json.h"

namespace tenon {
namespace {

namespace fs = std::filesystem;

// Real ones have some kilobytes; a tokenizer_config.json may list every added token.
constexpr uint64_t kMaxConfigBytes = 32 << 20;
constexpr uint64_t kMaxTemplateBytes = 4 << 20;

// The document of a file that may be missing.
Result<std::optional<JsonDocument>> ReadIfThere(const fs::path& path) {
  std::error_code error;
  if (!fs::exists(path, error))
    return std::optional<JsonDocument>();
  TENON_ASSIGN_OR_RETURN(JsonDocument document, ReadJsonFile(path));
  return std::optional(std::move(document));
}

// Adds the ids at `key`, one or a list, to `ids`; each is below `limit`.
Status ReadIds(const JsonValue& object, std::string_view key, int64_t limit,
               std::vector<int32_t>& ids) {
  const auto field = object.Find(key);
  if (!field)
    return {};
  std::vector<JsonValue> values;
  if (field->IsArray()) {
    TENON_ASSIGN_OR_RETURN(const auto items, field->Array());
    for (const simdjson::dom::element item : items)
      values.push_back(field->Item(values.size(), item));
  } else {
    values.push_back(*field);
  }
  for (const JsonValue& value : values) {
    TENON_ASSIGN_OR_RETURN(const int64_t id, value.Integer());
    // Some files say "none" so.
    if (id == -1)
      continue;
    if (id < 0 || id >= limit)
      return value.Wrong(fmt::format("{} found, a token id below {} expected", id, limit));
    ids.push_back(static_cast<int32_t>(id));
  }
  return {};
}

// The id of the token that `key` names: a text, or an object with its "content".
Status ReadNamedToken(const JsonValue& object, std::string_view key, const TokenizerSpec& spec,
                      int32_t& id) {
  auto field = object.Find(key);
  if (field && field->IsObject())
    field = field->Find("content");
  if (!field || id >= 0)
    return {};
  TENON_ASSIGN_OR_RETURN(const std::string_view text, field->String());
  const auto found = std::find(spec.tokens.begin(), spec.tokens.end(), text);
  if (found == spec.tokens.end())
    return field->Wrong(fmt::format("'{}' is no token of tokenizer.json", text));
  id = static_cast<int32_t>(found - spec.tokens.begin());
  return {};
}

Status ReadTokens(const JsonValue& object, TokenizerSpec& spec) {
  TENON_RETURN_IF_ERROR(ReadNamedToken(object, "bos_token", spec, spec.bos_id));
  TENON_RETURN_IF_ERROR(ReadNamedToken(object, "eos_token", spec, spec.eos_id));
  return ReadNamedToken(object, "pad_token", spec, spec.padding_id);
}

// One template, or a list of named ones.
Result<std::string> ReadTemplate(const JsonValue& object) {
  const auto field = object.Find("chat_template");
  if (!field)
    return std::string();
  if (!field->IsArray())
    return object.StringOr("chat_template", "");
  TENON_ASSIGN_OR_RETURN(const auto items, field->Array());
  size_t index = 0;
  for (const simdjson::dom::element item : items) {
    const JsonValue entry = field->Item(index++, item);
    TENON_ASSIGN_OR_RETURN(const std::string name, entry.StringOr("name", ""));
    if (name == "default")
      return entry.StringOr("template", "");
  }
  return field->Wrong("no template is called 'default'");
}

Status ReadTokenizerConfig(const fs::path& directory, ModelSource& source) {
  for (const char* name : {"tokenizer_config.json", "special_tokens_map.json"}) {
    TENON_ASSIGN_OR_RETURN(const auto document, ReadIfThere(directory / name));
    if (!document)
      continue;
    TENON_RETURN_IF_ERROR(ReadTokens(document->root(), source.tokenizer));
    if (source.chat_template.empty()) {
      TENON_ASSIGN_OR_RETURN(source.chat_template, ReadTemplate(document->root()));
    }
  }
  return {};
}

Status ReadTemplateFiles(const fs::path& directory, ModelSource& source) {
  std::error_code error;
  const fs::path path = directory / "chat_template.jinja";
  if (fs::exists(path, error)) {
    TENON_ASSIGN_OR_RETURN(source.chat_template, ReadWholeFile(path, kMaxTemplateBytes));
  } else if (source.chat_template.empty()) {
    TENON_ASSIGN_OR_RETURN(const auto document, ReadIfThere(directory / "chat_template.json"));
    if (document) {
      TENON_ASSIGN_OR_RETURN(source.chat_template, ReadTemplate(document->root()));
    }
  }
  return {};
}

Status ReadStopIds(const fs::path& directory, const JsonValue& config, ModelSource& source) {
  TokenizerSpec& spec = source.tokenizer;
  const int64_t limit = source.config.vocab_size;
  TENON_RETURN_IF_ERROR(ReadIds(config, "eos_token_id", limit, spec.stop_ids));
  TENON_ASSIGN_OR_RETURN(const auto generation, ReadIfThere(directory / "generation_config.json"));
  if (generation)
    TENON_RETURN_IF_ERROR(ReadIds(generation->root(), "eos_token_id", limit, spec.stop_ids));
  if (spec.eos_id < 0 && !spec.stop_ids.empty())
    spec.eos_id = spec.stop_ids.front();
  std::vector<int32_t> begin;
  TENON_RETURN_IF_ERROR(ReadIds(config, "bos_token_id", limit, begin));
  if (spec.bos_id < 0 && !begin.empty())
    spec.bos_id = begin.front();
  return {};
}

}  // namespace

Result<JsonDocument> ReadJsonFile(const fs::path& path) {
  TENON_ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(path, kMaxConfigBytes));
  return JsonDocument::Parse(text, path.string(), JsonDialect::kPython);
}

Status ReadHfTextFiles(const fs::path& directory, const JsonValue& config, ModelSource& source) {
  const fs::path path = directory / "tokenizer.json";
  std::error_code error;
  if (!fs::exists(path, error)) {
    return NotFound(fs::exists(directory / "tokenizer.model", error)
                        ? "missing; tokenizer.model alone can't be read, save the tokenizer again "
                          "with transformers"
                        : "missing",
                    path.string());
  }
  TENON_ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(path, kMaxTokenizerBytes));
  TENON_ASSIGN_OR_RETURN(const JsonDocument document, JsonDocument::Parse(text, path.string()));
  TENON_ASSIGN_OR_RETURN(source.tokenizer,
                         ReadTokenizerJson(document.root(), source.config.vocab_size));
  TENON_RETURN_IF_ERROR(ReadTokenizerConfig(directory, source));
  TENON_RETURN_IF_ERROR(ReadTemplateFiles(directory, source));
  return ReadStopIds(directory, config, source);
}

}  // namespace tenon
