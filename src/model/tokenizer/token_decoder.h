// TokenDecoder: the bytes of one token as a pipeline's decoders make them.
//
// Decoders are written for whole texts; here each token is decoded as it comes, knowing only
// whether it is the first one and what came before it, which gives the same text. Borrows the
// steps. Threading: const; any thread.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "model/tokenizer/byte_alphabet.h"
#include "model/tokenizer/tokenizer_pipeline.h"

namespace tenon {

class TokenDecoder {
 public:
  explicit TokenDecoder(std::span<const DecoderStep> steps) : steps_(steps) {}

  // A token of a text.
  struct Token {
    std::string_view text;
    bool first = true;
    std::string_view previous;  // the token before; empty for the first
  };
  std::string Bytes(const Token& token) const;

 private:
  void Apply(const decoder::ByteLevel& step, const Token& token, std::string& out) const;
  void Apply(const decoder::ByteFallback& step, const Token& token, std::string& out) const;
  void Apply(const decoder::Replace& step, const Token& token, std::string& out) const;
  void Apply(const decoder::Strip& step, const Token& token, std::string& out) const;
  void Apply(const decoder::Metaspace& step, const Token& token, std::string& out) const;
  void Apply(const decoder::WordPiece& step, const Token& token, std::string& out) const;
  void Apply(const decoder::Bpe& step, const Token& token, std::string& out) const;
  void Apply(const decoder::Fuse& step, const Token& token, std::string& out) const;
  void Apply(const decoder::JoinWithSpaces& step, const Token& token, std::string& out) const;

  std::span<const DecoderStep> steps_;
  ByteAlphabet alphabet_;
};

}  // namespace tenon
