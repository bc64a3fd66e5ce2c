// TokenizerSpec: a tokenizer's tables as a model file holds them; Tokenizer (tokenizer.h) is made
// from it. All of it is untrusted: nothing here was checked for sense.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace tenon {

// GGUF's tokenizer.ggml.token_type.
enum class TokenType : uint8_t {
  kUndefined = 0,
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6,
};

struct TokenizerPipeline;

struct TokenizerSpec {
  // GGUF's name: "gpt2" (byte-level BPE), "llama" (SentencePiece); "pipeline": as `pipeline` says.
  std::string model;
  std::string pre;  // pre-tokenizer's name: "smollm", "llama-bpe", "qwen2", ...
  std::vector<std::string> tokens;
  std::vector<float> scores;        // SentencePiece; may be empty
  std::vector<TokenType> types;     // may be empty: all normal
  std::vector<std::string> merges;  // "left right", best first; BPE
  int32_t bos_id = -1;              // -1: none, for all ids
  int32_t eos_id = -1;
  int32_t eot_id = -1;  // end of a turn
  int32_t unknown_id = -1;
  int32_t padding_id = -1;
  std::vector<int32_t> stop_ids;  // further ids that end a generation, from the file
  bool add_bos = false;
  bool add_eos = false;
  bool add_space_prefix = true;
  // Of a tokenizer.json; then merges, scores and the three flags above are not used.
  std::shared_ptr<const TokenizerPipeline> pipeline;
};

}  // namespace tenon
