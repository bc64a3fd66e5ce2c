// VocabTokenizer: what byte-level BPE and SentencePiece have in common: special tokens around plain
// text, beginning and end tokens, decoding token by token.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/tokenizer/tokenizer.h"
#include "model/tokenizer/vocabulary.h"

namespace tenon {

class VocabTokenizer : public Tokenizer {
 public:
  std::vector<int32_t> Encode(std::string_view text, SpecialText special,
                              AddSpecial add) const final;
  std::vector<int32_t> EncodeRendered(std::string_view text,
                                      std::span<const size_t> plain_offsets) const final;
  std::vector<size_t> FindControlText(std::string_view text) const final;
  std::string TokenBytes(int32_t id, SpecialText special) const final;
  std::string BytesAfter(int32_t previous, int32_t id, SpecialText special) const final;
  std::string Decode(const std::vector<int32_t>& ids, SpecialText special) const final;
  std::string_view TokenText(int32_t id) const final;

  int32_t vocab_size() const final { return vocabulary_.size(); }
  int32_t bos_id() const final { return vocabulary_.spec().bos_id; }
  int32_t eos_id() const final { return vocabulary_.spec().eos_id; }
  const std::vector<int32_t>& stop_ids() const final { return vocabulary_.stop_ids(); }
  bool add_bos() const final { return vocabulary_.spec().add_bos; }

 protected:
  explicit VocabTokenizer(Vocabulary vocabulary) : vocabulary_(std::move(vocabulary)) {}

  // Where a stretch of plain text stands: SentencePiece puts a space before some.
  enum class Place { kAfterSpecial, kAfterText };  // the start of the text is "after special"

  // Appends the ids of text that holds no special token. REQUIRES: text is not empty.
  virtual void EncodePlain(std::string_view text, Place place, std::vector<int32_t>& ids) const = 0;
  // The bytes of a token that is not a special one.
  virtual std::string PlainBytes(int32_t id) const = 0;
  // Whether EncodePlain puts a space before text that starts after a special token.
  virtual bool AddsSpace() const = 0;

  const Vocabulary& vocabulary() const { return vocabulary_; }

 private:
  // A text with what is to be recognised in it.
  struct Job {
    std::string_view text;
    SpecialText special = SpecialText::kPlain;
    std::span<const size_t> plain_offsets;
  };
  void EncodeText(const Job& job, std::vector<int32_t>& ids) const;
  SpecialMatcher::Match NextSpecial(const Job& job, size_t from) const;

  Vocabulary vocabulary_;
};

}  // namespace tenon
