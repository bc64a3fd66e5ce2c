// BPE as the `tokenizers` package runs it: characters become symbols, then ranked merges.
#include <array>

#include "model/tokenizer/named_byte.h"
#include "model/tokenizer/pair_table.h"
#include "model/tokenizer/piece_table.h"
#include "model/tokenizer/token_model.h"
#include "model/tokenizer/utf8.h"

namespace tenon {
namespace {

class BpeModel final : public TokenModel {
 public:
  BpeModel(const Vocabulary& vocabulary, const TokenizerPipeline& pipeline)
      : options_(std::get<BpeOptions>(pipeline.model)),
        pieces_(vocabulary.spec().tokens),
        pairs_(options_.merges.size()) {
    byte_ids_.fill(-1);
    for (int32_t id = 0; id < vocabulary.size(); ++id) {
      if (!IsWordToken(vocabulary, pipeline, id))
        continue;
      pieces_.Add(id);
      if (const int byte = NamedByte(vocabulary.Text(id)); byte >= 0)
        byte_ids_[static_cast<size_t>(byte)] = id;
    }
    // A merge that makes a control token is left out: plain text never becomes one.
    for (size_t rank = 0; rank < options_.merges.size(); ++rank) {
      const BpeOptions::Merge& merge = options_.merges[rank];
      if (!vocabulary.IsControl(merge.merged))
        pairs_.Add(merge.left, merge.right, {static_cast<uint32_t>(rank), merge.merged});
    }
  }

  void Encode(std::string_view word, std::vector<int32_t>& ids) const override {
    if (options_.ignore_merges) {
      if (const int32_t id = pieces_.Find(word); id >= 0) {
        ids.push_back(id);
        return;
      }
    }
    PairMerger merger;
    AddSymbols(word, merger);
    merger.Merge([this](const MergeSymbol& left, const MergeSymbol& right) {
      return pairs_.Find(left.id, right.id);
    });
    for (const MergeSymbol& symbol : merger.symbols()) {
      if (symbol.length != 0)
        ids.push_back(symbol.id);
    }
  }

 private:
  // Unknown text that waits for its symbol; fused when the options say so.
  struct Unknown {
    uint32_t begin = 0;
    uint32_t length = 0;
  };

  // The token of the character [at, end) with what the options put around it.
  int32_t CharToken(std::string_view word, size_t at, size_t end) const {
    const std::string_view text = word.substr(at, end - at);
    const bool plain = (at == 0 || options_.continuing_subword_prefix.empty()) &&
                       (end < word.size() || options_.end_of_word_suffix.empty());
    if (plain)
      return pieces_.Find(text);
    std::string spelled = at == 0 ? std::string() : options_.continuing_subword_prefix;
    spelled += text;
    if (end == word.size())
      spelled += options_.end_of_word_suffix;
    return pieces_.Find(spelled);
  }

  bool AddBytes(std::string_view text, size_t at, PairMerger& merger) const {
    for (const char letter : text) {
      if (byte_ids_[static_cast<uint8_t>(letter)] < 0)
        return false;
    }
    for (size_t i = 0; i < text.size(); ++i)
      merger.Append(static_cast<uint32_t>(at + i), 1, byte_ids_[static_cast<uint8_t>(text[i])]);
    return true;
  }

  void Flush(Unknown& unknown, PairMerger& merger) const {
    if (unknown.length > 0)
      merger.Append(unknown.begin, unknown.length, options_.unknown_id);
    unknown = {};
  }

  // Bytes that stand in for a character do not end a run of unknown text, as in the reference.
  void AddSymbols(std::string_view word, PairMerger& merger) const {
    Unknown unknown;
    for (size_t at = 0; at < word.size();) {
      const uint32_t length = DecodeUtf8(word, at).length;
      const auto begin = static_cast<uint32_t>(at);
      const int32_t id = CharToken(word, at, at + length);
      if (id >= 0) {
        Flush(unknown, merger);
        merger.Append(begin, length, id);
      } else if (!options_.byte_fallback || !AddBytes(word.substr(at, length), at, merger)) {
        if (!options_.fuse_unknown)
          Flush(unknown, merger);
        if (options_.unknown_id >= 0)
          unknown = {unknown.length > 0 ? unknown.begin : begin, unknown.length + length};
      }
      at += length;
    }
    Flush(unknown, merger);
  }

  const BpeOptions& options_;
  PieceTable pieces_;
  PairTable pairs_;
  std::array<int32_t, 256> byte_ids_;  // of "<0xXX>"; -1: missing
};

}  // namespace

std::unique_ptr<TokenModel> CreateBpeModel(const Vocabulary& vocabulary,
                                           const TokenizerPipeline& pipeline) {
  return std::make_unique<BpeModel>(vocabulary, pipeline);
}

}  // namespace tenon
