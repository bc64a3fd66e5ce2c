// ByteBpeTokenizer: GGUF's "gpt2" model, byte-level BPE with ranked merges (GPT-2, Llama 3, Qwen,
// SmolLM and most others).
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "model/tokenizer/byte_alphabet.h"
#include "model/tokenizer/nfc.h"
#include "model/tokenizer/pair_table.h"
#include "model/tokenizer/pre_tokenizer.h"
#include "model/tokenizer/vocab_tokenizer.h"

namespace tenon {

class ByteBpeTokenizer : public VocabTokenizer {
 public:
  static Result<std::unique_ptr<Tokenizer>> Create(Vocabulary vocabulary);

 protected:
  void EncodePlain(std::string_view text, Place place, std::vector<int32_t>& ids) const override;
  std::string PlainBytes(int32_t id) const override {
    return alphabet_.Bytes(vocabulary().Text(id));
  }
  bool AddsSpace() const override { return false; }

 private:
  class MergeReader;

  ByteBpeTokenizer(Vocabulary vocabulary, SplitFamily family);
  Status ReadMerges();
  void EncodeWord(std::string_view word, PairMerger& merger, std::vector<int32_t>& ids) const;

  ByteAlphabet alphabet_;
  PreTokenizer pre_tokenizer_;
  bool whole_words_;
  std::unique_ptr<Nfc> nfc_;                        // null: the text is taken as it is
  std::unordered_map<std::string, int32_t> words_;  // bytes of the tokens that text may become
  std::array<int32_t, 256> byte_ids_;               // -1: the vocabulary lacks the byte
  PairTable pairs_;
};

}  // namespace tenon
