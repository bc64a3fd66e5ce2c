#include "model/tokenizer/token_model.h"

namespace tenon {

std::unique_ptr<TokenModel> TokenModel::Create(const Vocabulary& vocabulary,
                                               const TokenizerPipeline& pipeline) {
  if (std::holds_alternative<BpeOptions>(pipeline.model))
    return CreateBpeModel(vocabulary, pipeline);
  if (std::holds_alternative<UnigramOptions>(pipeline.model))
    return CreateUnigramModel(vocabulary, pipeline);
  return CreateWordPieceModel(vocabulary, pipeline);
}

}  // namespace tenon
