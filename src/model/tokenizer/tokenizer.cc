#include "model/tokenizer/tokenizer.h"

#include "model/tokenizer/byte_bpe_tokenizer.h"
#include "model/tokenizer/pipeline_tokenizer.h"
#include "model/tokenizer/sentence_piece_tokenizer.h"
#include "model/tokenizer/vocabulary.h"

namespace tenon {

Result<std::unique_ptr<Tokenizer>> Tokenizer::Create(TokenizerSpec spec) {
  const std::string model = spec.model;
  TENON_ASSIGN_OR_RETURN(Vocabulary vocabulary, Vocabulary::Create(std::move(spec)));
  if (model == "gpt2")
    return ByteBpeTokenizer::Create(std::move(vocabulary));
  if (model == "llama")
    return SentencePieceTokenizer::Create(std::move(vocabulary));
  if (model == "pipeline")
    return PipelineTokenizer::Create(std::move(vocabulary));
  return Unsupported("unknown tokenizer \"" + model +
                         "\"; known are gpt2 (byte-level BPE), llama "
                         "(SentencePiece)",
                     "tokenizer.ggml.model");
}

}  // namespace tenon
