// GgufFields: an architecture's hyperparameters in GGUF's metadata, "<architecture>.<key>".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "model/gguf/gguf_metadata.h"
#include "model/model_config.h"
#include "model/model_source.h"

namespace tenon {

// Keys are given without the architecture. Sizes must lie within 1..2^31-1; a size that is an array
// (one element a layer) must have equal elements, because ModelConfig has one value for all layers.
// Floats must be finite and above zero. A field that is not there leaves `out` as it was.
// Borrows the metadata. Threading: const.
class GgufFields {
 public:
  GgufFields(const GgufMetadata& metadata, std::string_view architecture)
      : metadata_(metadata), architecture_(architecture) {}

  Status Mandatory(std::string_view key, int64_t& out) const;
  Status Mandatory(std::string_view key, float& out) const;
  // Zero counts as not there: some converters write it for "none".
  Status Optional(std::string_view key, int64_t& out) const;
  Status Optional(std::string_view key, float& out) const;
  Result<std::optional<bool>> Flag(std::string_view key) const;
  Result<std::string> Text(std::string_view key, std::string_view otherwise) const;

  // kCorrupt, naming the file and the whole key.
  Error Wrong(std::string_view key, std::string_view message) const;
  const GgufMetadata& metadata() const { return metadata_; }

 private:
  std::string Key(std::string_view key) const;
  Result<std::optional<int64_t>> Size(std::string_view key) const;
  Result<int64_t> EqualElements(std::string_view key, const GgufValue& array) const;

  const GgufMetadata& metadata_;
  std::string architecture_;
};

// Fills config.rope except `interleaved`. REQUIRES: head_dim and context_length are known.
Status ReadGgufRope(const GgufFields& fields, ModelConfig& config);

// Fills config.experts for architectures that may have them; a llama with experts becomes mixtral.
Status ReadGgufExperts(const GgufFields& fields, ModelConfig& config);

// BERT's pooling and what it must be.
Status ReadGgufBert(const GgufFields& fields, ModelConfig& config);

// DeepSeek's sizes, rotary parameters and experts. REQUIRES: the sizes that all have are known.
Status ReadGgufDeepseek(const GgufFields& fields, ModelConfig& config);
// Keys and values that have matrices of their own, "blk.N.attn_k_b" and "attn_v_b", become one
// "attn_kv_b", in memory. REQUIRES: source.files has the tensors' bytes.
Status MergeLatentTensors(ModelSource& source);

}  // namespace tenon
