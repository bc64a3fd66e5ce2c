// MalformedModels (malformed_cases.h).
#include <cmath>
#include <limits>

#include "gguf/malformed_cases.h"

namespace tenon::testing {
namespace {

// TinyLlama with one entry changed.
template <class T>
Bytes With(const std::string& key, T value) {
  return TinyLlama().Set(key, value).Build();
}

Bytes Without(const std::string& key) {
  return TinyLlama().Remove(key).Build();
}

template <class T>
Bytes WithArray(const std::string& key, const std::vector<T>& values) {
  return TinyLlama().SetArray(key, values).Build();
}

Bytes WithStrings(const std::string& key, const std::vector<std::string>& values) {
  return TinyLlama().SetStrings(key, values).Build();
}

Bytes WithoutEmbedding() {
  GgufWriter writer = TinyLlama();
  writer.tensors[0].name = "something.else";
  return writer.Build();
}

std::vector<MalformedCase> Sizes() {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::string heads = "llama.attention.head_count";
  const std::string kv_heads = "llama.attention.head_count_kv";
  return {
      {"architecture-missing", Without("general.architecture"), "general.architecture: missing"},
      {"architecture-number", With("general.architecture", 1U), "u32 found, string expected"},
      {"architecture-long", With("general.architecture", std::string(70, 'a').c_str()), "longer"},
      {"block-count-string", With("llama.block_count", "2"), "string found, an integer"},
      {"block-count-float", With("llama.block_count", 2.0F), "f32 found, an integer"},
      {"block-count-0", With("llama.block_count", 0U), "llama.block_count: 0 found"},
      {"block-count-1", With("llama.block_count", 1U), "has tensors of 2 blocks"},
      {"block-count-100000", With("llama.block_count", 100000U), "has tensors of 2 blocks"},
      {"block-count-2-63", With("llama.block_count", uint64_t{1} << 63), "below 2^63"},
      {"block-count-2-31", With("llama.block_count", uint64_t{1} << 31), "1 to 2^31-1 expected"},
      {"block-count-missing", Without("llama.block_count"), "llama.block_count: missing"},
      {"width-missing", Without("llama.embedding_length"), "llama.embedding_length: missing"},
      {"width-other", With("llama.embedding_length", 64U), "token_embd.weight has rows of 32"},
      {"context-negative", With("llama.context_length", int32_t{-1}), "-1 found"},
      {"heads-0", With(heads, 0U), "llama.attention.head_count: 0 found"},
      {"kv-heads-3", With(kv_heads, 3U), "a divisor of the 2 heads"},
      {"heads-5", TinyLlama().Set(heads, 5U).Remove(kv_heads).Build(), "5 heads don't divide"},
      {"kv-heads-text", With(kv_heads, "1"), "string found"},
      {"kv-heads-differ", WithArray<uint32_t>(kv_heads, {1, 2}), "layer 1 has 2"},
      {"kv-heads-empty", WithArray<uint32_t>(kv_heads, {}), "one a layer, expected"},
      {"kv-heads-floats", WithArray<float>(kv_heads, {1, 1}), "array of integers"},
      {"kv-heads-strings", WithStrings(kv_heads, {"1", "1"}), "array of integers"},
      {"value-length", With("llama.attention.value_length", 8U), "the key length 16 expected"},
      {"eps-nan", With("llama.attention.layer_norm_rms_epsilon", nan), "a finite number expected"},
      {"eps-0", With("llama.attention.layer_norm_rms_epsilon", 0.0F), "above 0 expected"},
      {"eps-missing", Without("llama.attention.layer_norm_rms_epsilon"), "epsilon: missing"},
      {"rope-odd", With("llama.rope.dimension_count", 7U), "an even number up to the head's 16"},
      {"rope-wide", With("llama.rope.dimension_count", 32U), "an even number up to the head's 16"},
      {"rope-base", With("llama.rope.freq_base", -1.0F), "-1 found"},
      {"rope-base-f64", With("llama.rope.freq_base", 1e300), "a float above 0 expected"},
      {"rope-scaling", With("llama.rope.scaling.type", "longrope"), "none, linear or yarn"},
  };
}

std::vector<MalformedCase> Vocabularies() {
  const std::string tokens = "tokenizer.ggml.tokens";
  const std::string types = "tokenizer.ggml.token_type";
  return {
      {"embedding-missing", WithoutEmbedding(), "the tensor token_embd.weight is missing"},
      {"vocabulary-size", With("llama.vocab_size", 5U), "token_embd.weight has 4 rows"},
      {"tokens-3", WithStrings(tokens, {"a", "b", "c"}), "3 tokens found"},
      {"tokens-empty", WithStrings(tokens, {}), "0 tokens found"},
      {"tokens-numbers", WithArray<uint32_t>(tokens, {1, 2, 3, 4}), "array of string expected"},
      {"tokens-missing", Without(tokens), "tokens: missing or empty"},
      {"scores-3", WithArray<float>("tokenizer.ggml.scores", {0, 0, 0}), "there are 4 tokens"},
      {"scores-i32", WithArray<int32_t>("tokenizer.ggml.scores", {0, 0, 0, 0}), "array of f32"},
      {"types-5", WithArray<int32_t>(types, {1, 1, 1, 1, 1}), "there are 4 tokens"},
      {"type-7", WithArray<int32_t>(types, {1, 1, 7, 1}), "token 2 has the unknown type 7"},
      {"merges-number", With("tokenizer.ggml.merges", 1U), "array of string expected"},
      {"eos-text", With("tokenizer.ggml.eos_token_id", "3"), "string found"},
      {"eos-2-40", With("tokenizer.ggml.eos_token_id", uint64_t{1} << 40), "a token id expected"},
      {"add-bos-number", With("tokenizer.ggml.add_bos_token", 1U), "u32 found, bool expected"},
      {"chat-template", With("tokenizer.chat_template", 1U), "string expected"},
      {"tokenizer-model", With("tokenizer.ggml.model", 1U), "string expected"},
  };
}

}  // namespace

std::vector<MalformedCase> MalformedModels() {
  std::vector<MalformedCase> cases = Sizes();
  const std::vector<MalformedCase> more = Vocabularies();
  cases.insert(cases.end(), more.begin(), more.end());
  return cases;
}

}  // namespace tenon::testing
