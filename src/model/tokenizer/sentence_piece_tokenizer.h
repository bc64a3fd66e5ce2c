// SentencePieceTokenizer: GGUF's "llama" model: merges by score over characters, spaces written as
// U+2581, bytes as "<0xXX>" where no piece fits (Llama 2, Mistral, Gemma).
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "base/result.h"
#include "model/tokenizer/pair_merger.h"
#include "model/tokenizer/piece_table.h"
#include "model/tokenizer/vocab_tokenizer.h"

namespace tenon {

class SentencePieceTokenizer : public VocabTokenizer {
 public:
  static Result<std::unique_ptr<Tokenizer>> Create(Vocabulary vocabulary);

 protected:
  void EncodePlain(std::string_view text, Place place, std::vector<int32_t>& ids) const override;
  std::string PlainBytes(int32_t id) const override;
  bool AddsSpace() const override { return vocabulary().spec().add_space_prefix; }

 private:
  explicit SentencePieceTokenizer(Vocabulary vocabulary);

  void AddPiece(int32_t id);
  void EncodeWord(std::string_view word, PairMerger& merger, std::vector<int32_t>& ids) const;
  void EncodeBytes(std::string_view bytes, std::vector<int32_t>& ids) const;
  size_t WordEnd(std::string_view escaped, size_t begin) const;

  PieceTable pieces_;                  // tokens that text may become
  std::array<int32_t, 256> byte_ids_;  // of "<0xXX>"; -1: missing
  std::vector<int16_t> byte_of_;       // by id; -1: not a byte token
  // Characters that some piece has before a space: only there may a merge cross into a new word.
  std::unordered_set<char32_t> before_space_;
};

}  // namespace tenon
