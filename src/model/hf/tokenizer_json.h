// From a Hugging Face tokenizer.json to a TokenizerSpec.
//
// All of the file's kinds that are not known are refused by name. Errors name the file and the
// field.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "model/json/json_document.h"
#include "model/tokenizer/tokenizer_pipeline.h"
#include "model/tokenizer/tokenizer_spec.h"

namespace tenon {

// The spec's ids for beginning and end are left open: other files of the directory say them. The
// model has `vocab_size` rows of logits: more tokens are an error, fewer are filled up with empty
// ones. 0: not known.
Result<TokenizerSpec> ReadTokenizerJson(const JsonValue& root, int64_t vocab_size);

// Parts of it. Each appends to `pipeline`; a null value appends nothing.
Status ReadNormalizer(const JsonValue& value, TokenizerPipeline& pipeline);
Status ReadPreTokenizer(const JsonValue& value, TokenizerPipeline& pipeline);
Status ReadDecoder(const JsonValue& value, TokenizerPipeline& pipeline);
Status ReadPostProcessor(const JsonValue& value, TokenizerPipeline& pipeline);
// Fills the spec's tokens and the pipeline's model.
Status ReadTokenModel(const JsonValue& value, TokenizerSpec& spec, TokenizerPipeline& pipeline);

// The file's most bytes that are read. Vocabularies of 262144 tokens take 33 MB.
inline constexpr uint64_t kMaxTokenizerBytes = uint64_t{256} << 20;

}  // namespace tenon
