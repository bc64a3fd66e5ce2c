// WordPiece (longest match first, arXiv 1609.08144) and whole words.
#include "model/tokenizer/piece_table.h"
#include "model/tokenizer/token_model.h"
#include "model/tokenizer/utf8.h"

namespace tenon {
namespace {

class WordPieceModel final : public TokenModel {
 public:
  WordPieceModel(const Vocabulary& vocabulary, const TokenizerPipeline& pipeline)
      : pieces_(vocabulary.spec().tokens) {
    if (const auto* options = std::get_if<WordPieceOptions>(&pipeline.model)) {
      options_ = *options;
      parts_ = true;
    } else {
      options_.unknown_id = std::get<WordLevelOptions>(pipeline.model).unknown_id;
    }
    for (int32_t id = 0; id < vocabulary.size(); ++id) {
      if (IsWordToken(vocabulary, pipeline, id)) {
        pieces_.Add(id);
        longest_ = std::max(longest_, vocabulary.Text(id).size());
      }
    }
  }

  void Encode(std::string_view word, std::vector<int32_t>& ids) const override {
    const size_t before = ids.size();
    if (parts_ ? EncodeParts(word, ids) : EncodeWhole(word, ids))
      return;
    ids.resize(before);
    if (options_.unknown_id >= 0)
      ids.push_back(options_.unknown_id);
  }

 private:
  bool EncodeWhole(std::string_view word, std::vector<int32_t>& ids) const {
    const int32_t id = pieces_.Find(word);
    if (id >= 0)
      ids.push_back(id);
    return id >= 0;
  }

  // False when some rest of the word is in no token: the whole word is unknown then.
  bool EncodeParts(std::string_view word, std::vector<int32_t>& ids) const {
    std::vector<size_t> ends;  // of the characters
    for (size_t at = 0; at < word.size();)
      ends.push_back(at += DecodeUtf8(word, at).length);
    if (static_cast<int64_t>(ends.size()) > options_.longest_word)
      return false;
    size_t begin = 0;
    std::string spelled;
    for (size_t first = 0; first < ends.size();) {
      int32_t id = -1;
      size_t last = ends.size();
      for (; last > first && id < 0; --last) {
        // No token is that long.
        if (ends[last - 1] - begin > longest_)
          continue;
        spelled = begin > 0 ? options_.continuing_subword_prefix : std::string();
        spelled += word.substr(begin, ends[last - 1] - begin);
        id = pieces_.Find(spelled);
      }
      if (id < 0)
        return false;
      ids.push_back(id);
      first = last + 1;  // the loop went one further
      begin = ends[last];
    }
    return true;
  }

  WordPieceOptions options_;
  bool parts_ = false;
  PieceTable pieces_;
  size_t longest_ = 0;  // bytes of a token
};

}  // namespace

std::unique_ptr<TokenModel> CreateWordPieceModel(const Vocabulary& vocabulary,
                                                 const TokenizerPipeline& pipeline) {
  return std::make_unique<WordPieceModel>(vocabulary, pipeline);
}

}  // namespace tenon
