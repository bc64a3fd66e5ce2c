// PipelineTokenizer: a tokenizer as its tokenizer.json says, with the ids of the `tokenizers`
// package.
//
// Added tokens are looked for first, in the text as it stands or after normalizing; what lies
// between them is normalized, cut by the pre-tokenizers and encoded by the model. Unlike there,
// control tokens are always looked for in the text as it stands, and no model makes one from plain
// text.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/tokenizer/piece_splitter.h"
#include "model/tokenizer/special_matcher.h"
#include "model/tokenizer/text_normalizer.h"
#include "model/tokenizer/token_decoder.h"
#include "model/tokenizer/token_model.h"
#include "model/tokenizer/tokenizer.h"
#include "model/tokenizer/vocabulary.h"

namespace tenon {

class PipelineTokenizer final : public Tokenizer {
 public:
  // kCorrupt when the spec's pipeline does not fit its tokens.
  static Result<std::unique_ptr<Tokenizer>> Create(Vocabulary vocabulary);

  std::vector<int32_t> Encode(std::string_view text, SpecialText special,
                              AddSpecial add) const override;
  std::vector<int32_t> EncodeRendered(std::string_view text,
                                      std::span<const size_t> plain_offsets) const override;
  std::vector<size_t> FindControlText(std::string_view text) const override;
  std::string TokenBytes(int32_t id, SpecialText special) const override;
  std::string BytesAfter(int32_t previous, int32_t id, SpecialText special) const override;
  std::string Decode(const std::vector<int32_t>& ids, SpecialText special) const override;
  std::string_view TokenText(int32_t id) const override;

  int32_t vocab_size() const override { return vocabulary_.size(); }
  int32_t bos_id() const override { return vocabulary_.spec().bos_id; }
  int32_t eos_id() const override { return vocabulary_.spec().eos_id; }
  const std::vector<int32_t>& stop_ids() const override { return vocabulary_.stop_ids(); }
  bool add_bos() const override;

 private:
  explicit PipelineTokenizer(Vocabulary vocabulary);

  struct Job {
    std::string_view text;
    SpecialText special = SpecialText::kPlain;
    std::span<const size_t> plain_offsets;
  };
  // A stretch of text: an added token, or what lies between two (id -1).
  struct Stretch {
    size_t begin = 0;
    size_t end = 0;
    int32_t id = -1;
  };

  const TokenizerPipeline& pipeline() const { return *vocabulary_.spec().pipeline; }
  void EncodeText(const Job& job, std::vector<int32_t>& ids) const;
  void EncodeBetween(std::string_view text, PieceSplitter::Place place,
                     std::vector<int32_t>& ids) const;
  void EncodeNormalized(std::string_view text, PieceSplitter::Place place,
                        std::vector<int32_t>& ids) const;
  std::vector<Stretch> FindAdded(const SpecialMatcher& matcher, const Job& job) const;
  bool StandsAlone(std::string_view text, size_t begin, size_t end) const;
  void TakeSpaces(const AddedToken& token, std::string_view text, Stretch& stretch) const;
  // The token's text as decoders get it: normalized tokens come back normalized.
  std::string_view DecodedText(int32_t id) const;
  std::string Bytes(const TokenDecoder::Token& token, int32_t id, SpecialText special) const;

  Vocabulary vocabulary_;
  UnicodeClasses classes_;
  TextNormalizer normalizer_;
  PieceSplitter splitter_;
  TokenDecoder decoder_;
  std::unique_ptr<TokenModel> model_;
  SpecialMatcher raw_;         // added tokens that are looked for in the text as it stands
  SpecialMatcher normalized_;  // those that are looked for in the normalized text
  SpecialMatcher control_;
  std::vector<int32_t> added_index_;      // by id: index into the pipeline's added tokens, or -1
  std::vector<std::string> added_texts_;  // by that index, normalized where the token is
};

}  // namespace tenon
