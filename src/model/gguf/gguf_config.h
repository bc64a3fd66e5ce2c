// From GGUF's metadata to ModelConfig and TokenizerSpec.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/result.h"
#include "model/gguf/gguf_metadata.h"
#include "model/model_source.h"

namespace tenon {

// SmolLM3's files don't say which layers have no rotary positions; its models' every fourth.
inline constexpr int64_t kSmolLm3RopeFree = 4;

// Architectures whose metadata is understood and therefore checked.
bool IsKnownGgufArchitecture(std::string_view architecture);

// Fills source.config from `metadata` and the directory in source.tensors (by_name is used), whose
// fused matrices become slices (fused_tensors.h).
// Known architectures: a missing mandatory key, a value of the wrong type or outside its range, or
// one that contradicts the tensors is an error that names the key. Others: what can be read is
// filled in.
Status FillGgufConfig(const GgufMetadata& metadata, ModelSource& source);

// Tokens in the vocabulary, none without one. Nothing is copied.
Result<std::optional<int64_t>> GgufVocabularySize(const GgufMetadata& metadata);

// The tokenizer's tables; a spec without a model name when the file has no tokenizer. Fails when
// arrays that belong together differ in length or have the wrong element type.
Result<TokenizerSpec> ReadGgufTokenizer(const GgufMetadata& metadata);

// The tokenizer that GGUF calls "bert": WordPiece with BERT's normalizer. Ids are checked.
void MakeWordPiece(int32_t separator_id, TokenizerSpec& spec);

}  // namespace tenon
