// TokenModel: from a word, as the pre-tokenizers leave it, to tokens: BPE, Unigram, WordPiece or
// whole words, as a tokenizer.json names one.
//
// Control tokens never come out, whatever the word spells. Owns its tables and borrows the
// vocabulary. Threading: const after Create; any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "model/tokenizer/tokenizer_pipeline.h"
#include "model/tokenizer/vocabulary.h"

namespace tenon {

class TokenModel {
 public:
  // The references must outlive the model.
  static std::unique_ptr<TokenModel> Create(const Vocabulary& vocabulary,
                                            const TokenizerPipeline& pipeline);
  virtual ~TokenModel() = default;

  // Appends the ids of `word`, which is not empty.
  virtual void Encode(std::string_view word, std::vector<int32_t>& ids) const = 0;
};

// Parts of Create.
std::unique_ptr<TokenModel> CreateBpeModel(const Vocabulary& vocabulary,
                                           const TokenizerPipeline& pipeline);
std::unique_ptr<TokenModel> CreateUnigramModel(const Vocabulary& vocabulary,
                                               const TokenizerPipeline& pipeline);
std::unique_ptr<TokenModel> CreateWordPieceModel(const Vocabulary& vocabulary,
                                                 const TokenizerPipeline& pipeline);

// Whether plain text may become the token: the model knows it, and it controls nothing.
inline bool IsWordToken(const Vocabulary& vocabulary, const TokenizerPipeline& pipeline,
                        int32_t id) {
  return pipeline.in_model[static_cast<size_t>(id)] && !vocabulary.IsControl(id);
}

}  // namespace tenon
