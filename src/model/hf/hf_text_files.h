// The files of a Hugging Face directory that are about text: tokenizer.json, tokenizer_config.json,
// special_tokens_map.json, generation_config.json and the chat templates.
#pragma once

#include <filesystem>

#include "base/result.h"
#include "model/json/json_document.h"
#include "model/model_source.h"

namespace tenon {

// A small JSON file in Python's dialect.
Result<JsonDocument> ReadJsonFile(const std::filesystem::path& path);

// Fills source.tokenizer and source.chat_template. Ids that end a generation are those of
// config.json and generation_config.json together with the tokenizer's end token. The template is
// the first of chat_template.jinja, tokenizer_config.json's (of several, "default") and
// chat_template.json's. REQUIRES: source.config.vocab_size is known.
Status ReadHfTextFiles(const std::filesystem::path& directory, const JsonValue& config,
                       ModelSource& source);

}  // namespace tenon
